"""A comparison as one HTML page that needs no network and no scripts. It carries its data; those of
large studies lie in a folder beside it.

`page.html` is the template; what it shows is gathered here. Labels and command lines are the
user's, so everything is escaped but the pictures, which `figures.py` makes safe.
"""

import base64
import json
import math
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

from numpy.typing import NDArray

from attnexp.base.files import atomic_write, writing
from attnexp.base.progress import duration
from attnexp.config.options import name_of
from attnexp.config.pieces import foreign_code
from attnexp.report import comparison as comparing
from attnexp.report import figures, formats, insight, tables
from attnexp.report.comparison import Comparison, Variant
from attnexp.runs.identity import default_label, settings
from attnexp.runs.result import Run
from attnexp.statistics.paired import Paired
from attnexp.statistics.verdict import POINTS

CURVES = {
    "val_accuracy": "Validation accuracy, %",
    "val_loss": "Validation loss, nats",
    "train_loss": "Train loss (running mean, dropout on), nats",
}
"""Metrics of an epoch that are drawn."""

MARKS = "●■◆▲▼"
"""What `figures.MARKERS` look like."""

DASHES = ("", "──", "– –", "···", "–·–")
"""Likewise `figures.DASHES`."""

MOST_HEADS = 8
"""Maps of single heads that are drawn."""

MOST_INSIDE = 1_000_000
"""Bytes of data that a page carries: some 200 runs of five epochs."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Figure:
    """A picture with its words; key: (place in `figures.SERIES`, mark, what they stand for)."""

    picture: figures.Picture
    alt: str
    """The picture in words, for who does not see it."""
    caption: str
    key: list[tuple[int, str, str]] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True, slots=True)
class Arena:
    """One comparison, ready for the template."""

    anchor: str
    comparison: Comparison
    forest: Figure | None
    curves: list[Figure]
    by_seed: list[Figure]
    config: str
    """The baseline's, as YAML."""
    differing: list[tuple[str, list[str]]]
    """For every other variant, `key: value` where it is not the baseline's."""
    provenance: list[tuple[str, list[str]]]

    @property
    def protocol(self) -> str:
        """How validation was done."""
        if self.comparison.protocol == "blog":
            return "validated on test: the peak is optimistic"
        return "validated on held-out train data; the test set was touched once"


@dataclass(frozen=True, kw_only=True, slots=True)
class Inside:
    """One run's model, ready for the template."""

    run: Run
    label: str
    """Of its variant."""
    look: insight.Insight
    attention: Figure | None
    heads: list[Figure]
    table: list[Figure]

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to show but what is missing."""
        return self.attention is None and not self.table


@dataclass(frozen=True, kw_only=True, slots=True)
class DataFile:
    """Some of the data that a page was made of."""

    name: str
    kind: str
    """Its media type."""
    text: str
    about: str


def write(
    path: Path,
    runs: Sequence[Run],
    comparisons: Sequence[Comparison],
    *,
    chosen: Sequence[Run] = (),
    sentence: str = insight.SENTENCE,
) -> None:
    """Write the page, whole or not at all. Raises `UserError` where that cannot be done.

    More than `MOST_INSIDE` of data are written beside it: of `blog.html` into `blog_files/`, as
    browsers call what they save with a page.
    """
    files = data(runs, comparisons)
    large = sum(len(file.text) for file in files) > MOST_INSIDE
    folder = path.parent / f"{path.stem}_files"
    text = page(
        runs,
        comparisons,
        chosen=chosen,
        sentence=sentence,
        files=files,
        beside=folder.name if large else "",
    )
    save(path, text, files if large else ())


def save(path: Path, text: str, beside: Sequence[DataFile] = ()) -> None:
    """Write a page, and files that lie beside it. Raises `UserError` where that cannot be done."""
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
    sentence: str = insight.SENTENCE,
    files: Sequence[DataFile] = (),
    beside: str = "",
) -> str:
    """The page as text: the same runs give the same bytes.

    runs: those that `comparisons` was made of. chosen: whose attention to show, side by side;
    `choose(runs)` where empty. sentence: what they read. files: what `data` gave, asked for here
    where empty. beside: the folder that holds them; the page itself does where empty.
    """
    groups = comparing.arenas(runs)
    arenas = [
        _arena(comparison, group, f"arena{i}")
        for i, (comparison, group) in enumerate(zip(comparisons, groups, strict=True), start=1)
    ]
    insides = [
        inside(run, _label(run, groups), insight.look(run, sentence))
        for run in chosen or choose(runs)
    ]
    return render(
        "page.html",
        title=_title(arenas),
        num_runs=len(runs),
        arenas=arenas,
        insides=insides,
        sentence=sentence,
        points=dict.fromkeys(point for arena in arenas for point in arena.comparison.points),
        tables=tables,
        downloads=[link(file, beside) for file in files or data(runs, comparisons)],
        beside=beside,
    )


def render(name: str, *, prefix: str = "", **shown: Any) -> str:
    """A template of this folder as text. All that is `shown` is escaped, but for pictures.

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


