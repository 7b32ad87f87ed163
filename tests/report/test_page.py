"""Pages: whole, safe, readable at any width in either theme, and asking nobody for anything."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from conftest import PUBLISHED, Patch, Refused
from made_up import made_answer, made_group, made_reading
from samples import FEW_TEXTS, NARROW, result

from attnexp.analysis.group import Group
from attnexp.analysis.make_groups import make_groups
from attnexp.analysis.read_runs import load_groups
from attnexp.analysis.rows import as_rows
from attnexp.config.compose import compose
from attnexp.inspect.insight import Attention
from attnexp.report import explore, page
from attnexp.training.run import train_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

Theme = Literal["light", "dark"]
HOSTILE = '<script>document.title = "taken"</script> & {{ 7 * 7 }} $x^2$'
READINGS = [(name, made_reading("good plot", num_padding=2)) for name in ("without", "with")]
LONG = "a_label_without_a_space_that_is_wider_than_any_telephone_ever_made"


def written(folder: Path, *groups: Group, **shown: Any) -> str:
    page.write_page(folder / "page.html", made_answer(*groups), **shown)
    return (folder / "page.html").read_text("utf-8")


def test_blog_is_answered_in_a_small_page_with_the_verdict_first(tmp_path: Path) -> None:
    text = written(tmp_path, *load_groups([PUBLISHED / "blog"]))
    assert text == written(tmp_path, *load_groups([PUBLISHED / "blog"]))
    assert len(text) <= 60_000
    parts = """<h1>pe against no_pe on imdb</h1>|helps by at least 0.25|+2.53 [+2.32, +2.73]|+2.18|
        <img|<table|81.58 <span|Learning curves|<img|How to read this|position=sinusoidal"""
    place = 0
    for part in parts.split("|"):
        place = text.index(part.strip(), place + 1)


def test_what_users_write_is_text_and_nothing_is_asked_of_the_network(tmp_path: Path) -> None:
    groups = [made_group("none", HOSTILE), made_group("alone", data=HOSTILE)]
    text = written(tmp_path, *groups, readings=[(HOSTILE, made_reading(HOSTILE))])
    assert text.count("{{ 7 * 7 }}") > 4
    assert "Over all data sets" not in text
    assert "There is no verdict: no two variants share a seed." in text
    assert "default-src 'none'" in text
    assert not re.search(r"<(script|iframe|object|embed|base|link)|@import|url\(", text)
    addresses = re.findall(r' (?:src|href)="([^"]*)', text)
    assert all(address.startswith("data:image/svg+xml;base64,") for address in addresses)


def test_data_sets_end_with_their_mean_and_models_stand_side_by_side(tmp_path: Path) -> None:
    groups = [made_group("none", "pe"), made_group("none", "pe", data="cr")]
    text = written(tmp_path, *groups, readings=READINGS)
    assert "Over all data sets" in text
    assert text.count("<p>padding: 50 %</p>") == 2
    assert text.index("<bdi>without</bdi>") < text.index("<bdi>with</bdi>")
    assert text.count("positive, with probability 0.7500") == 2
    assert text.count("mean of the heads of the first layer</figcaption><img") == 2


def test_the_code_that_made_runs_is_named_once(tmp_path: Path) -> None:
    rows = [as_rows(result("a", seed, [0.8])) for seed in (0, 1)]
    assert written(tmp_path, *make_groups(rows, {})).count("attnexp 0.1 (commit ccccc") == 1


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_in_a_browser(browser: "Browser", tmp_path: Path, theme: Theme) -> None:
    """Fits a phone and a screen, complains of nothing, asks for nothing."""
    groups = [made_group("none", HOSTILE, LONG, *"abcdefg"), *load_groups([PUBLISHED / "position"])]
    written(tmp_path, *groups, readings=[*READINGS, (LONG, made_reading(f"{LONG} a b c"))])
    file, heard = (tmp_path / "page.html").as_uri(), list[str]()
    tab = browser.new_page(color_scheme=theme)
    tab.on("console", lambda message: heard.append(message.text))
    tab.on("request", lambda request: heard.append(request.url))
    for width in (400, 1200):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.goto(file)
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert tab.evaluate(
            "[...document.querySelectorAll('img')].every(it => it.clientWidth > 200)"
        )
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) > 3 * 128) is (theme == "light")
    assert {url for url in heard if not url.startswith("data:")} == {file}
    assert tab.title() != "taken"
    tab.close()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two runs, one layer without and two layers with positions."""
    out = tmp_path_factory.mktemp("runs")
    words: tuple[list[str], list[str]] = [], ["position=learned", "model.layers=2"]
    return [str(train_run(compose([*FEW_TEXTS, *NARROW, f"out={out}", *own]))[0]) for own in words]


@pytest.fixture
def address(folders: list[str]) -> Iterator[str]:
    pytest.importorskip("nicegui", reason="nicegui is not installed")
    with socket.socket() as probe:
        probe.bind((explore.HOST, 0))
        port = probe.getsockname()[1]
    program = [sys.executable, "-c", "from attnexp.cli import app; app()", "explore", *folders]
    around = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}  # NiceGUI heeds it
    with subprocess.Popen([*program, "--port", str(port)], env=around) as process:
        for _ in range(600):
            time.sleep(0.1)
            with socket.socket() as probe:
                if probe.connect_ex((explore.HOST, port)) == 0:
                    break
        yield f"http://{explore.HOST}:{port}"
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0


def test_a_picture_has_the_full_colour_at_its_largest_weight() -> None:
    weights = np.array([[[0.2, 0.1], [0, 0.2]]], np.float32)
    attention = Attention(weights=weights, to_padding=np.zeros((1, 2), np.float32))
    pixels = np.asarray(explore.picture(attention))
    orange = [240, 130, 20]
    white = [255, 255, 255]
    assert pixels.tolist() == [[orange, [247, 192, 137]], [white, orange]]
    nothing = replace(attention, weights=0 * weights)
    assert np.asarray(explore.picture(nothing)).tolist() == [[white] * 2] * 2


@pytest.mark.slow
def test_a_text_is_read_by_every_model(browser: "Browser", address: str) -> None:
    from playwright.sync_api import expect

    tab, complaints, asked = browser.new_page(), list[str](), set[str]()
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda request: asked.add(request.url))
    tab.goto(address)
    expect.set_options(timeout=30_000)
    expect(tab.locator("img")).to_have_count(1 * 2 + 2 * 2)
    expect(tab.locator("bdi")).to_have_count(2 * 10)
    expect(tab.locator("body")).to_contain_text(", with probability 0.")
    picture = tab.locator("img").last
    first = picture.get_attribute("src") or ""
    tab.get_by_label("Text").fill("<b>frabjous</b>")
    expect(picture).not_to_have_attribute("src", first)
    expect(tab.locator("body")).to_contain_text("No known word")
    expect(tab.locator("body")).to_contain_text("frabjous?")
    assert complaints == []
    assert {url for url in asked if not url.startswith(("data:", f"{address}/"))} == set()
    tab.close()
    with pytest.raises(HTTPError, match="400"):
        urlopen(Request(address, headers={"Host": "evil.example"}))


def test_without_nicegui_it_says_how_to_get_it(monkeypatch: Patch, refused: Refused) -> None:
    monkeypatch.setitem(sys.modules, "nicegui", None)
    assert "pip install 'attnexp[explore]'" in refused("explore", "run")
