"""Tables in the formats that readers, papers and programs want."""

import csv
import io
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from attnexp.analysis import across
from attnexp.analysis.across import Across
from attnexp.analysis.comparison import SCHEMA, Comparison
from attnexp.analysis.differences import Difference
from attnexp.analysis.summary import Variant
from attnexp.base.errors import UserError
from attnexp.report import plots
from attnexp.report.cells import Table
from attnexp.report.latex import PACKAGES, escaped, latex_table, latex_tables
from attnexp.report.tables import across_table, tables
from attnexp.report.verdicts import VERDICT_STYLES, verdicts
from attnexp.statistics.verdict import Verdict

TABLE_SCHEMA = 1
"""Version of the JSON document of tables of one name."""

CSV_COLUMNS = (
    *("data", "protocol", "variant", "baseline", "epoch", "point", "metric"),
    *("mean", "sd", "n", "low", "high", "texts_low", "texts_high", "p", "p_adjusted", "verdict"),
    *("k", "k_low", "k_high", "k_distance", "within"),
)


def print_comparisons(comparisons: Sequence[Comparison], console: Console) -> None:
    """Print tables and plots to a terminal or a pipe, the verdicts last, next to the prompt."""
    for comparison in comparisons:
        print_tables(tables(comparison), console)
        plots.print_plots(comparison, console)
    for comparison in comparisons:
        console.print()
        if len(comparisons) > 1:
            where = ", ".join(filter(None, (comparison.title, comparison.protocol)))
            console.print(Text(where, style="bold"))
        for where, verdict, line in verdicts(comparison):
            word, _, grounds = line.partition(":")
            style = VERDICT_STYLES[verdict or Verdict.inconclusive]
            console.print(Text.assemble(f"{where}: ", (word, style), f":{grounds}"))
        for line in comparison.diverged:
            console.print(Text(line, style="bold red"))


def print_over_data(comparisons: Sequence[Comparison], console: Console) -> None:
    """Print comparisons, then the differences over data sets where two have an interval."""
    print_comparisons(comparisons, console)
    print_tables(map(across_table, _over_data(comparisons)), console)


def markdown(comparisons: Sequence[Comparison]) -> str:
    """GitHub tables, and the verdicts as a list."""
    blocks = []
    for comparison in comparisons:
        blocks += [markdown_table(table) for table in tables(comparison)]
        if found := markdown_verdicts(comparison):
            blocks.append(found)
    return "\n\n".join(blocks) + "\n"


def markdown_tables(found: Iterable[Table]) -> str:
    """GitHub tables, one after another."""
    return "\n\n".join(map(markdown_table, found))


def markdown_table(table: Table) -> str:
    """A table under its title, with its notes."""
    lines = [
        *(f"**{_literal(table.title)}**", "", _row(table.columns)),
        _row(["---", *["---:"] * (len(table.columns) - 1)]),
        *(_row(row) for row in table.rows),
    ]
    notes = [f"{_literal(note)}  " for note in table.notes]
    return "\n".join([*lines, "", *notes]).rstrip()


def markdown_verdicts(comparison: Comparison) -> str:
    """Verdicts as a list; empty if nothing is compared."""
    return "\n".join(
        f"- {_literal(where)}: **{_literal(line)}**" for where, _, line in verdicts(comparison)
    )


def latex(comparisons: Sequence[Comparison]) -> str:
    r"""Tables for `\usepackage{booktabs}`, one `table` environment each."""
    blocks = [PACKAGES]
    for comparison in comparisons:
        blocks += [latex_table(table) for table in tables(comparison)]
        found = [escaped(f"{where}: {line}.") for where, _, line in verdicts(comparison)]
        if found:
            blocks.append("\n\n".join(found))
    return "\n\n".join(blocks) + "\n"


def as_csv(comparisons: Sequence[Comparison]) -> str:
    """One line for each value, in long form for a data frame.

    A line with a `baseline` is a paired difference; its low and high are the 95 % interval for
    other seeds, texts_low and texts_high that for other seeds and texts. For an interaction both
    are differences themselves. Where seeds were added because of results, low, high, p, p_adjusted
    and verdict are anytime-valid. A line with `within` compares levels of one factor at this level
    of the other, and is judged with the other such lines. k_low and k_high are the 95 % prediction
    interval of one more seed, k_distance is that of k from the mean in standard deviations.
    """
    lines: list[dict[str, object]] = []
    for comparison in comparisons:
        start = {"data": comparison.data, "protocol": comparison.protocol}
        for variant in comparison.variants:
            lines += [{**start, "variant": variant.label, **row} for row in _mean_rows(variant)]
        baseline = comparison.variants[0].label
        compared = [(label, baseline, "", found) for label, found in comparison.differences.items()]
        for each in comparison.within:
            other, level = [*each.levels.items()][1]
            at = f"{other}={level.removeprefix(f'{other}=')}"
            compared.append((each.variant, each.baseline, at, each.points))
        for interaction in comparison.interactions:
            one, two, three, four = interaction.variants
            compared.append((f"{one} − {two}", f"{three} − {four}", "", interaction.points))
        for label, other, at, found in compared:
            for point, difference in found.items():
                where = {"variant": label, "baseline": other, "point": point, "within": at}
                lines += [{**start, **where, **row} for row in _difference_rows(difference)]
    return csv_lines(lines, CSV_COLUMNS)


