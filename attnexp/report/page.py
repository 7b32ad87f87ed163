"""Comparisons as one HTML page, of the template `page.html`, that needs no network and no scripts;
and one picture of them. Names and texts are the user's, so all of them are escaped."""

import io
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader
from matplotlib.figure import Figure

from attnexp.analysis.answer import Answer
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.report import cells, figures, sentences, tables
from attnexp.runs.find import load_run
from attnexp.runs.labels import default_label, replicate

if TYPE_CHECKING:
    from attnexp.inspect.insight import Reading

Readings = Sequence[tuple[str, "Reading"]]  # each with the name of its run


def write_page(path: Path, answer: Answer, readings: Readings = ()) -> None:
    """Write the page. readings: stand side by side."""
    loader = PackageLoader("attnexp.report", "")
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["svg"] = _encode_svg
    text = environment.get_template("page.html").render(
        title=_title(answer),
        answer=answer,
        readings=readings,
        cells=cells,
        figures=figures,
        sentences=sentences,
        tables=tables,
    )
    path.write_text(text, "utf-8")
    progress.note(f"Wrote {path}.")


def _encode_svg(figure: Figure) -> str:
    file = io.BytesIO()
    figures.write_figure(figure, file, "svg")
    return b64encode(file.getvalue()).decode()


def _title(answer: Answer) -> str:
    """`pe against no_pe on imdb`."""
    variants = [variant for group in answer.groups for variant in group.variants]
    baseline, *others = dict.fromkeys(variants)
    if len(others) > 1:
        others = [f"{len(others)} variants"]
    data = ", ".join(dict.fromkeys(group.data for group in answer.groups))
    compared = " against ".join([*others, baseline])
    return f"{compared} on {data}"


def load_readings(
    folders: Sequence[Path], text: str, *, trust_code: bool, any_code: bool
) -> Readings:
    """What the models of finished runs make of a text; they load as `load_model` does."""
    if not folders:
        return []
    from attnexp.inspect.insight import load_model  # imports torch

    readings = []
    for folder in folders:
        config = load_run(folder).result.config
        name = f"{default_label(config)}, seed {replicate(config)}"
        trained = load_model(folder, trust_code=trust_code, any_code=any_code)
        readings.append((name, trained.read(text)))
    return readings


def write_files(
    answer: Answer, readings: Readings, html: Path | None, figure: Path | None, show: str
) -> None:
    """Write the page and one picture, each where a file is named."""
    if html is not None:
        write_page(html, answer, readings)
    if figure is not None:
        figures.save_figure(_draw_picture(show, answer, readings), figure)


def _draw_picture(show: str, answer: Answer, readings: Readings) -> Figure:
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
