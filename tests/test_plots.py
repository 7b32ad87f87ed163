"""Pictures in a terminal: within the width, true to the numbers, legible without colour."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from samples import only, result

from attnexp.analysis import published
from attnexp.analysis.comparison import Comparison, compare
from attnexp.report import plots

WIDTHS = [60, 80, 120]
PE = ("position=sinusoidal",)


def blog(num_seeds: int = 3, *words: str) -> Comparison:
    runs = []
    for seed in range(num_seeds):
        noise = 0.0007 * (seed % 3) + 0.0001 * seed
        runs.append(result("no_pe", seed, [0.841 + noise, 0.829, 0.815, 0.803, 0.794], *words))
        pe = [0.842, 0.844 + 2 * noise, 0.831, 0.824, 0.817 - noise]
        runs.append(result("pe", seed, pe, *PE, *words))
    return only(runs)


def contrast(reached: float = 1.0) -> Comparison:
    runs = []
    for seed in range(5):
        runs.append(result("no_pe", seed, [0.5] * 6, "data=contrast"))
        pe = [(0.5 + reached) / 2] + [reached] * 5
        runs.append(result("pe", seed, pe, "data=contrast", *PE))
    return only(runs)


def many(num_epochs: int, num_variants: int = 9, form: str = "variant {}") -> Comparison:
    runs = []
    for seed in range(4):
        for index in range(num_variants):
            start = 0.85 - 0.004 * index + 0.001 * seed * (index % 2)
            accuracies = [start - 0.0015 * epoch for epoch in range(num_epochs)]
            words = ("model.heads=4", f"train.lr={0.001 * (index + 1)}")
            runs.append(result(form.format(index), seed, accuracies, *words))
    return only(runs)


def relabelled(comparison: Comparison, labels: list[str]) -> Comparison:
    new = dict(zip([variant.label for variant in comparison.variants], labels, strict=True))
    return replace(
        comparison,
        variants=[replace(v, label=new[v.label]) for v in comparison.variants],
        differences={new[label]: found for label, found in comparison.differences.items()},
    )


def both(comparison: Comparison, width: int, *, ascii_only: bool = False) -> str:
    drawn = plots.curves(comparison, width=width, colour=False, ascii_only=ascii_only)
    return f"{drawn.plain}\n{plots.forest(comparison, width=width, ascii_only=ascii_only).plain}"


def drawn(comparison: Comparison, width: int = 80) -> list[str]:
    """The rows of the curves, without title, axis and legend."""
    lines = plots.curves(comparison, width=width, colour=False).plain.split("\n")
    return [line for line in lines if re.match(r"[\d. ]*[│┤]", line)]


def places(rows: list[str], letter: str) -> list[tuple[int, int]]:
    """(column, row) of a letter, by column."""
    found = [(x, y) for y, line in enumerate(rows) for x, c in enumerate(line) if c == letter]
    return sorted(found)


def bars(comparison: Comparison, width: int) -> list[tuple[str, list[float]]]:
    """Each line of the forest with a difference, and the numbers at its right."""
    lines = plots.forest(comparison, width=width).plain.split("\n")
    return [
        (line, [float(number) for number in re.findall(r"[+-]\d+\.\d\d", line)])
        for line in lines
        if "●" in line
    ]


CASES: dict[str, Callable[[], Comparison]] = {
    "blog": blog,
    "one seed": lambda: blog(1),
    "contrast": contrast,
    "flat": lambda: contrast(0.5),
    "nine": lambda: many(8),
    "long": lambda: many(40, 3, "position=learned model.heads={} train.optimizer=adam, no end yet"),
    "unicode": lambda: many(12, 4, "位置 ↔ é " * 5 + "{}"),
}


@cache
def case_of(name: str) -> Comparison:
    return CASES[name]()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("ascii_only", [False, True])
@pytest.mark.parametrize("case", CASES)
def test_nothing_is_wider_than_the_terminal(case: str, ascii_only: bool, width: int) -> None:
    text = both(case_of(case), width, ascii_only=ascii_only)
    assert max(map(cell_len, text.split("\n"))) <= width
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)
    assert text.isascii() or not ascii_only


@settings(max_examples=20, deadline=None)
@given(st.lists(st.text(max_size=90), min_size=2, max_size=2, unique=True), st.booleans())
def test_no_label_breaks_a_line(labels: list[str], ascii_only: bool) -> None:
    comparison = relabelled(case_of("blog"), labels)
    text = both(comparison, 80, ascii_only=ascii_only)
    plain = both(case_of("blog"), 80, ascii_only=ascii_only)
    assert max(map(cell_len, text.split("\n"))) <= 80
    assert abs(len(text.split("\n")) - len(plain.split("\n"))) <= 2  # the legend's lines


@pytest.mark.parametrize("case", CASES)
def test_colour_adds_nothing_but_colour(case: str) -> None:
    plain = plots.curves(case_of(case), width=80, colour=False)
    coloured = plots.curves(case_of(case), width=80, colour=True)
    assert coloured.plain == plain.plain
    assert {str(span.style) for span in plain.spans} == {"bold"}  # the title
    assert len({str(span.style) for span in coloured.spans}) > 2


@pytest.mark.parametrize("width", WIDTHS)
def test_a_letter_is_higher_where_accuracy_is_and_righter_where_later(width: int) -> None:
    comparison = blog()
    rows = drawn(comparison, width)
    for letter, variant in zip("ab", comparison.variants, strict=True):
        found = places(rows, letter)
        means = [variant.means[epoch]["val_accuracy"].mean for epoch in variant.epochs]
        assert len(found) == len(means)
        heights = [-y for _, y in found]
        for i, j in ((i, j) for i in range(5) for j in range(5)):
            if means[i] - means[j] > 0.004:  # a row is 0.0036
                assert heights[i] > heights[j]
    assert "b" in rows[0]
    assert "a" in rows[-1]


def test_a_letter_stands_at_its_epoch_and_beside_its_accuracy() -> None:
    lines = plots.curves(contrast(), width=80, colour=False).plain.split("\n")
    (ticks,) = [line for line in lines if re.fullmatch(r"[ \d]+", line)]
    columns = [match.start() for match in re.finditer(r"\d", ticks)]
    assert [ticks[x] for x in columns] == list("123456")
    rows = drawn(contrast())
    for letter, level in (("a", " 50┤"), ("b", "100┤")):
        (line,) = [line for line in rows if line.startswith(level)]
        found = places([line], letter)
        assert [x for x, _ in found] == columns[-len(found) :]
        assert len(found) == (6 if letter == "a" else 5)


def test_marks_that_coincide_stand_side_by_side() -> None:
    rows = drawn(contrast(0.5))
    (line,) = [line for line in rows if "a" in line]
    assert line.count("ab") == 6


def test_ks_points_are_capitals_at_their_height() -> None:
    comparison = blog()
    rows, text = drawn(comparison), both(comparison, 80)
    assert "K's published run, one seed" in text
    kinds = list(published.EPOCHS.values())
    for letter, epochs in zip("AB", kinds, strict=True):
        found = places(rows, letter)
        for (_, y), figures in zip(found, epochs, strict=True):
            levels = {i: float(m[1]) for i, line in enumerate(rows)
                      if (m := re.match(r"([\d.]+)┤", line))}  # fmt: skip
            (top, high), *_, (bottom, low) = levels.items()
            value = high + (y - top) / (bottom - top) * (low - high)
            assert value == pytest.approx(100 * figures["val_accuracy"], abs=0.5)
    others = blog(3, "model.heads=4")
    assert not places(drawn(others), "A")
    assert "K's" not in both(others, 80)


def test_curves_stop_where_they_cannot_be_told_apart() -> None:
    text = plots.curves(many(8), width=80, colour=False).plain
    assert "not drawn: 3 variants more" in text
    assert "f variant 5" in text
    assert "variant 6" not in text
    assert "not drawn" not in both(many(8, 6), 80)


def test_many_epochs_are_marked_now_and_then() -> None:
    found = places(drawn(many(100, 2)), "a")
    assert 5 < len(found) < 30


def test_without_a_course_there_is_no_curve() -> None:
    assert not plots.curves(many(1), width=80, colour=False)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("case", ["blog", "nine", "contrast", "long"])
def test_intervals_lie_on_the_axis(case: str, width: int) -> None:
    lines = plots.forest(case_of(case), width=width).plain.split("\n")
    axis, labels = lines[-3], lines[-2]
    ticks = [match.start() for match in re.finditer("┴", axis)]
    values = [float(label) for label in labels.split()]
    zero = ticks[values.index(0)]
    a_column = (values[-1] - values[0]) / (ticks[-1] - ticks[0])
    found = bars(case_of(case), width)
    assert found
    for line, (mean, low, high) in found:
        at = [line.index("●"), line.find("├"), line.find("┤")]
        for column, value in zip(at, (mean, low, high), strict=True):
            if column >= 0:
                assert a_column * (column - zero) == pytest.approx(value, abs=1.1 * a_column)
        assert line[zero] in "│┼├┤●"
        inside = [x for x, c in enumerate(line) if c == "░"]
        assert all(abs(a_column * (x - zero)) <= 0.25 + 1.1 * a_column for x in inside)


@pytest.mark.parametrize("case", ["blog", "nine", "contrast"])
def test_numbers_and_verdicts_are_those_of_the_comparison(case: str) -> None:
    comparison = case_of(case)
    expected = [
        (by_point[point].metrics["accuracy"], by_point[point].judgements["accuracy"].verdict)
        for point in comparison.points
        for by_point in comparison.differences.values()
    ]
    for (line, numbers), (pair, verdict) in zip(bars(comparison, 80), expected, strict=True):
        values = [pair.difference.mean, pair.low, pair.high]
        assert numbers == pytest.approx([100 * (value or 0) for value in values], abs=0.006)
        assert line.endswith(verdict)


def test_verdicts_can_be_other_than_inconclusive() -> None:
    lines = [line for line, _ in bars(blog(8), 80)]
    assert all("helps" in line for line in lines)
    assert [line for line, _ in bars(contrast(0.5), 80) if "equivalent" in line]


def test_one_seed_is_a_point_without_an_interval() -> None:
    for line, numbers in bars(blog(1), 80):
        assert len(numbers) == 1
        assert not set("├┤─┼[") & set(line)
    assert "one seed" in plots.forest(blog(1), width=80).plain


def test_an_interval_without_width_is_a_point() -> None:
    for line, numbers in bars(contrast(), 80):
        assert numbers == [50.0, 50.0, 50.0]
        assert not set("├┤─┼") & set(line)


def test_the_zero_line_and_the_margin_are_named() -> None:
    comparison = compare(
        [result("a", s, [0.84, 0.83]) for s in range(3)]
        + [result("b", s, [0.84, 0.833 + s / 1000], *PE) for s in range(3)],
        margin=0.005,
    )[0]
    text = plots.forest(comparison, width=80).plain
    assert "░ within 0.5 of 0" in text
    assert "Accuracy minus a, points, 95 % interval, 3 seeds" in text


def test_no_shared_seed_no_forest() -> None:
    apart = only([result("no_pe", 0, [0.8, 0.8]), result("pe", 1, [0.8, 0.8], *PE)])
    assert not plots.forest(apart, width=80)
    assert not plots.forest(only([result("no_pe", 0, [0.8, 0.8])]), width=80)


def test_labels_that_shorten_to_the_same_stand_whole_above_their_bars() -> None:
    form = "position=learned with model.heads={} and a common end"
    text = plots.forest(many(3, 4, form), width=80).plain
    assert all(text.count(form.format(index)) == 2 for index in range(1, 4))
    ends_differ = "position=learned with model.heads={}"
    assert "…" in plots.forest(many(3, 4, ends_differ), width=80).plain


def test_ascii_keeps_every_column() -> None:
    for case in ("blog", "one seed", "contrast", "nine"):
        fancy, plain = (both(case_of(case), 80, ascii_only=a).split("\n") for a in (False, True))
        assert [len(line) for line in fancy] == [len(line) for line in plain]
        for one, other in zip(fancy, plain, strict=True):
            kept = [(c, d) for c, d in zip(one, other, strict=True) if c.isascii()]
            assert all(c == d for c, d in kept)


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_show_writes_what_the_stream_can_take(encoding: str) -> None:
    raw = io.BytesIO()
    file = io.TextIOWrapper(raw, encoding)
    comparison = relabelled(blog(), ["no ↔ pe", "位置"])
    plots.print_plots(comparison, Console(file=file, width=80))
    file.flush()
    text = raw.getvalue().decode(encoding)
    assert "\x1b" not in text
    assert max(map(cell_len, text.split("\n"))) <= 80
    assert ("●" in text) == (encoding == "utf-8")
    assert "Validation accuracy" in text
    assert "Accuracy minus" in text


def test_show_colours_a_terminal() -> None:
    console = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="256")
    plots.print_plots(blog(), console)
    assert "\x1b[" in console.file.getvalue()  # type: ignore[attr-defined]


def test_show_of_nothing_prints_nothing() -> None:
    console = Console(file=io.StringIO(), width=80)
    plots.print_plots(only([result("no_pe", 0, [0.8])]), console)
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]
