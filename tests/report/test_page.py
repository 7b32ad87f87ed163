"""The page: whole, safe, readable at any width in either theme, and asking nobody for anything."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd
import pytest
from made_up import made_group, made_reading
from samples import result

from attnexp.analysis.frames import Group, load
from attnexp.base.errors import UserError
from attnexp.inspect import insight
from attnexp.report import page
from attnexp.runs import store
from attnexp.runs.result import Run
from attnexp.statistics.verdict import Metric

if TYPE_CHECKING:
    from playwright.sync_api import Browser

PUBLISHED = Path(__file__).parents[2] / "outputs" / "published"
HOSTILE = '<script>document.title = "taken"</script> & {{ 7 * 7 }} $x^2$'
LONG = "a_label_without_a_space_that_is_wider_than_any_telephone_ever_made"


def written(folder: Path, *groups: Group, **shown: Any) -> str:
    """The page of some groups."""
    page.write(folder / "page.html", groups, [Metric()], **shown)
    return (folder / "page.html").read_text("utf-8")


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> list[Run]:
    """Two runs, whose models read every text alike."""
    monkeypatch.setattr(insight, "reader", lambda run, *, trust_code: made_reading)
    return [result(name, 0, [0.8], f"position={name}") for name in ("none", "sinusoidal")]


def test_blog_is_answered_in_a_small_page_with_the_verdict_first(tmp_path: Path) -> None:
    text = written(tmp_path, *load([PUBLISHED / "blog"]))
    assert text == written(tmp_path, *load([PUBLISHED / "blog"]))
    assert len(text) < 150_000
    pictures = "".join(re.findall(r"<svg.*?</svg>", text, flags=re.DOTALL))
    assert not re.search(r"#[0-9a-f]{6};|<metadata|<style|<\?", pictures)  # of the page's theme
    parts = """<h1>pe against no_pe on imdb</h1>|helps by at least 0.25 points|+2.53 [+2.32, +2.73]|
        <svg|<table|81.58 <span|Learning curves|<svg|How to read this|position=sinusoidal"""
    place = 0
    for part in parts.split("|"):
        place = text.index(part.strip(), place + 1)


def test_what_users_write_is_text_and_nothing_is_asked_of_the_network(
    tmp_path: Path, models: list[Run]
) -> None:
    groups = [made_group("none", HOSTILE), made_group("alone", data=HOSTILE)]
    text = written(tmp_path, *groups, runs=models, sentence=HOSTILE)
    assert text.count("{{ 7 * 7 }}") > 4
    assert "There is no verdict: no two variants share a seed." in text
    assert "default-src 'none'" in text
    assert not re.search(r"<(script|iframe|object|embed|base|link)|@import", text)
    values = {value.split(",")[0] for value in re.findall(r' (?:src|href)="([^#"][^"]*)', text)}
    assert {value for value in values if not value.startswith("data:image/png")} == set()
    ids = re.findall(r' id="([^"]*)"', text)
    assert len(ids) == len({*ids})
    assert {*re.findall(r'(?:url\(|href=")#([^)"]+)', text)} == {*ids}


def test_models_stand_side_by_side(tmp_path: Path, models: list[Run]) -> None:
    text = written(tmp_path, made_group("none", "pe"), runs=models, sentence="good plot")
    assert text.index("none, seed 0") < text.index("sinusoidal, seed 0")
    assert text.count("The model says positive, with probability 0.7500.") == 2
    for word in ("good", "plot"):  # uniform attention is a quarter of the way to orange
        assert text.count(f'<bdi style="background: rgb(251,224,196)">{word}</bdi>') == 2


def test_without_a_choice_two_runs_with_attention_are_shown_or_a_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(run: Run, *, trust_code: bool) -> None:
        raise UserError(f"{run.path} has no <weights>.")

    words = {"mean": "model=mean", "a": "position=none", "b": "mask=causal", "c": "model.heads=4"}
    found = {Path(name): result(name, 0, [0.8], word).result for name, word in words.items()}
    monkeypatch.setattr(store, "load", found.__getitem__)
    monkeypatch.setattr(insight, "reader", refuse)
    about = {"variant": [*words], "seed": "0", "run_id": "1", "folder": [*found]}
    text = written(tmp_path, made_group(*words, runs=pd.DataFrame(about)))
    assert re.findall(r"(\w+) has no &lt;weights&gt;", text) == ["a", "b"]
    assert "attnexp 0.1, commit ccccc" in text


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_in_a_browser(
    browser: "Browser", tmp_path: Path, models: list[Run], theme: Literal["light", "dark"]
) -> None:
    """Fits a phone and a screen, complains of nothing, asks for nothing."""
    groups = [made_group("none", HOSTILE, LONG, *"abcdefg"), *load([PUBLISHED / "position"])]
    written(tmp_path, *groups, runs=models, sentence=f"{LONG} a b c")
    file, heard = (tmp_path / "page.html").as_uri(), list[str]()
    tab = browser.new_page(color_scheme=theme)
    tab.on("console", lambda message: heard.append(message.text))
    tab.on("request", lambda request: heard.append(request.url))
    for width in (400, 1200):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.goto(file)
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert tab.evaluate(
            "[...document.querySelectorAll('svg')].every(it => it.clientWidth > 200)"
        )
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, re.findall(r"\d+", ground)[:3])) > 3 * 128) is (theme == "light")
    assert {url for url in heard if not url.startswith("data:")} == {file}
    assert tab.title() != "taken"
    tab.close()