def choose(runs: Sequence[Run]) -> list[Run]:
    """Two runs at most whose attention to show: the first of the first variant that has any, and
    that of another, with a table of positions if there is one. Of runs whose model needs nobody
    else's code."""
    firsts = [group[0] for group in comparing.by_variant(runs).values()]
    looking = [
        run for run in firsts
        if insight.has_attention(run) and not foreign_code(run.result.config)
    ]  # fmt: skip
    return [*looking[:1], *sorted(looking[1:], key=insight.has_table, reverse=True)[:1]]


def _label(chosen: Run, groups: Iterable[Sequence[Run]]) -> str:
    """What the tables call the variant of a run."""
    for group in groups:
        for label, runs in comparing.by_variant(group).items():
            if chosen.result.run_id in (run.result.run_id for run in runs):
                return label
    return default_label(chosen.result.config)


def _title(arenas: Sequence[Arena]) -> str:
    num_variants = sum(len(arena.comparison.variants) for arena in arenas)
    where = ", ".join(dict.fromkeys(arena.comparison.title for arena in arenas))
    baseline, *others = (variant.label for variant in arenas[0].comparison.variants)
    if len(arenas) > 1:
        return f"{num_variants} variants on {where}"
    if len(others) > 1:
        return f"{len(others)} variants against {baseline} on {where}"
    return f"{' against '.join([*others, baseline])} on {where}"


def _arena(comparison: Comparison, runs: Sequence[Run], anchor: str) -> Arena:
    configs = {label: group[0].result.config for label, group in comparing.by_variant(runs).items()}
    baseline, *others = configs.values()
    return Arena(
        anchor=anchor,
        comparison=comparison,
        forest=_forest(comparison),
        curves=list(_curves(comparison)),
        by_seed=list(_by_seed(comparison)),
        config=_yaml(baseline),
        differing=[
            (label, _differing(config, baseline))
            for label, config in zip(list(configs)[1:], others, strict=True)
        ],
        provenance=_provenance(runs),
    )


def _forest(comparison: Comparison) -> Figure | None:
    if not any(comparison.differences.values()):
        return None
    lines = [
        f"{label}, {point}: {difference.judgement.line}"
        for label, found in comparison.differences.items()
        for point, difference in found.items()
    ]
    return Figure(
        picture=figures.forest(comparison),
        alt="Forest plot of the differences. " + ". ".join(lines),
        caption=(
            f"Mean difference of accuracy from {comparison.variants[0].label} with its 95 % "
            f"interval. Shaded: ± {POINTS.margin(comparison.margin)} points, declared not to "
            f"matter."
        ),
    )


def _curves(comparison: Comparison) -> Iterator[Figure]:
    for variants in figures.together(comparison.variants):
        for metric, title in CURVES.items():
            yield Figure(
                picture=figures.learning(variants, metric),
                alt=_curve_in_words(variants, metric, title),
                caption=title,
                key=[(i, MARKS[i], variant.label) for i, variant in enumerate(variants)],
            )


