"""The page: whole, safe, readable at any width in either theme, and asking nobody for anything."""

import base64
import csv
import io
import json
import re
from dataclasses import replace
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

import numpy as np
import pytest
from samples import CONTRAST_WORDS, Parsed, blog, but, contrast_ratio, made, page, renamed, stored

from attnexp.analysis.comparison import Comparison, compare
from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.schema import to_dict
from attnexp.inspect import insight
from attnexp.report import formats, html, inside
from attnexp.runs import store
from attnexp.runs.arrays import WEIGHTS
from attnexp.runs.result import Run

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.usefixtures("without_pictures")  # of all pages but `full`

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")

HOSTILE = '<script>document.title = "taken"</script> & {{ 7 * 7 }} $x^2$ {}'
LONG = "a_label_without_a_space_that_is_wider_than_any_telephone_ever_made {}"


@pytest.fixture(scope="module")
def with_weights(tmp_path_factory: pytest.TempPathFactory) -> list[Run]:
    """Two variants whose folders hold their weights and words."""
    out = tmp_path_factory.mktemp("runs")
    found = []
    for kind in ("none", "sinusoidal"):
        run = stored(out / kind, f"position={kind}", "model.d_model=128")
        found.append(replace(but(run, run_id=kind), label=kind))
    return found


@pytest.fixture(scope="module")
def everything(with_weights: list[Run]) -> list[Run]:
    """Several data sets and protocols; many variants; labels from hell; n of 3, 2 and 1; a model
    that is no network."""
    many = blog(others=("pe", "c", "d"))
    hostile, long = renamed(blog()[1:2], HOSTILE), renamed(blog()[1:2], LONG)
    for run in (*hostile, *long):
        run.result.config["model"]["heads"] = 4 if run in hostile else 2
    holdout = [
        *(made("a", seed, "train=holdout", epochs=1) for seed in range(2)),
        *(made("b", seed, "train=holdout", "position=rotary", epochs=1) for seed in range(2)),
    ]
    tfidf = but(made("tfidf", 0, epochs=1), config=to_dict(compose(["model=tfidf"])))
    return [*many, *hostile, *long, tfidf, *holdout, *with_weights]


@pytest.fixture(scope="module")
def full(everything: list[Run]) -> str:
    return page(everything)


# The content


def test_what_users_write_is_text(full: str) -> None:
    parsed = Parsed(full)
    assert "script" not in parsed.tags
    assert HOSTILE.format("pe").replace("  ", " ") in parsed.text
    run = made("a", 0)
    argv = {"argv": ["/bin/attnexp", "<b>bold</b>", "two words"], "commit": None}
    other = replace(run, result=replace(run.result, provenance=argv))
    parsed = Parsed(page([other]))
    assert "attnexp '<b>bold</b>' 'two words'" in parsed.text
    assert "commit" not in parsed.text


