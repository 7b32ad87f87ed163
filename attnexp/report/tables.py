"""Comparisons as tables of text, before any format: `formats.py` prints them."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass

from attnexp.analysis import published
from attnexp.analysis.comparison import Comparison, Difference, Interaction
from attnexp.analysis.results import EPOCH_METRICS
from attnexp.analysis.summary import Variant
from attnexp.report.cells import (
    format_by_seed,
    format_epoch_mean,
    format_epoch_value,
    format_mean,
    format_metric,
    format_size,
    format_spread,
    statistics_rows,
)
from attnexp.statistics.verdict import Verdict

HEADINGS = {
    "train_loss": "loss",
    "train_accuracy": "acc",
    "train_accuracy_after": "acc after",
    "val_loss": "val loss",
    "val_accuracy": "val acc",
    "brier": "Brier",
    "ece": "ECE",
}
"""Column headings of metrics that are not called by their name."""

SIZE_TOLERANCE = 0.01
"""Relative difference in size above which the summary shows sizes."""

VERDICT_STYLES = {
    Verdict.helps: "bold green",
    Verdict.hurts: "bold red",
    Verdict.equivalent: "bold cyan",
    Verdict.inconclusive: "bold yellow",
}
"""Styles of verdicts in a terminal."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """A table whose cells are text."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str]
    published: Collection[int] = ()
    """Indices of the rows that hold the published run."""


def tables(comparison: Comparison) -> list[Table]:
    """Every table, in the order in which they are printed."""
    return [
        *epochs(comparison),
        *agreement(comparison),
        *(summary(comparison, metric) for metric in comparison.judged),
        *other_metrics(comparison),
        *statistics(comparison),
        *interactions(comparison),
    ]


def verdicts(comparison: Comparison) -> Iterator[tuple[str, Verdict | None, str]]:
    """What was compared, its verdict, and one line of text, whose grounds follow a colon.

    For every judged metric, variant, interaction and point; then for every study whose seeds are
    added until it is decided, whose verdict is None while it is open.
    """
    baseline = comparison.variants[0].label
    for metric in comparison.judged:
        for label, found in comparison.differences.items():
            for point, difference in found.items():
                where = f"{label} against {baseline}, {heading(comparison, metric, point)}"
                judgement = difference.judgements[metric]
                alone = without_a_pair(comparison, label)
                yield where, judgement.verdict, judgement.line + alone
    for interaction in comparison.interactions:
        for point, difference in interaction.points.items():
            verdict = difference.judgements["accuracy"].verdict
            yield f"interaction, {point}", verdict, format_interaction(interaction, difference)
    for study in comparison.declared:
        for label, decision in study.decisions.items():
            where = f"{label} against {study.baseline}, {study.declaration.metric}, declared"
            yield where, decision.verdict, decision.line


def without_a_pair(comparison: Comparison, label: str) -> str:
    """What a verdict leaves out, such as "; without a pair: seed 3 of pe, seed 4 of none"."""
    seeds = {variant.label: variant.seeds for variant in comparison.variants}
    both = (label, comparison.variants[0].label)
    alone = [
        f"seed {seed} of {one}"
        for one, other in (both, both[::-1])
        for seed in seeds[one]
        if seed not in seeds[other]
    ]
    shown = [*alone[:5], *([f"{len(alone) - 5:,} more"] if alone[5:] else [])]
    return f"; without a pair: {', '.join(shown)}" if alone else ""


def heading(comparison: Comparison, metric: str, point: str) -> str:
    """Name of a metric at a point: our points are named, other trainers' results are not."""
    if not comparison.protocol:
        return metric
    return point if metric == "accuracy" else f"{point} {metric}"


def endpoints(comparison: Comparison) -> list[str]:
    """A line for each endpoint that says what it is, and which epoch `best` is of each variant."""
    best = [f"{variant.label} {variant.best_epoch}" for variant in comparison.variants]
    epochs = {"best": f": {', '.join(best)}"}
    return [f"{name}: {about}{epochs.get(name, '')}" for name, about in comparison.points.items()]


