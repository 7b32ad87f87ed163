"""Comparisons as one HTML page, of the template `page.html`, that needs no network and no scripts;
and one picture of them. Names and texts are the user's, so all of them are escaped."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd
from jinja2 import Environment, PackageLoader
from matplotlib.figure import Figure

from attnexp.analysis import contrasts
from attnexp.analysis.frames import Group
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write
from attnexp.report import figures, tables, terminal
from attnexp.runs import store
from attnexp.runs.identity import as_word, default_label, replicate, settings
from attnexp.runs.result import POINTS, Run
from attnexp.statistics.verdict import Metric

if TYPE_CHECKING:
    from attnexp.inspect.insight import Reading

Reader = Callable[[str], "Reading"]
Readings = Sequence[tuple[str, "Reading"]]  # each with the name of its run


def write(
    path: Path, groups: Sequence[Group], metrics: Sequence[Metric], readings: Readings = ()
) -> None:
    """Write the page; the same results give the same bytes. readings: stand side by side."""
    loader = PackageLoader("attnexp.report", "")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["svg"] = lambda figure: b64encode(figures.drawn(figure, "svg")).decode()
    environment.filters["provenance"] = lambda folder: store.load_result(folder).provenance
    used = (contrasts, figures, tables, terminal, settings, as_word)
    environment.globals |= {one.__name__.rpartition(".")[-1]: one for one in used}
    template = environment.get_template("page.html")
    if readings:
        from attnexp.report.reading import describe_padding  # imports torch

        environment.globals["describe_padding"] = describe_padding
    given = {"groups": groups, "metrics": metrics, "readings": readings, "points": POINTS}
    text = template.render(means=_means(groups, metrics), **given)
    with atomic_write(path) as file:
        file.write(text.encode())
    progress.note(f"Wrote {path}.")


def _means(groups: Sequence[Group], metrics: Sequence[Metric]) -> list[pd.DataFrame]:
    """Means over data sets; none of one data set, or of variants that have no common name."""
    with suppress(UserError):
        return [contrasts.across(groups, metrics)]
    return []


def readers_of(
    folders: Sequence[Path], *, trust_code: bool, any_code: bool
) -> list[tuple[str, Reader]]:
    """Names of finished runs, and functions that read a text with their models. Raises `UserError`
    as `make_reader` does."""
    if not folders:
        return []
    from attnexp.inspect.insight import make_reader  # imports torch

    runs = [Run(path=folder, result=store.load_result(folder)) for folder in folders]
    readers = [make_reader(run, trust_code=trust_code, any_code=any_code) for run in runs]
    configs = [run.result.config for run in runs]
    names = [f"{default_label(config)}, seed {replicate(config)}" for config in configs]
    return [*zip(names, readers, strict=True)]


def draw(
    show: str, groups: Sequence[Group], metrics: Sequence[Metric], readings: Readings
) -> Figure:
    """One picture: `curves` of the first group, `forest` of all differences, `attention` or
    `positions` of the first reading that has any. Raises `UserError` where there is none."""
    if show == "curves":
        return figures.curves(groups[0])
    if show == "forest":
        rows = [contrasts.differences(group, metrics) for group in groups]
        return figures.forest(pd.concat([*rows, *_means(groups, metrics)]))
    for _, reading in readings:
        if show == "attention" and reading.layers:
            return figures.attention(reading)
        if show == "positions" and reading.table is not None:
            return figures.positions(reading.table)
    raise UserError(f"There is no run with {show} to show. Give one with --run RUN_DIR.")
