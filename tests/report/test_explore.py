"""The page to play with: words change places, every head is there, and nobody else is asked."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from http.client import HTTPConnection
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest
import torch
from conftest import Refused
from forked import PROGRAM
from samples import planned, stored

from attnexp.runs import manifest, store

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture
def folders(tmp_path: Path) -> list[str]:
    """Two runs of a study, one layer without and two layers with positions."""
    torch.manual_seed(0)
    words = {
        "none": [],
        "learned": ["position.scale=5", "model.layers=2", "model.output_projection=true"],
    }
    (tmp_path / "runs").mkdir()
    runs = [
        stored(tmp_path / "runs" / kind, f"position={kind}", *more) for kind, more in words.items()
    ]
    manifest.record(tmp_path / "mine", planned(("no_pe", 0, "none"), ("pe", 0, "learned")))
    for run in runs:
        store.save(run.path, run.result)
    return [str(run.path) for run in runs]


@pytest.fixture
def address(folders: list[str]) -> Iterator[str]:
    """Address of a page that is served; Ctrl-C ends it."""
    pytest.importorskip("nicegui", reason="nicegui is not installed")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    words = [PROGRAM, "explore", *folders, "--port", str(port)]
    around = {k: v for k, v in os.environ.items() if k != "PYTEST_CURRENT_TEST"}  # NiceGUI heeds it
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=around) as process:
        assert process.stderr is not None
        said = process.stderr.readline()
        yield said.split()[0]
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 0
        assert process.stderr.read() == ""


@pytest.mark.slow
def test_words_change_places_and_only_positions_notice(browser: "Browser", address: str) -> None:
    from playwright.sync_api import expect

    tab = browser.new_page()
    complaints: list[str] = []
    asked: set[str] = set()
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda request: asked.add(request.url))
    for _ in range(100):
        try:
            tab.goto(address)
            break
        except Exception:  # it does not listen yet
            tab.wait_for_timeout(100)
    expect.set_options(timeout=30_000)
    expect(tab.locator("section svg")).to_have_count(2 * (1 + 8))
    expect(tab.get_by_role("heading", level=1)).to_have_text("no_pe, seed 0 and pe, seed 0")
    none, learned = tab.locator("section p:first-of-type").all()
    before = none.inner_text(), learned.inner_text()
    assert "with probability 0." in before[0]
    tab.get_by_role("button", name="superb").click()
    expect(tab.get_by_label("Text")).to_have_value("the cast was but superb the plot was dreadful")
    expect(learned).not_to_have_text(before[1])
    assert none.inner_text() == before[0]
    tokens = tab.locator("section .tokens").last
    colours = [tokens.inner_html()]
    for name in ("layer 2", "gradient", "erasure"):
        tab.get_by_role("button", name=name).click()
        expect(tokens).not_to_have_js_property("innerHTML", colours[-1])
        colours.append(tokens.inner_html())
    tab.get_by_title("Open head 3").last.click()
    expect(tab.get_by_role("dialog")).to_contain_text("Attention, head 3 of 8, layer 2 of 2")
    expect(tab.get_by_role("dialog").locator("svg")).to_contain_text("dreadful")
    tab.keyboard.press("Escape")
    expect(tab.get_by_role("dialog")).to_have_count(0)
    tab.get_by_label("Text").fill("<i>frabjous</i>")
    expect(tab.locator("section")).to_contain_text("frabjous?")
    assert complaints == []
    assert {url for url in asked if not url.startswith(("data:", f"{address}/"))} == set()
    with urlopen(address) as page:
        assert set(re.findall(r"https?://[^\"' <]*", page.read().decode())) <= {address}
    tab.close()


@pytest.mark.slow
def test_only_its_own_page_is_answered(address: str) -> None:
    own = address.removeprefix("http://")
    other = own.replace("127.0.0.1", "localhost")

    def answer(host: str, **headers: str) -> int:
        with closing(HTTPConnection(own, timeout=10)) as connection:
            connection.request("GET", "/", headers={"Host": host, **headers})
            return connection.getresponse().status

    for _ in range(300):
        with suppress(ConnectionRefusedError):
            answer(own)
            break
        time.sleep(0.1)
    for host in (own, other):
        assert (answer(host), answer(host, Origin=f"http://{host}")) == (200, 200)
    for host in ("evil.example", own.replace("127.0.0.1", "evil.example"), "127.0.0.1"):
        assert answer(host) == 403
    for origin in ("http://evil.example", "null", "http://127.0.0.1", f"https://{own}"):
        assert answer(own, Origin=origin) == 403


@pytest.mark.slow
def test_what_cannot_be_shown_is_reported(refused: Refused, folders: list[str]) -> None:
    pytest.importorskip("nicegui", reason="nicegui is not installed")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for words, said in [([folders[0], "--port", port], "--port"), (["nowhere"], "nowhere")]:
            assert said in refused("explore", *words)


def test_without_nicegui_it_says_how_to_get_it(
    refused: Refused, folders: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "nicegui", None)
    assert "pip install 'attnexp[explore]'" in refused("explore", *folders)