def format_interaction(interaction: Interaction, difference: Difference) -> str:
    """One sentence, such as "pe gives more with unscaled than with scaled: +1.40 points ..."."""
    (level, under), (_, baseline) = interaction.levels.values(), interaction.baselines.values()
    judgement = difference.judgements["accuracy"]
    _, _, grounds = judgement.line.partition(":")
    sentence = {
        Verdict.helps: f"{level} gives more with {under} than with {baseline}",
        Verdict.hurts: f"{level} gives less with {under} than with {baseline}",
        Verdict.equivalent: f"{level} gives as much with {under} as with {baseline}",
        Verdict.inconclusive: f"{level} may give more or less with {under} than with {baseline}",
    }
    return f"{sentence[judgement.verdict]}:{grounds}"


def without_pairs(comparison: Comparison) -> list[str]:
    """A line for every variant that cannot be compared with the baseline."""
    base = comparison.variants[0].label
    return [
        f"{label} and {base} share no seed, so they are not compared."
        for label, found in comparison.differences.items()
        if not found
    ]


def missing_seeds(comparison: Comparison) -> list[str]:
    """A line for every variant of which not all planned seeds have finished."""
    num_finished = {variant.label: len(variant.seeds) for variant in comparison.variants}
    return [
        f"{label}: {finished} of {finished + len(seeds)} planned seeds finished; missing: "
        f"{', '.join(seeds)}."
        for label, seeds in comparison.missing.items()
        for finished in [num_finished.get(label, 0)]
    ]


def where_measured(comparison: Comparison) -> str:
    """The data set, and what validation was done on."""
    validated = {"blog": ", validated on test", "": ""}
    return comparison.title + validated.get(comparison.protocol, ", validated on held-out")


def epochs(comparison: Comparison) -> list[Table]:
    """A table of every epoch for each variant that has epochs."""
    return [_epochs(one, comparison) for one in comparison.variants if one.epochs]


def _epochs(variant: Variant, comparison: Comparison) -> Table:
    names = [name for name in EPOCH_METRICS if name in variant.means[1]]
    rows, published_rows = list[list[str]](), list[int]()
    for epoch in variant.epochs:
        means = variant.means[epoch]
        rows.append([str(epoch), *(format_epoch_mean(name, means[name]) for name in names)])
        if epoch in variant.published:
            published_rows.append(len(rows))
            rows.append(["K", *(_published(name, epoch, variant) for name in names)])
    notes = []
    if "train_accuracy_after" in names:
        notes.append("acc: running mean over the epoch; acc after: measured on train when it ends")
    if published_rows:
        notes.append(_published_note(variant))
    num_runs = "1 run" if len(variant.seeds) == 1 else f"{len(variant.seeds)} runs"
    return Table(
        title=f"{variant.label}: {num_runs} on {where_measured(comparison)}",
        columns=["epoch", *(HEADINGS[name] for name in names)],
        rows=rows,
        notes=notes,
        published=published_rows,
    )


def _published(metric: str, epoch: int, variant: Variant) -> str:
    """K's value, with its distance from our mean if it lies outside the prediction interval."""
    if metric not in variant.published[epoch]:
        return ""
    cell = format_epoch_value(metric, variant.published[epoch][metric])
    found = variant.agreement.get(epoch, {}).get(metric)
    if found is None or found.inside:
        return cell
    digits = "+.1f" if abs(found.distance) < 100 else "+.0f"  # a column is 13 wide
    return f"{cell} ({found.distance:{digits}})"


def _published_note(variant: Variant) -> str:
    note = "K: the published run, one seed"
    if variant.unlike_published:
        note += f" with {' '.join(published.format_settings(published.SETTINGS))}"
    inside = [found.inside for row in variant.agreement.values() for found in row.values()]
    if inside:
        note += (
            f"; {sum(inside)} of {len(inside)} figures inside the 95 % prediction interval of one "
            f"more seed"
        )
    if not all(inside):
        note += ", the others with their distance from our mean in sd"
    return note


