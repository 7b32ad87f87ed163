"""Pages: whole, safe, readable at any width in either theme, and asking nobody for anything."""

import re
from pathlib import Path
from typing import Any

import pytest
from made_up import made_answer, made_group, made_reading, published

from attnexp.analysis.group import Group
from attnexp.report import page

HOSTILE = '<script>document.title = "taken"</script> & {{ 7 * 7 }} $x^2$'
READINGS = [(name, made_reading("good plot", num_padding=2)) for name in ("without", "with")]
LONG = "a_label_without_a_space_that_is_wider_than_any_telephone_ever_made"


def written(folder: Path, *groups: Group, **shown: Any) -> str:
    page.write_page(folder / "page.html", made_answer(*groups), **shown)
    return (folder / "page.html").read_text("utf-8")


def test_blog_is_answered_in_a_small_page_with_the_verdict_first(tmp_path: Path) -> None:
    text = written(tmp_path, *published("blog").groups)
    assert len(text) <= 60_000
    parts = """<h1>pe against no_pe on imdb</h1>|helps by at least 0.25|+2.53 [+2.32, +2.73]|<img|
        <table|81.58 ±|Learning curves|<img|How to read this|position=sinusoidal"""
    pattern = ".*".join(re.escape(part.strip()) for part in parts.split("|"))
    assert re.search(pattern, text, re.DOTALL)
    assert text.count("Software: attnexp version") == 4  # of 80 runs
    text = written(tmp_path, *published("blog", "blog_holdout").groups)
    assert text.index("<b>best</b>: one") < text.index("<b>chosen (test)</b>: the epoch")
    assert text.count("imdb, epoch chosen on held-out data</h") == 2


def test_what_users_write_is_text_and_nothing_is_asked_of_the_network(tmp_path: Path) -> None:
    groups = [made_group("none", HOSTILE), made_group("alone", data=HOSTILE)]
    text = written(tmp_path, *groups, readings=[(HOSTILE, made_reading(HOSTILE))])
    assert text.count("{{ 7 * 7 }}") > 4
    assert "There is no verdict: no two variants share a seed." in text
    assert "default-src 'none'" in text
    assert not re.search(r"<(script|iframe|object|embed|base|link)|@import|url\(", text)
    for address in re.findall(r' (?:src|href)="([^"]*)', text):
        assert address.startswith("data:image/svg+xml;base64,")


def test_data_sets_begin_with_their_mean_and_models_stand_side_by_side(tmp_path: Path) -> None:
    groups = [made_group("none", "pe"), made_group("none", "pe", data="cr")]
    text = written(tmp_path, *groups, readings=READINGS)
    assert text.index("Over all data sets") < text.index("Verdict on imdb")
    assert text.count("<p>padding: 50 %</p>") == 2
    assert text.index("<bdi>without</bdi>") < text.index("<bdi>with</bdi>")
    assert text.count("positive, with probability 0.7500") == 2
    assert text.count("mean of the heads of the first layer</figcaption><img") == 2


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_in_a_browser(browser: Any, tmp_path: Path, theme: str) -> None:
    """Fits a phone and a screen, complains of nothing, asks for nothing."""
    groups = [made_group("none", HOSTILE, LONG, *"abcdefg"), *published("position").groups]
    written(tmp_path, *groups, readings=[*READINGS, (LONG, made_reading(f"{LONG} a b c"))])
    file = (tmp_path / "page.html").as_uri()
    tab = browser.new_page(color_scheme=theme)
    heard = list[str]()
    tab.on("console", lambda message: heard.append(message.text))
    tab.on("request", lambda request: heard.append(request.url))
    for width in (400, 1200):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.goto(file)
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        images = "[...document.querySelectorAll('img')]"
        assert tab.evaluate(f"{images}.every(it => it.clientWidth > 200)")
    red = "getComputedStyle(document.body).backgroundColor.match(/[0-9]+/)[0]"
    assert tab.evaluate(f"{red} > 128") is (theme == "light")
    assert {url for url in heard if not url.startswith("data:")} == {file}
    assert tab.title() != "taken"
    tab.close()
