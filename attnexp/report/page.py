"""Comparisons as one HTML page, of the template `page.html`, that needs no network and no scripts;
and one picture of them. Names and texts are the user's, so all of them are escaped."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader
from matplotlib.figure import Figure

from attnexp.analysis.answer import Answer, Comparison
from attnexp.analysis.endpoints import ENDPOINTS
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write
from attnexp.report import cells, difference_tables, figures, tables, terminal
from attnexp.report.figures import ForestRow
from attnexp.runs import store
from attnexp.runs.labels import as_word, default_label, replicate, settings
from attnexp.runs.result import Run

if TYPE_CHECKING:
    from attnexp.inspect.insight import Reading

Reader = Callable[[str], "Reading"]
Readings = Sequence[tuple[str, "Reading"]]  # each with the name of its run


def write_page(path: Path, answer: Answer, readings: Readings = ()) -> None:
    """Write the page; the same results give the same bytes. readings: stand side by side."""
    loader = PackageLoader("attnexp.report", "")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {"cells": cells, "figures": figures}
    if readings:
        from attnexp.report.reading import describe_padding  # imports torch

        environment.globals["describe_padding"] = describe_padding
    template = environment.get_template("page.html")
    text = template.render(
        title=_title(answer),
        sections=[_describe_comparison(answer, row) for row in answer.comparisons],
        means=difference_tables.tabulate_means_over_data(answer.means) if answer.means else None,
        forests_of_means=_forests([figures.forest_row_of_mean(row) for row in answer.means]),
        several=len(answer.comparisons) > 1,
        readings=readings,
        endpoints=ENDPOINTS.get(answer.groups[0].protocol, ()),
        svg=_embed,
    )
    with atomic_write(path) as file:
        file.write(text.encode())
    progress.note(f"Wrote {path}.")


def _title(answer: Answer) -> str:
    """`pe against no_pe on imdb`."""
    variants: list[str] = []
    for group in answer.groups:
        variants += [name for name in group.variants if name not in variants]
    title = ""
    if len(variants) == 2:
        title = f"{variants[1]} against "
    elif len(variants) > 2:
        title = f"{len(variants) - 1} variants against "
    data = dict.fromkeys(group.data for group in answer.groups)
    return f"{title}{variants[0]} on {', '.join(data)}"


def _describe_comparison(answer: Answer, comparison: Comparison) -> dict[str, Any]:
    """What the template shows of one data set and protocol."""
    group = comparison.group
    part = answer.select([comparison])
    has_curve = (comparison.epochs["metric"] == "val_accuracy").any()
    lines = [
        *terminal.describe_epochs(comparison),
        *map(terminal.describe_agreement, comparison.agreements),
        *part.notes,
    ]
    return {
        "data": group.data,
        "differences": comparison.differences,
        "forests": _forests([figures.forest_row(row) for row in comparison.differences]),
        "lines": lines,
        "means": tables.tabulate_means(part),
        "curves": figures.draw_curves([comparison]) if has_curve else None,
        "configs": _differing_settings(group.configs),
        "provenance": _list_provenance(comparison),
    }


def _forests(rows: Sequence[ForestRow]) -> list[Figure]:
    """A forest for each metric."""
    by_metric: dict[str, list[ForestRow]] = {}
    for row in rows:
        by_metric.setdefault(row.metric.name, []).append(row)
    return [figures.draw_forest(group) for group in by_metric.values()]


def _differing_settings(configs: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Settings in which each variant differs from the first, as words."""
    by_variant = {name: settings(config) for name, config in configs.items()}
    baseline = next(iter(by_variant.values()), {})
    words = {}
    for name, values in by_variant.items():
        differing = [
            as_word(key, value)
            for key, value in values.items()
            if key not in baseline or baseline[key] != value
        ]
        words[name] = ", ".join(differing) or "the baseline's settings"
    return words


def _list_provenance(comparison: Comparison) -> list[dict[str, Any]]:
    """Version, commit and torch of the runs on disk, once for each commit."""
    by_commit: dict[str, dict[str, Any]] = {}
    folders = comparison.group.runs.reindex(columns=["folder"])["folder"].dropna()
    for folder in folders:
        provenance = store.load_result(folder).provenance
        by_commit.setdefault(provenance["commit"], provenance)
    return list(by_commit.values())


def _embed(figure: Figure) -> str:
    """A picture as the data of an image."""
    return b64encode(figures.render_figure(figure, "svg")).decode()


def load_readers(
    folders: Sequence[Path], *, trust_code: bool, any_code: bool
) -> list[tuple[str, Reader]]:
    """Names of finished runs, and functions that read a text with their models. Raises `UserError`
    as `make_reader` does."""
    if not folders:
        return []
    from attnexp.inspect.insight import make_reader  # imports torch

    readers = []
    for folder in folders:
        run = Run(path=folder, result=store.load_result(folder))
        config = run.result.config
        name = f"{default_label(config)}, seed {replicate(config)}"
        readers.append((name, make_reader(run, trust_code=trust_code, any_code=any_code)))
    return readers


def draw_picture(show: str, answer: Answer, readings: Readings) -> Figure:
    """One picture: `curves`, `forest` of all differences, `attention` or `positions` of the first
    reading that has any. Raises `UserError` where there is none."""
    if show == "curves":
        return figures.draw_curves(answer.comparisons)
    if show == "forest":
        rows = [figures.forest_row(row) for row in answer.differences]
        rows += [figures.forest_row_of_mean(row) for row in answer.means]
        return figures.draw_forest(rows)
    for _, reading in readings:
        if show == "attention" and reading.layers:
            return figures.draw_attention(reading)
        if show == "positions" and reading.table is not None:
            return figures.draw_positions(reading.table)
    raise UserError(f"There is no run with {show} to show. Give one with --run RUN_DIR.")
