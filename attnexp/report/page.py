"""Comparisons as one HTML page, of the template `page.html`, that needs no network and no scripts;
and one picture of them. Names and texts are the user's, so all of them are escaped."""

import io
from base64 import b64encode
from collections.abc import Callable, Sequence
from itertools import starmap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, PackageLoader
from matplotlib.figure import Figure

from attnexp.analysis.answer import Answer
from attnexp.analysis.contrasts import Difference
from attnexp.analysis.endpoints import ENDPOINTS
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.report import cells, figures, sentences, tables
from attnexp.report.sentences import describe_in_words, describe_studies
from attnexp.runs.labels import as_word, default_label, replicate, settings
from attnexp.runs.manifest import load_run
from attnexp.statistics.verdict import MetricSpec

if TYPE_CHECKING:
    from attnexp.inspect.insight import Reading

Readings = Sequence[tuple[str, "Reading"]]  # each with the name of its run


def write_page(path: Path, answer: Answer, readings: Readings = ()) -> None:
    """Write the page. readings: stand side by side."""
    loader = PackageLoader("attnexp.report", "")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.globals |= {"cells": cells, "figures": figures, "tables": tables}
    environment.globals |= {"sentences": sentences, "draw_forests": _draw_forests}
    environment.globals |= {"describe_departures": _describe_departures}
    environment.filters["svg"] = _encode_svg
    text = environment.get_template("page.html").render(
        title=_title(answer),
        answer=answer,
        parts=[answer.select_comparisons([row]) for row in answer.comparisons],
        readings=readings,
        methods=map(describe_in_words, describe_studies(answer)),
        endpoints=ENDPOINTS.get(answer.groups[0].protocol, ()),
    )
    path.write_text(text, "utf-8")
    progress.note(f"Wrote {path}.")


def _encode_svg(figure: Figure) -> str:
    """A picture as the page holds it."""
    file = io.BytesIO()
    figures.write_figure(figure, file, "svg")
    return b64encode(file.getvalue()).decode()


def _title(answer: Answer) -> str:
    """`pe against no_pe on imdb`."""
    names: list[str] = []
    for group in answer.groups:
        names += group.variants
    baseline, *variants = dict.fromkeys(names)
    if len(variants) > 1:
        variants = [f"{len(variants)} variants"]
    data = dict.fromkeys(group.data for group in answer.groups)
    subject = " against ".join([*variants, baseline])
    return f"{subject} on {', '.join(data)}"


def _draw_forests(rows: Sequence[Difference]) -> list[Figure]:
    """A forest for each metric."""
    by_metric: dict[MetricSpec, list[Difference]] = {}
    for row in rows:
        by_metric.setdefault(row.metric, []).append(row)
    return [figures.draw_forest(rows_of_metric) for rows_of_metric in by_metric.values()]


def _describe_departures(configs: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Settings in which each variant differs from the first, as words."""
    settings_of = {variant: settings(config) for variant, config in configs.items()}
    baseline = next(iter(settings_of.values()))
    words = {}
    for variant, values in settings_of.items():
        own = [
            (key, value) for key, value in values.items() if (key, value) not in baseline.items()
        ]
        words[variant] = ", ".join(starmap(as_word, own)) or "the baseline's settings"
    return words


def load_readers(
    folders: Sequence[Path], *, trust_code: bool, any_code: bool
) -> "list[tuple[str, Callable[[str], Reading]]]":
    """Names of finished runs, and what reads a text with their models, as `load_model` does."""
    if not folders:
        return []
    from attnexp.inspect.insight import load_model  # imports torch

    readers: list[tuple[str, Callable[[str], Reading]]] = []
    for folder in folders:
        config = load_run(folder).result.config
        name = f"{default_label(config)}, seed {replicate(config)}"
        trained = load_model(folder, trust_code=trust_code, any_code=any_code)
        readers.append((name, trained.read))
    return readers


def draw_picture(show: str, answer: Answer, readings: Readings) -> Figure:
    """One picture: `curves`, `forest` of all differences, `attention` or `positions` of the first
    reading that has any. Raises `UserError` where there is none."""
    if show == "curves":
        return figures.draw_curves(answer.comparisons)
    if show == "forest":
        return figures.draw_forest(answer.differences)
    for _, reading in readings:
        if show == "attention" and reading.layers:
            return figures.draw_attention(reading)
        if show == "positions" and reading.table is not None:
            return figures.draw_positions(reading.table)
    raise UserError(f"No run of --run has {show} to show. Give one with --run RUN_DIR.")
