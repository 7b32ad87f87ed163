"""Pictures in a terminal: within the width, true to the numbers, legible without colour."""

import io
import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from samples import only, result

from attnexp.analysis.comparison import Comparison
from attnexp.report import plots

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


GOLDEN = Path(__file__).parent / "plots.txt"


def test_plots_are_as_they_were() -> None:
    """Letters at their epoch and accuracy, K's as capitals; intervals on their axis, with numbers.

    After a change that is meant, `PYTHONPATH=tests python tests/report/test_plots.py` writes them
    anew: look at the difference.
    """
    found = every_case()
    assert found == GOLDEN.read_text()
    assert max(map(cell_len, found.split("\n"))) <= 80


def every_case() -> str:
    cases: dict[str, Callable[[], Comparison]] = {
        **CASES,
        "seeds that agree": lambda: blog(8),
        "a hundred epochs": lambda: many(100, 2),
    }
    return "\n".join(f"== {name}\n{both(make(), 80)}\n" for name, make in cases.items())


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize(("width", "ascii_only"), [(60, True), (120, False)])
def test_nothing_is_wider_than_the_terminal(case: str, width: int, ascii_only: bool) -> None:
    text = both(case_of(case), width, ascii_only=ascii_only)
    assert max(map(cell_len, text.split("\n"))) <= width
    assert not re.search(r"[\x00-\x09\x0b-\x1f]", text)
    assert text.isascii() or not ascii_only


@cache
def num_lines(ascii_only: bool) -> int:
    return both(case_of("blog"), 80, ascii_only=ascii_only).count("\n") + 1


@settings(max_examples=10)
@given(st.lists(st.text(max_size=90), min_size=2, max_size=2, unique=True), st.booleans())
def test_no_label_breaks_a_line(labels: list[str], ascii_only: bool) -> None:
    comparison = relabelled(case_of("blog"), labels)
    text = both(comparison, 80, ascii_only=ascii_only)
    assert max(map(cell_len, text.split("\n"))) <= 80
    # the legend's lines, and a label above each of two bars
    assert 0 <= len(text.split("\n")) - num_lines(ascii_only) <= 4


@pytest.mark.parametrize("case", CASES)
def test_colour_adds_nothing_but_colour(case: str) -> None:
    plain = plots.curves(case_of(case), width=80, colour=False)
    coloured = plots.curves(case_of(case), width=80, colour=True)
    assert coloured.plain == plain.plain
    assert {str(span.style) for span in plain.spans} == {"bold"}  # the title
    assert len({str(span.style) for span in coloured.spans}) > 2


def test_what_cannot_be_drawn_is_left_out() -> None:
    """A forest of variants that share no seed, or of one; curves of one epoch."""
    apart = only([result("no_pe", 0, [0.8, 0.8]), result("pe", 1, [0.8, 0.8], *PE)])
    assert not plots.forest(apart, width=80)
    assert not plots.forest(only([result("no_pe", 0, [0.8, 0.8])]), width=80)
    assert not plots.curves(many(1), width=80, colour=False)
    console = Console(file=io.StringIO(), width=80)
    plots.print_plots(only([result("no_pe", 0, [0.8])]), console)
    assert console.file.getvalue() == ""  # type: ignore[attr-defined]


def test_labels_that_do_not_fit_stand_whole_above_their_bars() -> None:
    form = "position=learned with model.heads={} and a common end"
    text = plots.forest(many(3, 4, form), width=80).plain
    assert all(text.count(form.format(index)) == 2 for index in range(1, 4))


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


if __name__ == "__main__":
    GOLDEN.write_text(every_case())