def _curve_in_words(variants: Sequence[Variant], metric: str, title: str) -> str:
    said = []
    for variant in variants:
        first, last = (variant.epochs[i].figures[metric].mean for i in (0, -1))
        scale, digits = (100, 2) if metric.endswith("accuracy") else (1, 4)
        said.append(f"{variant.label} from {scale * first:.{digits}f} to {scale * last:.{digits}f}")
    return f"{title}, from the first epoch to the last: {'; '.join(said)}."


def _by_seed(comparison: Comparison) -> Iterator[Figure]:
    limits = figures.limits(comparison)
    for baseline, *others in figures.together(comparison.variants):
        for point in comparison.points:
            found = [
                (variant.label, comparison.differences[variant.label][point.name])
                for variant in others
                if point.name in comparison.differences[variant.label]
            ]
            if not found:
                continue
            pairs = [difference.figures["accuracy"] for _, difference in found]
            said = [
                f"{label}: {_each(pair)}" for (label, _), pair in zip(found, pairs, strict=True)
            ]
            yield Figure(
                picture=figures.by_seed(pairs, limits=limits),
                alt=f"Difference of accuracy at {point.name}, by seed. {'; '.join(said)}.",
                caption=f"Difference from {baseline.label} at {point.name}, seed by seed",
                key=[(i, MARKS[i], label) for i, (label, _) in enumerate(found, start=1)],
            )


def _each(pair: Paired) -> str:
    if len(pair.by_seed) > tables.MOST_EACH:
        return tables.by_seed(pair)
    return ", ".join(f"seed {seed} {100 * value:+.2f}" for seed, value in pair.by_seed.items())


def inside(run: Run, label: str, look: insight.Insight) -> Inside:
    """A run's model with its pictures."""
    reading, heads = look.reading, []
    seen = reading.attention if reading else None
    overall = None
    if reading is not None and seen is not None:
        overall = Figure(
            picture=figures.attention(seen.weights.mean(axis=0), reading.marked),
            alt=f"Attention among the words of the sentence, mean over heads. "
            f"{_strongest(seen.weights.mean(axis=0), reading.marked)}",
            caption=f"Mean over {len(seen.weights)} heads",
        )
        heads = [
            Figure(
                picture=figures.head(weights),
                alt=f"Head {i}. {_strongest(weights, reading.marked)}",
                caption=f"head {i}, to {weights.max():.2f}",
            )
            for i, weights in enumerate(seen.weights[:MOST_HEADS], start=1)
        ]
    return Inside(
        run=run,
        label=label,
        look=look,
        attention=overall,
        heads=heads if len(heads) > 1 else [],
        table=[] if look.table is None else _table(run, look.table),
    )


def _strongest(weights: NDArray[Any], tokens: Sequence[str]) -> str:
    query, key = divmod(int(weights.argmax()), weights.shape[1])
    return f"The largest weight, {weights.max():.2f}, is from {tokens[query]} to {tokens[key]}."