def agreement(comparison: Comparison) -> list[Table]:
    """How much of K's published run could be one more of our seeds: one table, or none."""
    if not comparison.agreement:
        return []
    rows = []
    for found in comparison.agreement:
        _, epoch, name = found.furthest_value
        rows.append(
            [
                found.variants[0] if len(found.variants) == 1 else "both",
                str(found.n),
                f"{found.inside} of {found.num_values}",
                f"{min(found.own.values())} to {max(found.own.values())}" if found.own else "–",
                f"{found.furthest:+.1f} sd, {HEADINGS[name]}, epoch {epoch}",
            ]
        )
    notes = [
        "inside: K's figures within the 95 % prediction interval of one more seed, mean ± "
        "t sd sqrt(1 + 1/n).",
        "our seeds: the same count for each of our own runs, compared with the others; minimum to "
        "maximum.",
    ]
    unlike = [variant.label for variant in comparison.variants if variant.unlike_published]
    if unlike:
        settings = " ".join(published.format_settings(published.SETTINGS))
        notes.append(f"K's run had {settings}; others here: {', '.join(unlike)}.")
    return [
        Table(
            title=f"K's published run as one more seed, {where_measured(comparison)}",
            columns=["variant", "n", "inside", "our seeds", "furthest from our mean"],
            rows=rows,
            notes=notes,
        )
    ]


def summary(comparison: Comparison, metric: str = "accuracy") -> Table:
    """A judged metric of every variant, and its difference from the baseline's."""
    unit, points = comparison.metrics[metric].unit, list(comparison.points)
    unequal = _unequal_sizes(comparison)
    rows, published_rows = list[list[str]](), list[int]()
    for variant in comparison.variants:
        values = [format_mean(variant.means[point][metric], unit) for point in points]
        lacking = len(comparison.missing.get(variant.label, ()))
        n = str(len(variant.seeds))
        n += f" of {len(variant.seeds) + lacking}" if lacking else ""
        rows.append([variant.label, n, *values])
        if unequal:
            assert variant.parameters is not None
            assert variant.flops_per_example is not None
            rows[-1] += [f"{variant.parameters:,}", f"{variant.flops_per_example / 1e6:.1f} M"]
        if all(metric in variant.published.get(point, {}) for point in points):
            published_rows.append(len(rows))
            values = [unit.plain(variant.published[point][metric]) for point in points]
            rows.append(["K", "1", *values])
    for label, found in comparison.differences.items():
        if found:
            pairs = [found[point].metrics[metric] for point in points]
            cells = [format_spread(pair, unit) for pair in pairs]
            rows.append([_minus(label, comparison), str(pairs[0].difference.n), *cells])
    notes = [*comparison.mixed, *without_pairs(comparison)]
    notes += [*missing_seeds(comparison), *comparison.diverged, *comparison.damaged]
    if metric == "accuracy":
        notes += [
            f"{point}: no variant is above chance level, {100 * chance:.1f} % (always guessing the "
            f"largest class)."
            for point, chance in comparison.at_chance.items()
        ]
    in_units = " in %, differences in points" if unit.scale == 100 else " and differences"
    notes.append(f"{_title(metric)}{in_units}, mean ± standard deviation over seeds.")
    if comparison.protocol:
        notes += [f"{line}." for line in endpoints(comparison)]
    else:
        notes.append(f"For this metric, {'less' if unit.less_is_better else 'more'} is better.")
    notes += unequal
    if comparison.order_blind_ceiling is not None:
        ceiling = f"{100 * comparison.order_blind_ceiling:.2f}"
        notes.append(
            f"Synthetic reviews: a model blind to word order reaches {ceiling} at most on the "
            f"whole test set."
        )
    headings = [heading(comparison, metric, point) for point in points]
    columns = ["variant", "n", *headings, *(["parameters", "FLOPs"] if unequal else [])]
    return Table(
        title=f"{_title(metric)} on {where_measured(comparison)}",
        columns=columns,
        rows=[row + [""] * (len(columns) - len(row)) for row in rows],
        notes=notes,
        published=published_rows,
    )


