"""Tables in the formats that readers, papers and programs want."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from attnexp.report import plots
from attnexp.report.comparison import Comparison, Difference, Variant
from attnexp.report.tables import VERDICT_STYLES, Table, tables, verdicts
from attnexp.statistics.verdict import Verdict

SCHEMA = 1

CSV_COLUMNS = (
    *("data", "protocol", "variant", "baseline", "epoch", "point", "metric"),
    *("mean", "sd", "n", "low", "high", "p", "p_holm", "verdict"),
    *("k", "k_low", "k_high", "k_distance"),
)


def show(comparisons: Sequence[Comparison], console: Console) -> None:
    """Print tables and pictures to a terminal or a pipe, the verdicts last, next to the prompt."""
    for comparison in comparisons:
        for table in tables(comparison):
            console.print()
            show_table(table, console)
        plots.show(comparison, console)
    for comparison in comparisons:
        console.print()
        show_verdicts(verdicts(comparison), console)
        for line in comparison.diverged:
            console.print(Text(line, style="bold red"))


def show_verdicts(found: Iterable[tuple[str, Verdict | None, str]], console: Console) -> None:
    """A line each, as `tables.verdicts` gives them."""
    for where, verdict, line in found:
        word, _, grounds = line.partition(":")
        style = VERDICT_STYLES[verdict or Verdict.inconclusive]
        console.print(Text.assemble(f"{where}: ", (word, style), f":{grounds}"))


def markdown(comparisons: Sequence[Comparison]) -> str:
    """GitHub tables, and the verdicts as a list."""
    blocks = []
    for comparison in comparisons:
        blocks += [markdown_table(table) for table in tables(comparison)]
        if found := markdown_verdicts(comparison):
            blocks.append(found)
    return "\n\n".join(blocks) + "\n"


def markdown_table(table: Table) -> str:
    """One, under its title and with its notes."""
    lines = [
        *(f"**{table.title}**", "", _row(table.columns)),
        _row(["---", *["---:"] * (len(table.columns) - 1)]),
        *(_row(row) for row in table.rows),
    ]
    notes = [f"{note}  " for note in table.notes]
    return "\n".join([*lines, "", *notes]).rstrip()


def markdown_verdicts(comparison: Comparison) -> str:
    """A list; empty where nothing is compared."""
    return "\n".join(f"- {where}: **{line}**" for where, _, line in verdicts(comparison))


def latex(comparisons: Sequence[Comparison]) -> str:
    r"""Tables for `\usepackage{booktabs}`, one `table` environment each."""
    blocks = ["% \\usepackage{booktabs}, and XeLaTeX, LuaLaTeX or \\usepackage[utf8]{inputenc}."]
    for comparison in comparisons:
        for table in tables(comparison):
            lines = [
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
            blocks.append("\n".join(lines))
        found = [_latex(f"{where}: {line}.") for where, _, line in verdicts(comparison)]
        if found:
            blocks.append("\n\n".join(found))
    return "\n\n".join(blocks) + "\n"


def as_csv(comparisons: Sequence[Comparison]) -> str:
    """One line for each figure, in long form for a data frame.

    A line with a `baseline` is a paired difference; its low and high are the 95 % interval. Of an
    interaction both are differences themselves. k_low and k_high are the 95 % prediction interval
    of one more seed, k_distance is that of k from the mean in standard deviations.
    """
    file = io.StringIO()
    writer = csv.DictWriter(file, CSV_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for comparison in comparisons:
        start = {"data": comparison.data, "protocol": comparison.protocol}
        for variant in comparison.variants:
            for row in _figures(variant):
                writer.writerow({**start, "variant": variant.label, **row})
        baseline = comparison.variants[0].label
        for label, found in comparison.differences.items():
            for point, difference in found.items():
                for row in _differences(difference):
                    where = {"variant": label, "baseline": baseline, "point": point}
                    writer.writerow({**start, **where, **row})
        for interaction in comparison.interactions:
            one, two, three, four = interaction.variants
            for point, difference in interaction.points.items():
                for row in _differences(difference):
                    where = {"variant": f"{one} − {two}", "baseline": f"{three} − {four}"}
                    writer.writerow({**start, **where, "point": point, **row})
    return file.getvalue()


def as_json(comparisons: Sequence[Comparison]) -> str:
    """One document with every number at full precision."""
    found = [asdict(comparison) for comparison in comparisons]
    return json.dumps({"schema": SCHEMA, "comparisons": found}, indent=1)


TEXTS = {"markdown": markdown, "csv": as_csv, "json": as_json, "latex": latex}
"""What makes a text, by the name of the format."""


def _figures(variant: Variant) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for epoch in variant.epochs:
        for name, figure in epoch.figures.items():
            row = {"epoch": epoch.epoch, "metric": name, **asdict(figure)}
            if epoch.k:
                row["k"] = epoch.k.get(name)
            if name in epoch.agreement:
                found = epoch.agreement[name]
                row |= {"k_low": found.low, "k_high": found.high, "k_distance": found.distance}
            rows.append(row)
    for point, figures in variant.points.items():
        for name, figure in figures.items():
            published = variant.k.get(point) if name == "accuracy" else None
            rows.append({"point": point, "metric": name, "k": published, **asdict(figure)})
    return rows


def _differences(difference: Difference) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = []
    for name, pair in difference.figures.items():
        row = {"metric": name, **asdict(pair.difference), "low": pair.low, "high": pair.high}
        if name == "accuracy":  # what was declared to be tested
            judgement = difference.judgement
            row |= {"p": pair.p, "p_holm": judgement.p_holm, "verdict": judgement.verdict}
        rows.append(row)
    return rows


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


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


def show_table(table: Table, console: Console) -> None:
    """A title, its cells and its notes."""
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
