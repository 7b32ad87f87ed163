"""Comparisons as tables: for a terminal of 80 columns, and as markdown, csv and json."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass

from rich import box
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from attnexp.report.comparison import METRICS, Comparison, Variant
from attnexp.stats import Mean

HEADINGS = {
    "train_loss": "loss",
    "train_accuracy": "acc",
    "train_accuracy_after": "acc after",
    "val_loss": "val loss",
    "val_accuracy": "val acc",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Cells as text. A row whose first cell is `K` holds published figures."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str]


def tables(comparison: Comparison) -> list[Table]:
    """An epoch table for each variant, then the summary of all."""
    return [
        *(_epochs(variant, comparison) for variant in comparison.variants),
        _summary(comparison),
    ]


def show(comparisons: Sequence[Comparison], console: Console) -> None:
    """Print everything to a terminal or a pipe."""
    for comparison in comparisons:
        for table in tables(comparison):
            console.print()
            _show(table, console)


def markdown(comparisons: Sequence[Comparison]) -> str:
    """GitHub tables."""
    blocks = []
    for table in (table for comparison in comparisons for table in tables(comparison)):
        lines = [f"**{table.title}**", "", _row(table.columns), _row(["---:"] * len(table.columns))]
        lines += [_row(row) for row in table.rows]
        blocks.append("\n".join([*lines, "", *(f"{note}  " for note in table.notes)]).rstrip())
    return "\n\n".join(blocks) + "\n"


def as_csv(comparisons: Sequence[Comparison]) -> str:
    """One line for each figure: long form, for a data frame."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(["data", "protocol", "variant", "epoch", "metric", "mean", "sd", "n", "k"])
    for comparison in comparisons:
        for variant in comparison.variants:
            start = [comparison.data, comparison.protocol, variant.label]
            for epoch in variant.epochs:
                for name, figure in epoch.figures.items():
                    published = (epoch.k or {}).get(name)
                    writer.writerow([*start, epoch.epoch, name, *_numbers(figure), published])
            for name, figure, published in (
                ("peak_val_accuracy", variant.peak, variant.k_peak),
                ("final_val_accuracy", variant.final, variant.k_final),
                ("test_accuracy", variant.test, None),
            ):
                writer.writerow([*start, "", name, *_numbers(figure), published])
    return file.getvalue()


def as_json(comparisons: Sequence[Comparison]) -> str:
    """One document with every number at full precision."""
    return json.dumps([comparison.to_json() for comparison in comparisons], indent=1)


def _epochs(variant: Variant, comparison: Comparison) -> Table:
    names = [name for name in METRICS if name in variant.epochs[0].figures]
    rows = []
    for epoch in variant.epochs:
        rows.append([str(epoch.epoch), *(_figure(name, epoch.figures[name]) for name in names)])
        if epoch.k:
            rows.append(["K", *(_published(name, epoch.k.get(name)) for name in names)])
    notes = []
    if "train_accuracy_after" in names:
        notes.append("acc: running mean over the epoch; acc after: measured on train when it ends")
    if any(epoch.k for epoch in variant.epochs):
        notes.append("K: the published run, one seed")
    return Table(
        title=f"{variant.label}: {_count(variant.seeds)} on {_data(comparison)}",
        columns=["epoch", *(HEADINGS[name] for name in names)],
        rows=rows,
        notes=notes,
    )


def _summary(comparison: Comparison) -> Table:
    holdout = comparison.protocol == "holdout"
    figures = ["peak", "final", "test"] if holdout else ["peak", "final"]
    rows = []
    for variant in comparison.variants:
        values = [_percent(getattr(variant, name)) for name in figures]
        rows.append([variant.label, str(len(variant.seeds)), *values])
        if variant.k_peak is not None and variant.k_final is not None:
            published = [f"{100 * value:.2f}" for value in (variant.k_peak, variant.k_final)]
            rows.append(["K", "1", *published])
    baseline = comparison.variants[0].label
    notes = []
    for label, found in comparison.differences.items():
        n = found["final"].difference.n if "final" in found else 0
        if n == 0:
            notes.append(f"{label} and {baseline} share no seed, so they are not compared.")
            continue
        rows.append(
            [
                f"{label} − {baseline}",
                str(n),
                *(_points(found[name].difference) for name in figures),
            ]
        )
        for name in figures:
            pair = found[name]
            each = ", ".join(f"{100 * value:+.2f}" for value in pair.by_seed.values())
            line = f"{label} − {baseline}, {name}, by seed: {each}"
            if pair.low is not None and pair.high is not None:
                line += f"; 95 % interval {100 * pair.low:+.2f} to {100 * pair.high:+.2f}"
            notes.append(line)
    notes.append("Accuracy in %, differences in points, mean ± standard deviation over seeds.")
    if holdout:
        notes.append("peak, final: on held-out train data. test: once, at the peak's epoch.")
    else:
        notes.append("Validated on test, so the peak is optimistic.")
    if comparison.order_blind_ceiling is not None:
        ceiling = f"{100 * comparison.order_blind_ceiling:.2f}"
        notes.append(f"Synthetic reviews: a model blind to word order reaches {ceiling} at most.")
    return Table(
        title=f"Validation accuracy on {_data(comparison)}",
        columns=["variant", "n", *figures],
        rows=rows,
        notes=notes,
    )


def _data(comparison: Comparison) -> str:
    synthetic = " (synthetic)" if comparison.order_blind_ceiling is not None else ""
    validated = "validated on test" if comparison.protocol == "blog" else "validated on held-out"
    return f"{comparison.data}{synthetic}, {validated}"


def _count(seeds: list[int]) -> str:
    return "1 run" if len(seeds) == 1 else f"{len(seeds)} runs"


def _figure(name: str, figure: Mean) -> str:
    return _loss(figure) if name.endswith("loss") else _percent(figure)


def _loss(figure: Mean) -> str:
    spread = "" if figure.sd is None else f" ± {_short(figure.sd)}"
    return _short(figure.mean) + spread


def _percent(figure: Mean) -> str:
    spread = "" if figure.sd is None else f" ± {100 * figure.sd:.2f}"
    return f"{100 * figure.mean:.2f}{spread}"


def _points(figure: Mean) -> str:
    spread = "" if figure.sd is None else f" ± {100 * figure.sd:.2f}"
    return f"{100 * figure.mean:+.2f}{spread}"


def _published(name: str, value: float | None) -> str:
    if value is None:
        return ""
    return _short(value) if name.endswith("loss") else f"{100 * value:.2f}"


def _short(loss: float) -> str:
    """`.3541`: five columns of losses must fit 80 characters."""
    return f"{loss:.4f}".lstrip("0")


def _numbers(figure: Mean) -> list[float | int | None]:
    return [figure.mean, figure.sd, figure.n]


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _show(table: Table, console: Console) -> None:
    view = RichTable(
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        collapse_padding=True,
    )
    for index, column in enumerate(table.columns):
        view.add_column(column, justify="left" if index == 0 else "right", no_wrap=index > 0)
    for row in table.rows:
        published = row[0] == "K"
        view.add_row(*(Text(cell) for cell in row), style="dim" if published else None)
    console.print(Text(table.title), style="bold")
    console.print(view)
    for note in table.notes:
        console.print(Text(note), style="dim")
