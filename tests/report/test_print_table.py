"""Tables on a terminal: no word is broken or lost, and no name of others is obeyed."""

import io
from typing import Any, get_args

import pandas as pd
import pytest
from made_up import published
from rich.console import Console

from attnexp.base.errors import UserError
from attnexp.report import TableName
from attnexp.report.table import Table, print_table
from attnexp.report.tables import VERDICT_COLUMNS, make_table, tabulate_differences, tabulate_means


def table_of(*rows: dict[str, Any]) -> Table:
    return Table(title="Title", frame=pd.DataFrame(), lines=rows)


def printed(table: Table, width: int, **options: Any) -> str:
    file = io.StringIO()
    print_table(table, Console(file=file, width=width, **options))
    return file.getvalue()


def broken_words(table: Table, width: int) -> set[str]:
    """Words of a table that a terminal does not show in one piece, or at all."""
    texts = [*table.cells, *table.cells.to_numpy().ravel()]
    text = printed(table, width)
    assert max(map(len, text.splitlines())) <= width
    return {*" ".join(texts).split()} - {*text.split()}


@pytest.mark.parametrize("study", "blog contrast blog_data blog_holdout position_x_scale".split())
def test_no_table_breaks_a_word(study: str) -> None:
    answer = published(study)
    assert broken_words(tabulate_means(answer), 80) == set()
    for rows in (answer.measured, answer.means or answer.measured):
        assert broken_words(tabulate_differences(rows, VERDICT_COLUMNS), 80) == set()
    for name in {*get_args(TableName)} - {"study"}:  # which is a text
        try:
            table = make_table(name, answer)
        except UserError:  # The study has nothing for it.
            continue
        assert broken_words(table, 100) == set()
        assert printed(table, 100).count("\n") - len(table.cells) <= 5  # title, heading, rule


def test_a_narrow_terminal_loses_no_letter() -> None:
    row = {"variant": "position=sinusoidal mask=padding_causal", "loss": "0.5135 ± 0.0123"}
    table = table_of(row, row | {"loss": "1"})
    assert "0.5135 ± 0.0123" in printed(table, 35)
    lines = printed(table, 20).splitlines()
    letters = "".join(line[:13] for line in lines).replace(" ", "")
    assert "position=sinusoidalmask=padding_causal" in letters


def test_names_of_others_reach_a_terminal_as_plain_text() -> None:
    """Escaped where a terminal would obey; no markup; Chinese is wide; verdicts have colours."""
    names = ["\x1b]0;a\x07", "[red]b\n", "无位置"]
    table = table_of(*[{"variant": name, "\x1b[2Jloss": "0.5"} for name in names])
    assert printed(table, 80).splitlines()[1:-1] == [
        r"variant       \x1b[2Jloss",
        "─" * 25,
        r"\x1b]0;a\x07          0.5",
        r"[red]b\n              0.5",
        "无位置                0.5",
    ]
    table = table_of({"variant": "helps", "verdict": "helps by at least 0.25 points"})
    text = printed(table, 80, color_system="standard", force_terminal=True, no_color=False)
    assert text.count("\x1b[32m") == 1
