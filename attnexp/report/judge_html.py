"""Judged results as one HTML page, in the manner of the report's."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnexp.report import figures, html
from attnexp.report.judge import Judged, statistics, summary, to_json


def write(path: Path, judged: Sequence[Judged]) -> None:
    """Write the page, whole or not at all. Raises `UserError` where that cannot be done."""
    html.save(path, page(judged))


def page(judged: Sequence[Judged]) -> str:
    """The page as text, with every figure inside."""
    baseline, *others = judged[0].variants
    file = html.DataFile(
        name="judged.json",
        kind="application/json",
        text=json.dumps(to_json(judged)),
        about="every statistic",
    )
    return html.render(
        "judged.html",
        title=f"{', '.join(others)} against {baseline}",
        metrics=[_metric(each) for each in judged],
        downloads=[html.link(file)],
    )


def _metric(judged: Judged) -> dict[str, Any]:
    margin = judged.unit.plain(judged.margin) + judged.unit.name
    baseline = next(iter(judged.variants))
    return {
        "judged": judged,
        "baseline": baseline,
        "margin": margin,
        "forest": _forest(judged, baseline, margin) if judged.differences else None,
        "summary": summary(judged),
        "statistics": statistics(judged),
    }


def _forest(judged: Judged, baseline: str, margin: str) -> html.Figure:
    axis = f"difference in {judged.metric}" + judged.unit.name.replace(" ", ", ", 1)
    lines = [f"{label}: {found.line}" for label, found in judged.judgements.items()]
    return html.Figure(
        picture=figures.intervals({f"minus {baseline}": judged.differences}, axis, judged.unit),
        alt=f"Forest plot, {axis}. {'. '.join(lines)}",
        caption=f"Mean difference with its 95 % interval. Shaded: ± {margin}, declared not to "
        f"matter.",
    )
