"""Tables on a terminal: they fit its width, keep words whole, and obey no name of others."""

import io
import re
from typing import get_args

import pandas as pd
import pytest
from conftest import PUBLISHED
from made_up import made_answer
from rich.console import Console

from attnexp.analysis.read_runs import load_groups
from attnexp.base.errors import UserError
from attnexp.report.listing import tabulate_runs
from attnexp.report.print_table import print_table
from attnexp.report.table import Table, TableName
from attnexp.report.tables import make_table


def printed(frame: pd.DataFrame, width: int) -> str:
    file = io.StringIO()
    print_table(Table("Title", frame), Console(file=file, width=width))
    return file.getvalue()


def assert_fits(frame: pd.DataFrame, *widths: int, header: str = "") -> None:
    """A table is no wider than a terminal, and every word of it stands in one line."""
    words = set(re.split("[ ,]+", " ".join([header, *frame.to_numpy().ravel()])))
    for width in widths:
        text = printed(frame, width)
        assert words <= set(re.split(r"[ \n,]+", text))
        assert max(len(line.rstrip()) for line in text.splitlines()) <= width


@pytest.mark.parametrize("study", ["blog", "blog_data", "blog_cells", "position_x_scale"])
def test_every_table_of_a_published_study_fits(study: str) -> None:
    answer = made_answer(*load_groups([PUBLISHED / study]))
    for name in {*get_args(TableName)} - {"study"}:  # which is a text
        try:
            table = make_table(name, answer)
        except UserError:  # the study has nothing for it
            continue
        assert_fits(table.frame, 80, 60)


def test_long_names_fit_while_numbers_could_wrap() -> None:
    row = {"variant": "position=sinusoidal mask=padding_causal"}
    row |= {"first loss": "0.5135 ± 0.0123", "last loss": "0.5135 ± 0.0123"}
    assert_fits(pd.DataFrame([row, row]), 80, 60, 50, 42, header="first last loss")


def test_a_size_stands_in_one_line() -> None:
    settings = "position=sinusoidal train.lr=0.01 data.max_len=40"
    runs = pd.DataFrame({"run": "a" * 20, "state": "finished", "data": "imdb", "seed": "0",
                         "accuracy": [0.5], "bytes": 258_000, "settings": settings})  # fmt: skip
    frame = tabulate_runs(runs).frame
    assert "258\xa0kB" in frame.to_numpy()
    assert_fits(frame, 80, 70, 60)
    verdict = pd.DataFrame({"difference": ["pe"], "verdict": ["helps by at least 0.25 points"]})
    assert all("0.25 points" in printed(verdict, width) for width in range(23, 41))


WIDE = """
data  at     difference   mean  verdict
imdb  final  pe          +1.00  helps
imdb  final  alibi       -0.20  undecided, ~46 seeds
cr    best   pe          +3.00  hurts"""
NARROW = """
data at    difference  mean verdict
imdb final pe         +1.00 helps
imdb final alibi      -0.20 undecided, ~46 seeds
cr   best  pe         +3.00 hurts"""
HEADINGS = """
difference     mean  verdict
imdb, final
  pe          +1.00  helps
  alibi       -0.20  undecided, ~46 seeds
cr, best, pe  +3.00  hurts"""
NARROW_HEADINGS = """
difference    mean verdict
imdb, final
  pe         +1.00 helps
  alibi      -0.20 undecided, ~46 seeds
cr, best, pe +3.00 hurts"""


@pytest.mark.parametrize(
    ("widths", "text"),
    [((80, 52), WIDE), ((51, 48), NARROW), ((47, 41), HEADINGS), ((40, 39), NARROW_HEADINGS)],
)
def test_a_wide_table_has_headings_for_columns(widths: tuple[int, int], text: str) -> None:
    header, *rows = [re.split(r" \s*(?!seeds|~)", line) for line in WIDE.splitlines()[1:]]
    for width in widths:
        title, *lines = printed(pd.DataFrame(rows, columns=header), width).splitlines()
        shown = [line.rstrip() for line in lines if not line.startswith("─")]
        assert (title, shown) == ("Title", [*text.splitlines()[1:], ""])


def test_names_of_others_reach_a_terminal_as_plain_text() -> None:
    """Escaped where a terminal would obey; not read as markup; Chinese takes two columns."""
    frame = pd.DataFrame({"variant": ["\x1b]0;a\x07", "[red]b\n", "无位置"], "\x1b[2Jloss": "0.5"})
    assert printed(frame, 80).splitlines()[1:-1] == [
        r"variant       \x1b[2Jloss",
        "─────────────────────────",
        r"\x1b]0;a\x07          0.5",
        r"[red]b\n              0.5",
        "无位置                0.5",
    ]
