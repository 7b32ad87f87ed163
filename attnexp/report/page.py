"""Comparisons as one HTML page, of the template `page.html`, without network or scripts."""

import io
from base64 import b64encode
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jinja2 import Environment, PackageLoader
from matplotlib.figure import Figure

from attnexp.analysis.answer import Answer
from attnexp.base import progress
from attnexp.report import cells, figures, methods, remarks, tables, titles

if TYPE_CHECKING:
    from attnexp.inspect.insight import Reading


def write_page(path: Path, answer: Answer, readings: Sequence[tuple[str, "Reading"]] = ()) -> None:
    """Write the page. readings: what models make of a text, each after the name of its run."""
    loader = PackageLoader("attnexp.report", "")
    environment = Environment(
        loader=loader,
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["svg"] = _encode_svg
    text = environment.get_template("page.html").render(
        title=_title(answer),
        answer=answer,
        readings=readings,
        cells=cells,
        figures=figures,
        methods=methods,
        remarks=remarks,
        tables=tables,
        titles=titles,
    )
    path.write_text(text, "utf-8")
    progress.note(f"Wrote {path}.")


def _encode_svg(figure: Figure) -> str:
    file = io.BytesIO()
    figures.write_figure(figure, file, "svg")
    return b64encode(file.getvalue()).decode()


def _title(answer: Answer) -> str:
    """`pe against no_pe on imdb`."""
    variants: list[str] = []
    for group in answer.groups:
        variants += group.variants
    baseline, *others = dict.fromkeys(variants)
    if len(others) > 1:
        others = [f"{len(others)} variants"]
    compared = " against ".join([*others, baseline])
    data = dict.fromkeys(group.data for group in answer.groups)
    return f"{compared} on {', '.join(data)}"