def test_nothing_is_asked_of_the_network_and_all_that_is_referred_to_is_there(full: str) -> None:
    parsed = Parsed(full)
    assert not {"script", "iframe", "object", "embed", "base"} & set(parsed.tags)
    for _, name, value in parsed.attributes:
        assert "://" not in value, (name, value)
        if name in ("src", "href") and value:
            assert value.startswith(("data:", "#"))
    style = full[full.index("<style>") : full.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert "default-src 'none'" in full
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    referred = set(re.findall(r'url\(#([^)]+)\)| href="#([^"]+)"', full))
    names = {name for pair in referred for name in pair if name}
    assert names | set(parsed.values("aria-labelledby")) <= set(ids)
    labels = [v for tag, key, v in parsed.attributes if (tag, key) == ("svg", "aria-label")]
    assert len(labels) == parsed.tags.count("svg") == parsed.tags.count("figure")
    assert all(labels)


def test_downloads_hold_all_of_the_data(everything: list[Run], full: str) -> None:
    held = {}
    links = Parsed(full).attributes
    names = [value for tag, key, value in links if (tag, key) == ("a", "download")]
    hrefs = [value for tag, key, value in links if (tag, key) == ("a", "href")]
    for name, href in zip(names, hrefs, strict=True):
        held[name] = base64.b64decode(href.partition(",")[2]).decode()
    check_downloads(held, everything, compare(everything))


def check_downloads(held: dict[str, str], found: list[Run], comparisons: list[Comparison]) -> None:
    assert held["comparison.json"] == formats.as_json(comparisons)
    assert json.loads(held["runs.json"]) == [
        {"variant": run.label, **run.result.to_json()} for run in found
    ]
    rows = list(csv.DictReader(io.StringIO(held["figures.csv"])))
    assert {row["variant"] for row in rows} == {v.label for c in comparisons for v in c.variants}


@pytest.mark.parametrize(
    ("labels", "others", "title"),
    [
        (["none", "pe"], [], "pe against none on imdb"),
        (["none", "pe"], ["none", "pe"], "pe against none on imdb, sst2"),
        (["none", "pe"], ["none", "rotary"], "2 variants against none on imdb, sst2"),
        (["none", "pe"], ["pe", "none"], "2 variants on imdb, sst2"),
    ],
)
def test_the_title_counts_variants_once(labels: list[str], others: list[str], title: str) -> None:
    runs = [made(label, 0) for label in labels]
    runs += [made(label, 0, "data=sst2") for label in others]
    assert f"<h1>{title}</h1>" in page(runs)


def test_one_run_has_no_verdict_and_a_reason() -> None:
    text = Parsed(page([made("alone", 0)])).text
    assert "No verdict: there is one variant, alone" in text
    text = Parsed(page([made("a", 0), made("b", 1, "model.heads=4")])).text
    assert "no variant is paired with a" in text
    assert "b and a share no seed" in text
    one = made("a", 0)
    text = Parsed(page([one, replace(one, label="twin")])).text
    assert "twin and a are the same runs in every seed that they share" in text


def test_the_page_is_written_whole_or_a_message_says_why(tmp_path: Path) -> None:
    found = [made("a", 0)]
    comparisons = compare(found)
    html.write(tmp_path / "report.html", found, comparisons)
    assert (tmp_path / "report.html").read_text("utf-8") == html.page(found, comparisons)
    for place in (tmp_path / "nowhere" / "report.html", tmp_path):
        with pytest.raises(UserError, match="cannot be written"):
            html.write(place, found, comparisons)
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_a_large_study_has_its_data_beside_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page shows what it would show with the data inside."""
    monkeypatch.setattr(html, "MAX_BYTES_INSIDE", 10_000)
    found = blog()
    comparisons = compare(found)
    html.write(tmp_path / "my report.html", found, comparisons)
    parsed = Parsed((tmp_path / "my report.html").read_text("utf-8"))
    links = [value for tag, key, value in parsed.attributes if (tag, key) == ("a", "href")]
    assert links == [
        f"my%20report_files/{name}" for name in ("comparison.json", "runs.json", "figures.csv")
    ]
    held = {Path(unquote(link)).name: (tmp_path / unquote(link)).read_text() for link in links}
    check_downloads(held, found, comparisons)
    inside = Parsed(html.page(found, comparisons))
    shown, footer = parsed.text.split("Made from 6 runs by attnexp.")
    assert shown == inside.text.split("Made from 6 runs by attnexp.")[0]
    assert "in my report_files/" in footer
    assert parsed.tags == inside.tags


def test_text_has_contrast_in_both_themes() -> None:
    template = resources.files("attnexp.report").joinpath("style.html").read_text("utf-8")
    light, dark = re.findall(r":root \{(.*?)\}", template, flags=re.S)
    for theme in (light, dark):
        colour = dict(re.findall(r"--([\w]+): (#[0-9a-f]{6})", theme))
        for name in ("ink", "muted", "helps", "hurts", "equivalent", "inconclusive"):
            for ground in ("paper", "card"):
                assert contrast_ratio(colour[name], colour[ground]) >= 4.5, (name, ground)
        for i in range(5):
            assert contrast_ratio(colour[f"s{i}"], colour["paper"]) >= 4.5


# The inside of a model


def test_a_page_shows_two_models_side_by_side(with_weights: list[Run]) -> None:
    assert inside.choose(with_weights) == with_weights
    text = Parsed(page(with_weights)).text
    assert "Inside two models" in text
    assert f"What is read: “{insight.SENTENCE}”." in text
    assert text.index("none, seed 0") < text.index("sinusoidal, seed 0")
    assert text.lower().count("mean of 8 heads") == 2
    assert text.count("The sinusoidal table: 24 positions × 128 columns") == 1
    assert text.count("There is no table of positions with position=none.") == 1


def test_a_page_shows_the_models_and_the_sentence_that_were_asked_for(
    with_weights: list[Run],
) -> None:
    text = Parsed(
        page(with_weights, with_weights[1], sentence="<b>the plot</b> was frabjous" * 9)
    ).text
    assert "Inside one model" in text
    assert "sinusoidal, seed 0" in text
    assert "none, seed 0" not in text
    assert "“<b>the plot</b> was frabjous" in text
    assert "of its words did not fit" in text
    assert insight.SENTENCE not in text


def test_baselines_and_tables_of_positions_are_shown_before_others() -> None:
    none, rotary, table = (
        made(name, 0, f"position={name}") for name in ("none", "rotary", "sinusoidal")
    )
    mean = made("mean", 0, "model=mean")
    assert inside.choose([mean, none, rotary, table]) == [none, table]
    assert inside.choose([none, mean, rotary]) == [none, rotary]
    assert inside.choose([mean, table]) == [table]
    assert inside.choose([mean]) == []


def test_a_model_that_cannot_be_shown_says_why() -> None:
    assert "No variant has attention." in page([made("a", 0, "model=mean")])
    assert f"{WEIGHTS} is missing." in page([made("a", 0)])
    mean = made("a", 0, "model=mean")
    assert "model=mean has no attention." in page([mean], mean)


def test_attention_is_the_models_own(with_weights: list[Run]) -> None:
    look = insight.look(with_weights[1])
    reading = look.reading
    assert reading is not None
    seen = reading.attention()
    assert reading.tokens == ["⟨start⟩", *insight.SENTENCE.split()]
    assert seen.weights.shape == (8, 10, 10)
    assert seen.num_padding == 14
    rows = seen.weights.sum(axis=-1).mean() + seen.on_padding
    assert rows == pytest.approx(1, abs=1e-5)
    assert 0 <= reading.probabilities["positive"] <= 1
    assert look.table is not None
    np.testing.assert_allclose(look.table[0, :2], 1)  # cos(0), layout split


@pytest.mark.parametrize(
    ("words", "num_tokens", "on_padding"),
    [
        (["model.pooling=cls"], 11, None),
        (["model.layers=2", "model.residual=true", "model.output_projection=true"], 10, None),
        (["model=cnn_attention"], 10, None),
        (["data.pad=post", "data.truncate=post", "mask=padding"], 10, 0.0),
        (["data.max_len=4", "position=shuffled"], 4, 0.0),
        (["data.max_len=4", "data.truncate=post", "position=learned"], 4, 0.0),
        (["position=relative", "mask=causal"], 10, None),
    ],
)
def test_any_model_with_attention_can_be_shown(
    tmp_path: Path, words: list[str], num_tokens: int, on_padding: float | None
) -> None:
    run = stored(tmp_path, *words)
    look = insight.look(run)
    reading = look.reading
    assert reading is not None
    seen = reading.attention()
    assert len(reading.layers) == (2 if "model.layers=2" in words else 1)
    assert len(reading.tokens) == seen.weights.shape[1] == seen.weights.shape[2] == num_tokens
    if on_padding is not None:
        assert seen.on_padding == pytest.approx(on_padding)
    if "data.max_len=4" in words:
        kept = reading.tokens == ["the", "plot", "was", "dreadful"]
        assert kept is ("data.truncate=post" not in words)
    assert (look.table is not None) == any(word.startswith("position=") for word in words[-1:]
                                           if "relative" not in words[0])  # fmt: skip


def test_nobody_elses_code_is_shown_unasked() -> None:
    """Whether a class stands as `kind` or as plain text in a piece's place."""
    run = made("a", 0)

    def with_config(section: dict[str, Any]) -> Run:
        config = {**run.result.config, **section}
        return replace(run, result=replace(run.result, config=config))

    for section in (
        {"model": {**run.result.config["model"], "pooling": "evil:Pool"}},
        {"model": {**run.result.config["model"], "kind": "evil:Layers"}},
        {"position": "evil.positions:Position"},
        {"mask": {"kind": "attnexp_evil.mask:Mask"}},
    ):
        assert inside.choose([with_config(section)]) == []
    assert inside.choose([run]) == [run]


def test_words_that_a_model_does_not_know_are_marked(tmp_path: Path) -> None:
    known = [word for word in CONTRAST_WORDS if word not in ("superb", "was")]
    run = stored(tmp_path, words_of_it=known)
    reading = insight.look(run).reading
    assert reading is not None
    assert reading.unknown == ["was", "superb"]
    assert reading.marked[3:5] == ["was?", "superb?"]
    assert "(was, superb)" in Parsed(page([run])).text


def test_a_word_that_turns_the_direction_of_writing_turns_no_other(
    with_weights: list[Run],
) -> None:
    source = page(with_weights, with_weights[1], sentence="the \u202eplot")
    around = re.findall(r"<(\w+)[^<>]*>[^<>]*\u202e", source)
    assert {*around} == {"bdi"}


def test_without_words_there_is_the_table_and_a_reason(tmp_path: Path) -> None:
    run = stored(tmp_path, "position=learned", "position.scale=0.5", words_of_it=[])
    text = Parsed(page([run])).text
    assert "trained on word ranks without their words" in text
    assert "The learned table: 24 positions × 16 columns" in text
    (tmp_path / store.VOCABULARY).unlink()
    assert f"{store.VOCABULARY} is missing" in page([run])
    (tmp_path / WEIGHTS).write_bytes(b"not weights")
    look = insight.look(run)
    assert look.reading is None
    assert look.table is None
    assert f"{WEIGHTS} is damaged" in look.missing[0]


# In a browser


@pytest.mark.slow
@pytest.mark.parametrize("theme", THEMES)
def test_the_page_in_a_browser(browser: "Browser", full: str, theme: Theme, tmp_path: Path) -> None:
    """Fits a phone and a screen, complains of nothing, asks for nothing."""
    file = tmp_path / "report.html"
    file.write_text(full, "utf-8")
    tab = browser.new_page(color_scheme=theme)
    complaints: list[str] = []
    asked: list[str] = []
    tab.on("console", lambda message: complaints.append(message.text))
    tab.on("pageerror", lambda error: complaints.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    for width in (390, 1280):
        tab.set_viewport_size({"width": width, "height": 900})
        tab.goto(file.as_uri())
        tab.evaluate("document.querySelectorAll('details').forEach(it => it.open = true)")
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert tab.evaluate("[...document.querySelectorAll('svg')].every(it => it.clientWidth)")
        assert tab.evaluate(
            "document.querySelector('#verdict').getBoundingClientRect().top"
            " <= Math.min(...[...document.querySelectorAll('table, figure')]"
            ".map(it => it.getBoundingClientRect().top))"
        )
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    brightness = sum(map(int, re.findall(r"\d+", ground)[:3])) / 3
    assert (brightness > 128) is (theme == "light")
    with tab.expect_download() as waiting:
        tab.click("a[download='comparison.json']")
    assert waiting.value.suggested_filename == "comparison.json"
    assert {url for url in asked if not url.startswith("data:")} == {file.as_uri()}
    assert complaints == []
    assert tab.title() != "taken"
    tab.close()
