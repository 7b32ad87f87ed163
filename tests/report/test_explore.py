"""The page to play with: every head of every model is there, and nobody else is asked."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import numpy as np
import pytest
from typer.testing import CliRunner

from attnexp.cli import app
from attnexp.config.compose import compose
from attnexp.inspect.insight import Attention
from attnexp.report import explore
from attnexp.training.run import train_run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

SMALL = """data=contrast data.limit_train=64 data.limit_test=48 train.epochs=1 model.d_model=8
model.heads=2 model.d_head=4 train.threads=1""".split()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Two runs, one layer without and two layers with positions."""
    out = tmp_path_factory.mktemp("runs")
    words: tuple[list[str], list[str]] = [], ["position=learned", "model.layers=2"]
    return [str(train_run(compose([*SMALL, f"out={out}", *own]))[0]) for own in words]


@pytest.fixture
def address(folders: list[str]) -> Iterator[str]:
    """Address of a page that is served; Ctrl-C ends it."""
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
    assert pixels.tolist() == [[orange, [247, 192, 137]], [[255, 255, 255], orange]]


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


def test_without_nicegui_it_says_how_to_get_it(
    folders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nicegui", None)
    done = CliRunner().invoke(app, ["explore", *folders])
    assert "pip install 'attnexp[explore]'" in " ".join(done.stderr.split())
