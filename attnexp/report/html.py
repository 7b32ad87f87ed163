"""Comparisons as one HTML page that needs no network and no scripts.

It carries its data; those of large studies lie in a folder beside it. `page.html` is the template
of `attnexp report` and `attnexp judge`; its contents are gathered here. Labels and command lines
are the user's, so everything is escaped but the plots, which `canvas.py` makes safe.
"""

import base64
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attnexp.analysis.comparison import Comparison
from attnexp.analysis.probed import summarise
from attnexp.analysis.variants import by_variant, comparison_groups, label_of
from attnexp.base.files import atomic_write, writing
from attnexp.inspect import insight
from attnexp.report import cells, differences, figures, formats, probed, tables, verdicts
from attnexp.report.canvas import Figure
from attnexp.report.cells import Table
from attnexp.report.inside import WHY, choose, show_inside
from attnexp.report.provenance import as_yaml, differing, provenance
from attnexp.runs.result import Run

CURVES = {
    "val_accuracy": "Validation accuracy, %",
    "val_loss": "Validation loss, nats",
    "train_loss": "Train loss (running mean, dropout on), nats",
}
"""Titles of the learning curves, by metric."""

MARKS = "●■◆▲▼"
"""Text symbols for `canvas.MARKERS`."""

MAX_BYTES_INSIDE = 1_000_000
"""Maximum size of the data inside a page: some 200 runs of five epochs."""


DATA = {
    "comparison.json": ("application/json", "every statistic"),
    "runs.json": ("application/json", "every epoch of every run"),
    "figures.csv": ("text/csv", "one value a line, long form"),
}
"""Media type and contents of the files with the data of a page, by name."""

PROTOCOLS = {
    "blog": "validated on the test set, so best is optimistic",
    "holdout": "validated on held-out train data; the test set was touched once",
    "": "results measured by others",
}
"""How validation was done, by protocol."""


def write(path: Path, runs: Sequence[Run], comparisons: Sequence[Comparison], **shown: Any) -> None:
    """Write the page atomically; `shown` is passed on to `page`. Raises `UserError` if it cannot be
    written.

    More data than `MAX_BYTES_INSIDE` are written beside it: for `blog.html` into `blog_files/`, as
    browsers call what they save with a page.
    """
    files = data(runs, comparisons)
    large = sum(map(len, files.values())) > MAX_BYTES_INSIDE
    folder = path.parent / f"{path.stem}_files"
    beside_it = folder.name if large else ""
    text = page(runs, comparisons, files=files, beside=beside_it, **shown)
    with writing(path, "--html FILE"):
        if large:
            folder.mkdir(exist_ok=True)
        beside = {folder / name: content for name, content in files.items() if large}
        for place, content in {**beside, path: text}.items():
            with atomic_write(place) as file:
                file.write(content.encode())


def page(
    runs: Sequence[Run],
    comparisons: Sequence[Comparison],
    *,
    chosen: Sequence[Run] = (),
    trust_code: bool = False,
    sentence: str = insight.SENTENCE,
    files: Mapping[str, str] | None = None,
    beside: str = "",
) -> str:
    """The page as text: the same runs give the same bytes.

    runs: those that `comparisons` was made of; empty for other trainers' results. chosen: runs
    whose attention is shown, side by side; `choose(runs)` if empty. sentence: the text that they
    read. files: the result of `data`, computed if None. beside: folder of these files; empty if
    the page carries them.
    """
    by_group = comparison_groups(runs) or [[] for _ in comparisons]
    groups = [
        _group(comparison, group, f"group{i}")
        for i, (comparison, group) in enumerate(zip(comparisons, by_group, strict=True), start=1)
    ]
    insides = [
        show_inside(run, label_of(run, runs), insight.look(run, sentence, trust_code=trust_code))
        for run in chosen or choose(runs, trust_code=trust_code)
    ]
    return render(
        "page.html",
        title=_title(comparisons),
        num_runs=len(runs),
        groups=groups,
        insides=insides,
        why=WHY["attention"],
        opens=False,
        probed=probed.tables(summarise(runs)),
        sentence=sentence,
        tables=tables,
        differences=differences,
        verdicts=verdicts,
        downloads=[
            _link(name, text, beside) for name, text in (files or data(runs, comparisons)).items()
        ],
        beside=beside,
    )


def render(name: str, *, prefix: str = "", **shown: Any) -> str:
    """Render a template of this folder. Everything in `shown` is escaped, except pictures.

    prefix: of the pictures' names, where several such texts stand on one page.
    """
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("attnexp.report", ""),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["split"] = _split
    numbers = count(1)
    environment.filters["drawn"] = lambda figure: figure.picture.inline(
        name=f"{prefix}f{next(numbers)}", alt=figure.alt
    )
    return environment.get_template(name).render(shown)


def _title(comparisons: Sequence[Comparison]) -> str:
    where = ", ".join(dict.fromkeys(comparison.title for comparison in comparisons))
    labels = dict.fromkeys(each.label for one in comparisons for each in one.variants)
    baseline, *others = labels
    if any(comparison.variants[0].label != baseline for comparison in comparisons):
        return f"{len(labels)} variants on {where}"
    if len(others) > 1:
        return f"{len(others)} variants against {baseline} on {where}"
    return f"{' against '.join([*others, baseline])} on {where}"


