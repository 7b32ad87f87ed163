"""Pictures: coloured by the page, safe inside it, the same every time."""

import re
from collections.abc import Callable
from xml.etree import ElementTree

import numpy as np
import pytest
from numpy.typing import NDArray
from samples import blog, made, only, renamed

from attnexp.analysis.summary import Variant
from attnexp.report import cells, figures
from attnexp.report.canvas import Picture
from attnexp.statistics.paired import Paired, paired


def variants(*words: str) -> list[Variant]:
    return only(blog(*words)).variants


def pair(n: int) -> Paired:
    values = {str(i): 0.8 + i % 7 / 1000 for i in range(n)}
    found = paired(values, dict.fromkeys(values, 0.8))
    assert found
    return found


def map_of(size: int) -> NDArray[np.float64]:
    return np.random.default_rng(0).random((size, size))


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("text")]


EVERY: dict[str, Callable[[], Picture]] = {
    "learning": lambda: figures.learning(variants(), "val_loss"),
    "by_seed": lambda: figures.by_seed([pair(3)], limits=(-1, 1)),
    "forest": lambda: figures.forest(only(blog())),
    "attention": lambda: figures.attention(map_of(3), ["a", "$b", "<c>"]),
    "head": lambda: figures.head(map_of(3)),
    "table": lambda: figures.table(map_of(9) - 0.5),
    "columns": lambda: figures.columns(map_of(9), [1, 2, 3, 4]),
}


@pytest.mark.parametrize("kind", EVERY)
def test_a_picture_is_the_pages_own(kind: str) -> None:
    """Colours and font are the page's, ids the picture's own, and the bytes the same every time."""
    picture = EVERY[kind]()
    one, other = (picture.inline(name=name, alt="a") for name in "xy")
    assert one.replace('"x-', '"y-').replace("#x-", "#y-") == other
    assert "var(--" in one
    for word in ("http", "<metadata", "<style", "<script", "<!", "<?", "DejaVu"):
        assert word not in one
    root = ElementTree.fromstring(one)
    assert (root.attrib["role"], root.attrib["aria-label"]) == ("img", "a")
    styles = [e.attrib["style"] for e in root.iter() if "style" in e.attrib]
    assert not any(re.search(r"#[0-9a-f]{3}", style) for style in styles)
    for svg, name in ((one, "x"), (other, "y")):
        ids = re.findall(r' id="([^"]+)"', svg)
        assert len(set(ids)) == len(ids)
        assert all(i.startswith(f"{name}-") for i in ids)
        assert set(re.findall(r'(?:url\(|href=")#([^)"]+)', svg)) <= set(ids)


def test_text_is_text_and_labels_cannot_break_out() -> None:
    runs = renamed(blog(), '<script> {} $x^2$ 中\x00 id="1"')
    svg = figures.forest(only(runs)).inline(name="x", alt='<b> & "')
    assert '<script> pe $x^2$ 中 id="1"' in texts(svg)
    assert "<script" not in svg
    assert ElementTree.fromstring(svg).attrib["aria-label"] == '<b> & "'


def test_long_labels_lose_their_middle() -> None:
    svg = figures.forest(only(renamed(blog(), "a" * 60 + "{}"))).inline(name="x", alt="")
    (label,) = {text for text in texts(svg) if text.startswith("aaa")}
    assert len(label) <= 30
    assert label.endswith("pe")


@pytest.mark.parametrize("n", [1, cells.MAX_SEEDS_SHOWN])
def test_every_seed_has_a_dot(n: int) -> None:
    svg = figures.by_seed([pair(n), pair(n)], limits=(-100, 100)).inline(name="x", alt="")
    seeds = [text for text in texts(svg) if text.isdigit()]
    assert seeds[0] == "0"
    assert svg.count("<use") >= 2 * n
    assert svg.count("<text") < 25


def test_a_picture_of_many_seeds_grows_no_further() -> None:
    """Their quantiles are drawn: the least and the greatest difference stand at its ends."""
    drawn = [
        figures.by_seed([pair(n)], limits=(-100, 100)).inline(name="x", alt="")
        for n in (cells.MAX_SEEDS_SHOWN + 1, 1_000)
    ]
    assert max(map(len, drawn)) < 1.2 * min(map(len, drawn)) < 20_000
    assert all("seeds, from the least difference to the greatest, %" in texts(s) for s in drawn)


def test_one_epoch_of_one_run_is_a_point_over_a_whole_number() -> None:
    (variant,) = only([made("a", 0, epochs=1)]).variants
    svg = figures.learning([variant], "val_loss").inline(name="x", alt="")
    below = [text for text in texts(svg) if "." not in text]
    assert below == ["1", "epoch"]


def test_k_is_drawn_where_there_is_k() -> None:
    def dashes(found: list[Variant]) -> int:
        svg = figures.learning(found, "val_loss").inline(name="x", alt="")
        return svg.count("stroke-dasharray")

    assert dashes(variants()) == 2
    assert dashes(variants("model.heads=4")) == 0


def test_many_variants_share_pictures_with_the_baseline() -> None:
    runs = [made(f"v{i}", 0, "model.heads=4") for i in range(10)]
    groups = figures.together(only(runs).variants)
    labels = [[variant.label for variant in group] for group in groups]
    assert labels == [
        ["v0", "v1", "v2", "v3", "v4"],
        ["v0", "v5", "v6", "v7", "v8"],
        ["v0", "v9"],
    ]
    (alone,) = figures.together(only(runs[:1]).variants)
    assert len(alone) == 1


def test_a_map_without_spread_can_be_drawn() -> None:
    flat = np.zeros((2, 2))
    for picture in (figures.attention(flat, ["a", "b"]), figures.table(flat), figures.head(flat)):
        assert "<image" in picture.inline(name="x", alt="")
