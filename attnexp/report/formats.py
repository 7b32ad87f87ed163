"""Tables in the formats that readers, papers and programs want."""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from attnexp.analysis import across
from attnexp.analysis.across import Across
from attnexp.analysis.comparison import SCHEMA, Comparison, Difference
from attnexp.analysis.summary import Variant
from attnexp.report import plots
from attnexp.report.tables import VERDICT_STYLES, Table, across_table, tables, verdicts
from attnexp.statistics.verdict import Verdict

PACKAGES = "% \\usepackage{booktabs}, and XeLaTeX, LuaLaTeX or \\usepackage[utf8]{inputenc}."
"""First line of a LaTeX document's part."""

CSV_COLUMNS = (
    *("data", "protocol", "variant", "baseline", "epoch", "point", "metric"),
    *("mean", "sd", "n", "low", "high", "texts_low", "texts_high", "p", "p_adjusted", "verdict"),
    *("k", "k_low", "k_high", "k_distance"),
)


def print_comparisons(comparisons: Sequence[Comparison], console: Console) -> None:
    """Print tables and plots to a terminal or a pipe, the verdicts last, next to the prompt."""
    for comparison in comparisons:
        print_tables(tables(comparison), console)
        plots.print_plots(comparison, console)
    for comparison in comparisons:
        console.print()
        if len(comparisons) > 1:
            console.print(Text(f"{comparison.title}, {comparison.protocol}", style="bold"))
        for where, verdict, line in verdicts(comparison):
            word, _, grounds = line.partition(":")
            style = VERDICT_STYLES[verdict or Verdict.inconclusive]
            console.print(Text.assemble(f"{where}: ", (word, style), f":{grounds}"))
        for line in comparison.diverged:
            console.print(Text(line, style="bold red"))


def markdown(comparisons: Sequence[Comparison]) -> str:
    """GitHub tables, and the verdicts as a list."""
    blocks = []
    for comparison in comparisons:
        blocks += [markdown_table(table) for table in tables(comparison)]
        if found := markdown_verdicts(comparison):
            blocks.append(found)
    return "\n\n".join(blocks) + "\n"


def markdown_table(table: Table) -> str:
    """A table under its title, with its notes."""
    lines = [
        *(f"**{table.title}**", "", _row(table.columns)),
        _row(["---", *["---:"] * (len(table.columns) - 1)]),
        *(_row(row) for row in table.rows),
    ]
    notes = [f"{note}  " for note in table.notes]
    return "\n".join([*lines, "", *notes]).rstrip()


def markdown_verdicts(comparison: Comparison) -> str:
    """Verdicts as a list; empty if nothing is compared."""
    return "\n".join(f"- {where}: **{line}**" for where, _, line in verdicts(comparison))


def latex(comparisons: Sequence[Comparison]) -> str:
    r"""Tables for `\usepackage{booktabs}`, one `table` environment each."""
    blocks = [PACKAGES]
    for comparison in comparisons:
        blocks += [latex_table(table) for table in tables(comparison)]
        found = [_latex(f"{where}: {line}.") for where, _, line in verdicts(comparison)]
        if found:
            blocks.append("\n\n".join(found))
    return "\n\n".join(blocks) + "\n"