def _table(run: Run, values: NDArray[Any]) -> list[Figure]:
    config = run.result.config["position"]
    name = name_of(config["kind"])
    positions, width = values.shape
    one, other = _frequencies(positions, width // 2)
    if name == "learned":
        columns = (-values.var(axis=0)).argsort()[:4].tolist()
        which = "the four that vary most"
    elif config["layout"] == "split":
        columns = [one, width // 2 + one, other, width // 2 + other]
        which = "cosine and sine of two frequencies"
    else:
        columns = [2 * one, 2 * one + 1, 2 * other, 2 * other + 1]
        which = "sine and cosine of two frequencies"
    columns = list(dict.fromkeys(columns))
    return [
        Figure(
            picture=figures.table(values),
            alt=f"Heat map of the {name} table: {positions} positions, {width} "
            f"columns, values from {values.min():.2f} to {values.max():.2f}.",
            caption=f"The {name} table: {positions} positions × {width} columns",
        ),
        Figure(
            picture=figures.columns(values, columns),
            alt=f"Columns {', '.join(map(str, columns))} of the table over the positions.",
            caption=f"Some of its columns: {which}",
            key=[(i, DASHES[i], f"column {column}") for i, column in enumerate(columns, start=1)],
        ),
    ]


def _frequencies(positions: int, num_pairs: int) -> tuple[int, int]:
    """Two pairs of columns that can be followed by eye: the first turns about three times."""
    turns = math.log(max(positions / (6 * math.pi), 1.0)) / math.log(10_000)
    one = min(round(num_pairs * turns), num_pairs - 1)
    return one, min(one + max(num_pairs // 8, 1), num_pairs - 1)


def _yaml(config: dict[str, Any]) -> str:
    import yaml

    kept = {key: value for key, value in config.items() if key not in ("seed", "seeds", "out")}
    text: str = yaml.safe_dump(kept, sort_keys=False, allow_unicode=True)
    return text


def _differing(config: dict[str, Any], baseline: dict[str, Any]) -> list[str]:
    others = settings(baseline)
    return [
        f"{key}: {json.dumps(value, ensure_ascii=False)}"
        for key, value in settings(config).items()
        if key not in others or value != others[key]
    ]


def _provenance(runs: Sequence[Run]) -> list[tuple[str, list[str]]]:
    """What one must know to believe or repeat the numbers; several runs may give several values."""
    results = [run.result for run in runs]

    def told(key: str) -> list[str]:
        return _distinct(result.provenance.get(key) for result in results)

    data = [result.data for result in results]
    started = sorted(told("started"))
    memory = max(result.peak_rss_bytes for result in results) / 2**20
    sizes = _distinct(
        ", ".join(f"{d[f'n_{split}']:,} {split}" for split in ("train", "val", "test"))
        for d in data
    )
    argv = (result.provenance.get("argv") for result in results)
    commands = (shlex.join([Path(words[0]).name, *words[1:]]) for words in argv if words)
    found = {
        "runs": [str(len(runs))],
        "data": _distinct(d.get("source") for d in data),
        "texts": sizes,
        "fingerprint": _distinct(d["fingerprint"] for d in data),
        "started": [" to ".join(dict.fromkeys([started[0], started[-1]]))] if started else [],
        "training time": [duration(sum(result.wall_seconds for result in results))],
        "peak memory": [f"{memory:,.0f} MiB"],
        "attnexp": told("version"),
        "commit": [_commit(commit) for commit in told("commit")],
        "python": told("python"),
        "torch": told("torch"),
        "platform": told("platform"),
        "device": told("device"),
        "threads": told("threads"),
        "commands": _distinct(commands),
    }
    return [(name, values) for name, values in found.items() if values]


def _distinct(values: Iterable[Any]) -> list[str]:
    return list(dict.fromkeys(str(value) for value in values if value is not None))


def _commit(commit: str) -> str:
    short = commit[:12]
    return f"{short}, with changes" if commit.endswith("+") else short


def data(runs: Sequence[Run], comparisons: Sequence[Comparison]) -> list[DataFile]:
    """All of the data, as files."""
    trees = [{"variant": run.label, **run.result.to_json()} for run in runs]
    found = (
        ("comparison.json", "application/json", formats.as_json(comparisons), "every statistic"),
        ("runs.json", "application/json", json.dumps(trees), "every epoch of every run"),
        ("figures.csv", "text/csv", formats.as_csv(comparisons), "one line a figure, long form"),
    )
    return [DataFile(name=n, kind=kind, text=text, about=about) for n, kind, text, about in found]


def link(file: DataFile, beside: str = "") -> dict[str, str]:
    """A link to a file in the folder `beside`, or one that carries it."""
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
    """`84.24 ± 0.08` as the number and what is written smaller."""
    head, *tail = re.split(r" (?=[±\[(])", cell, maxsplit=1)
    return head, "".join(tail)