def as_json(comparisons: Sequence[Comparison]) -> str:
    """One document with every number at full precision."""
    document = {
        "schema": SCHEMA,
        "comparisons": [asdict(comparison) for comparison in comparisons],
        "across": [asdict(one) for one in _over_data(comparisons)],
    }
    return json.dumps(document, indent=1)


def _over_data(comparisons: Sequence[Comparison]) -> list[Across]:
    """Differences over data sets; empty unless two data sets have an interval."""
    with suppress(UserError):
        return across.across_data(comparisons)
    return []


def tables_as_csv(found: Sequence[Table]) -> str:
    """A line for each row, with numbers at full precision. Raises `UserError` for tables that do
    not have that."""
    records = [record for table in found for record in table.records]
    if not records:
        raise UserError(
            "--format csv needs differences, which these tables do not have. Use --table "
            "differences, leave out --table, or use --format json."
        )
    return csv_lines(records, records[0])


def tables_as_json(found: Sequence[Table]) -> str:
    """One document: the cells as text, and numbers at full precision where a table has them."""
    columns = ("title", "columns", "rows", "notes", "records")
    trees = [{name: getattr(table, name) for name in columns} for table in found]
    return json.dumps({"schema": TABLE_SCHEMA, "tables": trees}, indent=1)


TABLE_TEXTS: dict[str, Callable[[Sequence[Table]], str]] = {
    "markdown": markdown_tables,
    "csv": tables_as_csv,
    "json": tables_as_json,
    "latex": latex_tables,
}
"""Functions that write tables in each format, by its name."""

TEXTS = {"markdown": markdown, "csv": as_csv, "json": as_json, "latex": latex}
"""Functions that write each format, by its name."""


def csv_lines(rows: Iterable[Mapping[str, object]], columns: Collection[str]) -> str:
    """Rows as csv, with a quote before texts that a spreadsheet would take for a formula."""
    file = io.StringIO()
    writer = csv.DictWriter(file, columns, lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow(
            {
                name: f"'{cell}" if isinstance(cell, str) and _FORMULA.match(cell) else cell
                for name, cell in row.items()
            }
        )
    return file.getvalue()


def _mean_rows(variant: Variant) -> Iterator[dict[str, object]]:
    for at, means in variant.means.items():
        for name, mean in means.items():
            published = variant.published.get(at, {}).get(name)
            place = {"epoch" if isinstance(at, int) else "point": at}
            row = {**place, "metric": name, **asdict(mean), "k": published}
            if found := variant.agreement.get(at, {}).get(name):
                row |= {"k_low": found.low, "k_high": found.high, "k_distance": found.distance}
            yield row


def _difference_rows(difference: Difference) -> Iterator[dict[str, object]]:
    for name, pair in difference.metrics.items():
        low, high = difference.interval(name)
        row = {"metric": name, **asdict(pair.difference), "low": low, "high": high}
        if name == "accuracy" and difference.texts is not None:
            row |= {"texts_low": difference.texts.low, "texts_high": difference.texts.high}
        if name in difference.judgements:
            judgement = difference.judgements[name]
            ours = {"p": pair.p, "p_adjusted": judgement.p_adjusted, "verdict": judgement.verdict}
            if difference.sequential:
                decision = difference.anytime[name]
                ours = {"p": decision.p, "p_adjusted": decision.p_holm}
                ours["verdict"] = decision.verdict or "open"
            row |= ours
        yield row


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(_literal(cell).replace("\n", " ") for cell in cells) + " |"


def _literal(text: str) -> str:
    """The text with what Markdown would read as code, emphasis, math, a tag or a cell escaped."""
    return re.sub(r"[\\`*$|]|<(?=[\w/!?])", r"\\\g<0>", text)


_FORMULA = re.compile(r"[=+\-@](?![\d.]+([eE][+-]?\d+)?$)")
"""Begins like a formula, and is no number."""


def print_tables(found: Iterable[Table], console: Console) -> None:
    """Print title, cells and notes of tables, with a line before each."""
    for table in found:
        view = RichTable(
            box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True
        )
        first, *others = table.columns
        view.add_column(first, overflow="fold")
        for column in others:
            view.add_column(column, justify="right", overflow="fold")
        for place, row in enumerate(table.rows):
            style = "dim" if place in table.published else None
            view.add_row(*(Text(cell) for cell in row), style=style)
        console.print()
        console.print(Text(table.title), style="bold")
        console.print(view)
        for note in table.notes:
            console.print(Text(note), style="dim")