def latex_table(table: Table) -> str:
    """A `table` environment, with title and notes as its caption."""
    return "\n".join(
        [
            r"\begin{table}",
            r"\centering",
            rf"\caption{{{_latex(' '.join([table.title + '.', *table.notes]))}}}",
            rf"\begin{{tabular}}{{l{'r' * (len(table.columns) - 1)}}}",
            r"\toprule",
            _latex_row(table.columns),
            r"\midrule",
            *(_latex_row(row) for row in table.rows),
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def as_csv(comparisons: Sequence[Comparison]) -> str:
    """One line for each value, in long form for a data frame.

    A line with a `baseline` is a paired difference; its low and high are the 95 % interval for
    other seeds, texts_low and texts_high that for other seeds and texts. For an interaction both
    are differences themselves. k_low and k_high are the 95 % prediction interval of one more seed,
    k_distance is that of k from the mean in standard deviations.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for comparison in comparisons:
        start = {"data": comparison.data, "protocol": comparison.protocol}
        for variant in comparison.variants:
            for row in _mean_rows(variant):
                writer.writerow(without_formulas({**start, "variant": variant.label, **row}))
        baseline = comparison.variants[0].label
        compared = [(label, baseline, found) for label, found in comparison.differences.items()]
        for interaction in comparison.interactions:
            one, two, three, four = interaction.variants
            compared.append((f"{one} − {two}", f"{three} − {four}", interaction.points))
        for label, other, found in compared:
            for point, difference in found.items():
                for row in _difference_rows(difference):
                    where = {"variant": label, "baseline": other, "point": point}
                    writer.writerow(without_formulas({**start, **where, **row}))
    return file.getvalue()


def as_json(comparisons: Sequence[Comparison]) -> str:
    """One document with every number at full precision."""
    found = [comparison.to_json() for comparison in comparisons]
    return json.dumps({"schema": SCHEMA, "comparisons": found}, indent=1)


def across_as_json(found: Sequence[Across]) -> str:
    """One document with every number at full precision."""
    return json.dumps({"schema": across.SCHEMA, "across": [one.to_json() for one in found]})


ACROSS: dict[str, Callable[[Sequence[Across]], str]] = {
    "markdown": lambda found: "\n\n".join(markdown_table(across_table(one)) for one in found),
    "latex": lambda found: "\n\n".join(latex_table(across_table(one)) for one in found),
    "json": across_as_json,
}
"""Functions that write differences over data sets in each format, by its name."""

TEXTS = {"markdown": markdown, "csv": as_csv, "json": as_json, "latex": latex}
"""Functions that write each format, by its name."""


def without_formulas(row: dict[str, object]) -> dict[str, object]:
    """The row with a quote before texts that a spreadsheet would take for a formula."""
    return {
        name: f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell
        for name, cell in row.items()
    }


def _mean_rows(variant: Variant) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for at, means in variant.means.items():
        for name, mean in means.items():
            published = variant.published.get(at, {}).get(name)
            place = {"epoch" if isinstance(at, int) else "point": at}
            row = {**place, "metric": name, **asdict(mean), "k": published}
            if found := variant.agreement.get(at, {}).get(name):
                row |= {"k_low": found.low, "k_high": found.high, "k_distance": found.distance}
            rows.append(row)
    return rows


def _difference_rows(difference: Difference) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name, pair in difference.metrics.items():
        row = {"metric": name, **asdict(pair.difference), "low": pair.low, "high": pair.high}
        if name == "accuracy" and difference.texts is not None:
            row |= {"texts_low": difference.texts.low, "texts_high": difference.texts.high}
        if name in difference.judgements:
            judgement = difference.judgements[name]
            row |= {
                "p": pair.p,
                "p_adjusted": judgement.p_adjusted,
                "verdict": judgement.verdict,
            }
        rows.append(row)
    return rows


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in cells) + " |"


_FORMULA = re.compile(r"[=+\-@](?![\d.]+([eE][+-]?\d+)?$)")
"""Begins like a formula, and is no number."""

_LATEX = str.maketrans(
    {character: "\\" + character for character in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    | {"±": r"$\pm$", "≤": r"$\leq$", "Δ": r"$\Delta$", "×": r"$\times$"}
    | {"−": "$-$", "<": "$<$", ">": "$>$", "–": "--"}
)


def _latex(text: str) -> str:
    return text.translate(_LATEX)


def _latex_row(cells: Sequence[str]) -> str:
    return " & ".join(_latex(cell) for cell in cells) + r" \\"


def print_tables(found: Iterable[Table], console: Console) -> None:
    """Print tables with a line before each."""
    for table in found:
        console.print()
        print_table(table, console)


def print_table(table: Table, console: Console) -> None:
    """Print a title, cells and notes."""
    view = RichTable(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    first, *others = table.columns
    view.add_column(first, overflow="fold")
    for column in others:
        view.add_column(column, justify="right", no_wrap=True)
    for place, row in enumerate(table.rows):
        style = "dim" if place in table.published else None
        view.add_row(*(Text(cell) for cell in row), style=style)
    console.print(Text(table.title), style="bold")
    console.print(view)
    for note in table.notes:
        console.print(Text(note), style="dim")