def _group(comparison: Comparison, runs: Sequence[Run], anchor: str) -> dict[str, Any]:
    """A comparison with its plots and, for our own runs, their configuration."""
    configs = [(label, group[0].result.config) for label, group in by_variant(runs).items()]
    baseline = configs[0][1] if configs else {}
    judged = comparison.judged
    margins = [
        f"{metric.unit.margin(metric.margin)}{metric.unit.name}"
        + (f" for {name}" if len(judged) > 1 else "")
        for name, metric in judged.items()
    ]
    return {
        "anchor": anchor,
        "comparison": comparison,
        "protocol": PROTOCOLS[comparison.protocol],
        "margins": ", ".join(margins),
        "forests": {metric: _forest(comparison, metric) for metric in judged}
        if any(comparison.differences.values())
        else {},
        "within": list(_within(comparison)),
        "curves": list(_curves(comparison)),
        "by_seed": list(_by_seed(comparison)),
        "config": as_yaml(baseline) if baseline else "",
        "differing": [(label, differing(config, baseline)) for label, config in configs[1:]],
        "provenance": provenance(runs) if runs else [],
    }


def _forest(comparison: Comparison, metric: str) -> Figure:
    how = comparison.metrics[metric]
    lines = [
        f"{label}, {verdicts.heading(comparison, metric, point)}: {judgement.line}"
        for label, found in comparison.differences.items()
        for point, difference in found.items()
        for judgement in [difference.verdict(metric)]
    ]
    return Figure(
        picture=figures.forest(comparison, metric),
        alt="Forest plot of the differences. " + ". ".join(lines),
        caption=(
            f"Mean difference of {metric} from {comparison.variants[0].label} with its 95 % "
            f"interval (thin: for other seeds and texts). Shaded: ± "
            f"{how.unit.margin(how.margin)}{how.unit.name}, the margin."
        ),
    )


def _within(comparison: Comparison) -> Iterator[tuple[Table, Figure]]:
    tables = iter(differences.within(comparison))
    for metric in comparison.judged:
        for group in differences.by_factors(comparison).values():
            table = next(tables)
            picture = figures.within(group, metric, comparison)
            alt = ". ".join(f"{row[0]}, {row[2]}: {row[3]}" for row in table.rows)
            yield table, Figure(picture=picture, alt=alt, caption=f"{table.title}, 95 % intervals")


def _curves(comparison: Comparison) -> Iterator[Figure]:
    if not comparison.variants[0].epochs:
        return
    for variants in figures.together(comparison.variants):
        for metric, title in CURVES.items():
            lines = []
            for variant in variants:
                first, last = (variant.means[variant.epochs[i]][metric].mean for i in (0, -1))
                scale, digits = (100, 2) if metric.endswith("accuracy") else (1, 4)
                lines.append(
                    f"{variant.label} from {scale * first:.{digits}f} to {scale * last:.{digits}f}"
                )
            yield Figure(
                picture=figures.learning(variants, metric),
                alt=f"{title}, from the first epoch to the last: {'; '.join(lines)}.",
                caption=title,
                key=[(i, MARKS[i], variant.label) for i, variant in enumerate(variants)],
            )


def _by_seed(comparison: Comparison) -> Iterator[Figure]:
    if not comparison.has_accuracy:
        return
    limits = figures.limits(comparison)
    for baseline, *others in figures.together(comparison.variants):
        for point in comparison.points:
            pairs = {
                variant.label: comparison.differences[variant.label][point].metrics["accuracy"]
                for variant in others
                if point in comparison.differences[variant.label]
            }
            if not pairs:
                continue
            lines = [f"{label}: {cells.format_by_seed(pair)}" for label, pair in pairs.items()]
            where = verdicts.heading(comparison, "accuracy", point)
            yield Figure(
                picture=figures.by_seed([*pairs.values()], limits=limits),
                alt=f"Difference of accuracy at {where}, by seed. {'; '.join(lines)}.",
                caption=f"Difference from {baseline.label} at {where}, seed by seed",
                key=[(i, MARKS[i], label) for i, label in enumerate(pairs, start=1)],
            )


def data(runs: Sequence[Run], comparisons: Sequence[Comparison]) -> dict[str, str]:
    """All data of a page, as files: their texts, by a name in `DATA`."""
    trees = [{"variant": run.label, **run.result.to_json()} for run in runs]
    of_runs = {"runs.json": json.dumps(trees)} if runs else {}
    statistics = {"comparison.json": formats.as_json(comparisons)}
    return {**statistics, **of_runs, "figures.csv": formats.as_csv(comparisons)}


def _link(name: str, text: str, beside: str) -> dict[str, str]:
    """A link to a file in the folder `beside`, or a link with its content."""
    kind, about = DATA[name]
    content = text.encode()
    return {
        "name": name,
        "about": about,
        "size": f"{max(len(content) / 1000, 1):,.0f} kB",
        "href": f"{quote(beside)}/{name}"
        if beside
        else f"data:{kind};base64,{base64.b64encode(content).decode()}",
    }


def _split(cell: str) -> tuple[str, str]:
    """Split `84.24 ± 0.08` into the number and the part in smaller type."""
    head, *tail = re.split(r" (?=[±\[(])", cell, maxsplit=1)
    return head, "".join(tail)