def _unequal_sizes(comparison: Comparison) -> list[str]:
    """A line if variants differ from the baseline in size, which may be what is measured."""
    baseline, *others = comparison.variants

    def largest(name: str) -> float:
        base = getattr(baseline, name)
        sizes = [getattr(variant, name) for variant in others]
        return max((abs(size - base) / max(base, 1) for size in sizes if base), default=0.0)

    parameters, flops = largest("parameters"), largest("flops_per_example")
    if max(parameters, flops) <= SIZE_TOLERANCE:
        return []
    return [
        f"Sizes differ from {baseline.label}'s by up to {100 * parameters:.1f} % of its parameters "
        f"and {100 * flops:.1f} % of its FLOPs a text: a difference may be one of size."
    ]


def other_metrics(comparison: Comparison) -> list[Table]:
    """The metrics of every variant that are not judged: one table, or none."""
    names = {name: m.unit for name, m in comparison.metrics.items() if not m.judged}
    if not names:
        return []
    rows = [
        [variant.label, point, *(format_metric(means.get(n), unit) for n, unit in names.items())]
        for point in comparison.points
        for variant in comparison.variants
        for means in [variant.means[point]]
    ]
    return [
        Table(
            title=f"Probabilities and over-fitting on {where_measured(comparison)}",
            columns=["variant", "at", *(_heading(name) for name in names)],
            rows=rows,
            notes=[
                "NLL: negative log-likelihood in nats. Brier: mean squared error of the "
                "probability, of more than two classes their sum.",
                "ECE: expected calibration error, 15 bins, in points. gap: accuracy on train, "
                "measured after the epoch, minus accuracy, in points.",
            ],
        )
    ]


def _title(metric: str) -> str:
    return "Accuracy" if metric == "accuracy" else metric


def _heading(metric: str) -> str:
    return "NLL" if metric == "loss" else HEADINGS.get(metric, metric)


def statistics(comparison: Comparison) -> list[Table]:
    """A table for each judged metric and difference from the baseline."""
    num_judged = sum(map(bool, comparison.differences.values()))
    return [
        _statistics(_minus(label, comparison), found, metric, num_judged, comparison)
        for metric in comparison.judged
        for label, found in comparison.differences.items()
        if found
    ]


def interactions(comparison: Comparison) -> list[Table]:
    """A table for each difference of differences."""
    found = comparison.interactions
    titles = ["({} − {}) − ({} − {})".format(*interaction.variants) for interaction in found]
    return [
        _statistics(title, interaction.points, "accuracy", len(found), comparison)
        for title, interaction in zip(titles, found, strict=True)
    ]


def _statistics(
    title: str, found: dict[str, Difference], metric: str, num_judged: int, comparison: Comparison
) -> Table:
    unit = comparison.metrics[metric].unit
    names = {point: heading(comparison, metric, point) for point in found}
    pairs = {name: found[point].metrics[metric] for point, name in names.items()}
    is_accuracy = metric == "accuracy"
    rows = statistics_rows(
        pairs,
        {name: found[point].judgements[metric] for point, name in names.items()},
        {name: found[point].anytime[metric] for point, name in names.items()},
        {name: found[point].mcnemar if is_accuracy else {} for point, name in names.items()},
        num_judged=num_judged,
        unit=unit,
    )
    for other, how in comparison.metrics.items():
        others = [difference.metrics.get(other) for difference in found.values()]
        if is_accuracy and not how.judged and None not in others:
            cells = [format_size(pair, how.unit) for pair in others if pair]
            rows.append([f"Δ {_heading(other)}", *cells])
    return Table(
        title=f"{title} on {where_measured(comparison)}",
        columns=[f"n = {next(iter(pairs.values())).difference.n}", *names.values()],
        rows=rows,
        notes=[
            "anytime: valid whenever you look, also where seeds were added because of the results.",
            *(f"{name}, by seed: {format_by_seed(pair, unit)}" for name, pair in pairs.items()),
        ],
    )


def _minus(label: str, comparison: Comparison) -> str:
    return f"{label} − {comparison.variants[0].label}"
