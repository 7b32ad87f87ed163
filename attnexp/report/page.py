"""Comparisons as one HTML page that needs no network and no scripts; and one picture of them.

`page.html` is the template. Names and texts are the user's: all is escaped but our own svg.
"""

import io
import re
from collections.abc import Sequence
from itertools import count, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from attnexp.analysis import contrasts
from attnexp.analysis.frames import Group
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write
from attnexp.report import figures, tables, terminal
from attnexp.runs import store
from attnexp.runs.identity import as_word, default_label, replicate, settings
from attnexp.runs.result import POINTS, Run
from attnexp.statistics.verdict import Metric

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from attnexp.inspect.insight import Reading

COLOURS = {
    figures.INK: "currentColor",
    figures.MUTED: "var(--muted)",
    figures.RULE: "var(--rule)",
    figures.PAPER: "var(--paper)",
    **{colour: f"var(--s{i})" for i, colour in enumerate(figures.SERIES)},
}
"""Colours of the page, light or dark, by those of a picture."""


def write(
    path: Path, groups: Sequence[Group], metrics: Sequence[Metric], *, runs: Sequence[Run] = (),
    sentence: str | None = None, trust_code: bool = False,
) -> None:  # fmt: skip
    """Write the page; the same results give the same bytes.

    metrics: those that are judged. runs: those whose attention is shown, side by side; if empty,
    those of two variants that have any. sentence: what they read, `insight.SENTENCE` if None.
    """
    from jinja2 import Environment, PackageLoader

    loader, numbers = PackageLoader("attnexp.report", ""), count(1)
    environment = Environment(loader=loader, autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["svg"] = lambda figure: svg(figure, f"f{next(numbers)}")
    text = environment.get_template("page.html").render(
        title=_title(groups),
        sections=[_section(group, metrics) for group in groups],
        models=[_model(run, sentence, trust_code) for run in runs or with_attention(groups)],
        figures=figures,
    )
    with atomic_write(path) as file:
        file.write(text.encode())


def svg(figure: "Figure", name: str) -> str:
    """A picture as an element of a page, in the page's colours; its ids depend on `name`."""
    from matplotlib import rc_context

    file = io.StringIO()
    with figures.light_style(), rc_context({"svg.hashsalt": name}):
        figure.savefig(file, format="svg", transparent=True, metadata={"Date": None})
    text = re.sub(r"<metadata>.*?</metadata>|<style.*?</style>", "", file.getvalue(), flags=re.S)
    text = re.sub(r' id="(?:[\w.]+_\d+|image\w+)"|(?<=\n) +| (?:width|height)="[\d.]+pt"', "", text)
    text = re.sub(r' d="[^"]*"', lambda path: re.sub(r"(\.\d\d)\d+", r"\1", path[0]), text)
    for colour, of_page in COLOURS.items():
        text = text.replace(colour, of_page)
    return text[text.index("<svg") :]


def _title(groups: Sequence[Group]) -> str:
    base, *others = dict.fromkeys(name for group in groups for name in group.variants)
    named = others[0] if len(others) == 1 else f"{len(others)} variants"
    where = ", ".join(dict.fromkeys(group.data for group in groups))
    return f"{named} against {base} on {where}" if others else f"{base} on {where}"


def _section(group: Group, metrics: Sequence[Metric]) -> dict[str, Any]:
    """What the page says of a comparison."""
    rows = contrasts.differences(group, metrics)
    own = {name: settings(config) for name, config in group.configs.items()}
    base = own.get(group.variants[0], {}).items()
    made = [store.load(folder).provenance for folder in group.runs.dropna().get("folder", [])]
    words = {
        k: [as_word(*item) for item in of.items() if item not in base] for k, of in own.items()
    }
    return {
        "group": group,
        "rows": rows,
        "within": contrasts.within(group, metrics),
        "lines": [tables.verdict_line(row) for _, row in rows.iterrows()],
        "table": tables.accuracy([group], metrics),
        "remarks": terminal.remarks([group], [rows]),
        "by_epoch": {*group.epochs["metric"]},
        "points": POINTS.get(group.protocol, {}),
        "differing": words,
        "made_by": {tuple(map(one.get, ("version", "commit", "torch"))): None for one in made},
    }


def with_attention(groups: Sequence[Group]) -> list[Run]:
    """The first runs of the first two variants with attention, where runs have a folder."""
    rows = pd.concat(group.runs.reindex(columns=["variant", "folder"]) for group in groups)
    firsts = rows.dropna().drop_duplicates("variant").itertuples()
    runs = (Run(path=r.folder, result=store.load(r.folder), label=r.variant) for r in firsts)
    return [*islice((run for run in runs if "score" in run.result.config["model"]), 2)]


def _read(run: Run, sentence: str | None, trust_code: bool) -> "Reading":
    from attnexp.inspect import insight  # imports torch

    return insight.reader(run, trust_code=trust_code)(sentence or insight.SENTENCE)


def _model(run: Run, sentence: str | None, trust_code: bool) -> dict[str, Any]:
    """What the page shows of a model: its reading of the sentence, or why there is none."""
    from attnexp.inspect import insight

    label = run.label or default_label(run.result.config)
    shown: dict[str, Any] = {"name": f"{label}, seed {replicate(run.result.config)}"}
    shown["text"] = sentence or insight.SENTENCE
    try:
        shown["read"] = read = _read(run, sentence, trust_code)
    except UserError as error:  # there are no weights, say
        return shown | {"missing": str(error)}
    return shown | {"tokens": [*zip(read.marked, map(insight.colour, read.shades()), strict=False)]}


def draw(
    show: str, groups: Sequence[Group], metrics: Sequence[Metric], runs: Sequence[Run],
    sentence: str | None = None, trust_code: bool = False,
) -> "Figure":  # fmt: skip
    """One picture: `curves` or `loss` of the first group, `forest` of all differences, `attention`
    or `positions` of the first of the runs that has any. Raises `UserError` where there is none."""
    if show in ("curves", "loss"):
        return figures.curves(groups[0], "loss" if show == "loss" else "accuracy")
    if show == "forest":
        rows = [contrasts.differences(group, metrics) for group in groups]
        rows += [contrasts.across(groups, metrics)] if len({g.data for g in groups}) > 1 else []
        return figures.forest(pd.concat(rows))
    for run in runs or with_attention(groups):
        read = _read(run, sentence, trust_code)
        if show == "attention" and read.layers:
            return figures.attention(read)
        if show == "positions" and read.table is not None:
            return figures.positions(read.table)
    raise UserError(f"No run here has {show} to show. Choose another with --run RUN_DIR.")
