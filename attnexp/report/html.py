"""Comparisons as one HTML page that needs no network and no scripts.

It carries its data; those of large studies lie in a folder beside it. `page.html` is the template
of `attnexp report` and `attnexp judge`; its contents are gathered here. Labels and command lines
are the user's, so everything is escaped but the plots, which `canvas.py` makes safe.
"""

import base64
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from attnexp.analysis.comparison import Comparison
from attnexp.analysis.probed import summarise
from attnexp.analysis.summary import Variant
from attnexp.analysis.variants import by_variant, comparison_groups, label_of
from attnexp.base.files import atomic_write, writing
from attnexp.inspect import insight
from attnexp.report import cells, differences, figures, formats, probed, tables, verdicts
from attnexp.report.canvas import Figure
from attnexp.report.cells import Table
from attnexp.report.inside import WHY, choose, show_inside
from attnexp.report.provenance import as_yaml, differing, provenance
from attnexp.runs.result import Run
from attnexp.statistics.paired import Paired

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Group:
    """A comparison with its plots and, for our own runs, their configuration."""

    anchor: str
    comparison: Comparison
    forests: dict[str, Figure]
    """Forest plots by metric; empty if nothing is compared."""
    within: list[tuple[Table, Figure]]
    """Differences within the levels of another factor: table and forest plot."""
    curves: list[Figure]
    by_seed: list[Figure]
    config: str
    """Configuration of the baseline as YAML; empty for other trainers' results."""
    differing: list[tuple[str, list[str]]]
    """For every other variant, the settings that differ from the baseline's."""
    provenance: list[tuple[str, list[str]]]

    @property
    def protocol(self) -> str:
        """How validation was done."""
        return {
            "blog": "validated on the test set, so best is optimistic",
            "holdout": "validated on held-out train data; the test set was touched once",
        }.get(self.comparison.protocol, "results measured by others")

    @property
    def margins(self) -> str:
        """Margins of the judged metrics: `0.25 points`."""
        judged = self.comparison.judged
        names = [f" for {name}" if len(judged) > 1 else "" for name in judged]
        return ", ".join(
            f"{metric.unit.margin(metric.margin)}{metric.unit.name}{name}"
            for name, metric in zip(names, judged.values(), strict=True)
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class DataFile:
    """A file with data that a page was made of."""

    name: str
    kind: str
    """Media type."""
    text: str
    about: str


def write(
    path: Path,
    runs: Sequence[Run],
    comparisons: Sequence[Comparison],
    *,
    chosen: Sequence[Run] = (),
    trust_code: bool = False,
    sentence: str = insight.SENTENCE,
) -> None:
    """Write the page atomically. Raises `UserError` if it cannot be written.

    More data than `MAX_BYTES_INSIDE` are written beside it: for `blog.html` into `blog_files/`, as
    browsers call what they save with a page.
    """
    files = data(runs, comparisons)
    large = sum(len(file.text) for file in files) > MAX_BYTES_INSIDE
    folder = path.parent / f"{path.stem}_files"
    text = page(
        runs,
        comparisons,
        chosen=chosen,
        trust_code=trust_code,
        sentence=sentence,
        files=files,
        beside=folder.name if large else "",
    )
    save(path, text, files if large else ())


def save(path: Path, text: str, beside: Sequence[DataFile] = ()) -> None:
    """Write a page and the files beside it. Raises `UserError` if they cannot be written."""
    folder = path.parent / f"{path.stem}_files"
    with writing(path, "--html FILE"):
        if beside:
            folder.mkdir(exist_ok=True)
        for each in beside:
            with atomic_write(folder / each.name) as file:
                file.write(each.text.encode())
        with atomic_write(path) as file:
            file.write(text.encode())


def page(
    runs: Sequence[Run],
    comparisons: Sequence[Comparison],
    *,
    chosen: Sequence[Run] = (),
    trust_code: bool = False,
    sentence: str = insight.SENTENCE,
    files: Sequence[DataFile] = (),
    beside: str = "",
) -> str:
    """The page as text: the same runs give the same bytes.

    runs: those that `comparisons` was made of; empty for other trainers' results. chosen: runs
    whose attention is shown, side by side; `choose(runs)` if empty. sentence: the text that they
    read. files: the result of `data`, computed if empty. beside: folder of these files; empty if
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
        title=_title(groups),
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
        downloads=[link(file, beside) for file in files or data(runs, comparisons)],
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


def _title(groups: Sequence[Group]) -> str:
    num_variants = sum(len(group.comparison.variants) for group in groups)
    where = ", ".join(dict.fromkeys(group.comparison.title for group in groups))
    baseline, *others = (variant.label for variant in groups[0].comparison.variants)
    if len(groups) > 1:
        return f"{num_variants} variants on {where}"
    if len(others) > 1:
        return f"{len(others)} variants against {baseline} on {where}"
    return f"{' against '.join([*others, baseline])} on {where}"


def _group(comparison: Comparison, runs: Sequence[Run], anchor: str) -> Group:
    variants = by_variant(runs)
    configs = {label: group[0].result.config for label, group in variants.items()}
    baseline = next(iter(configs.values()), {})
    return Group(
        anchor=anchor,
        comparison=comparison,
        forests={metric: _forest(comparison, metric) for metric in comparison.judged}
        if any(comparison.differences.values())
        else {},
        within=list(_within(comparison)),
        curves=list(_curves(comparison)),
        by_seed=list(_by_seed(comparison)),
        config=as_yaml(baseline) if baseline else "",
        differing=[
            (label, differing(config, baseline)) for label, config in list(configs.items())[1:]
        ],
        provenance=provenance(runs) if runs else [],
    )


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
            yield Figure(
                picture=figures.learning(variants, metric),
                alt=_describe_curve(variants, metric, title),
                caption=title,
                key=[(i, MARKS[i], variant.label) for i, variant in enumerate(variants)],
            )


def _describe_curve(variants: Sequence[Variant], metric: str, title: str) -> str:
    lines = []
    for variant in variants:
        first, last = (variant.means[variant.epochs[i]][metric].mean for i in (0, -1))
        scale, digits = (100, 2) if metric.endswith("accuracy") else (1, 4)
        lines.append(
            f"{variant.label} from {scale * first:.{digits}f} to {scale * last:.{digits}f}"
        )
    return f"{title}, from the first epoch to the last: {'; '.join(lines)}."


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
            lines = [f"{label}: {_each(pair)}" for label, pair in pairs.items()]
            where = verdicts.heading(comparison, "accuracy", point)
            yield Figure(
                picture=figures.by_seed([*pairs.values()], limits=limits),
                alt=f"Difference of accuracy at {where}, by seed. {'; '.join(lines)}.",
                caption=f"Difference from {baseline.label} at {where}, seed by seed",
                key=[(i, MARKS[i], label) for i, label in enumerate(pairs, start=1)],
            )


def _each(pair: Paired) -> str:
    if len(pair.by_seed) > cells.MAX_SEEDS_SHOWN:
        return cells.format_by_seed(pair)
    return ", ".join(f"seed {seed} {100 * value:+.2f}" for seed, value in pair.by_seed.items())


def data(runs: Sequence[Run], comparisons: Sequence[Comparison]) -> list[DataFile]:
    """All data of a page, as files."""
    trees = [{"variant": run.label, **run.result.to_json()} for run in runs]
    json_type = "application/json"
    found = [
        ("comparison.json", json_type, formats.as_json(comparisons), "every statistic"),
        ("runs.json", json_type, json.dumps(trees), "every epoch of every run"),
        ("figures.csv", "text/csv", formats.as_csv(comparisons), "one value a line, long form"),
    ]
    return [
        DataFile(name=name, kind=kind, text=text, about=about)
        for name, kind, text, about in found
        if runs or name != "runs.json"
    ]


def link(file: DataFile, beside: str = "") -> dict[str, str]:
    """A link to a file in the folder `beside`, or a link with its content."""
    text = file.text.encode()
    return {
        "name": file.name,
        "about": file.about,
        "size": f"{max(len(text) / 1000, 1):,.0f} kB",
        "href": f"{quote(beside)}/{file.name}"
        if beside
        else f"data:{file.kind};base64,{base64.b64encode(text).decode()}",
    }


def _split(cell: str) -> tuple[str, str]:
    """Split `84.24 ± 0.08` into the number and the part in smaller type."""
    head, *tail = re.split(r" (?=[±\[(])", cell, maxsplit=1)
    return head, "".join(tail)
