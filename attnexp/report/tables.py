"""Comparisons as tables of text, before any format: `formats.py` prints them."""

from collections.abc import Callable, Sequence

from attnexp.analysis import published
from attnexp.analysis.across import Across
from attnexp.analysis.comparison import Comparison
from attnexp.analysis.results import EPOCH_METRICS
from attnexp.analysis.summary import Variant
from attnexp.base.errors import UserError
from attnexp.report.cells import Table, format_loss, format_mean, format_spread, metric_heading
from attnexp.report.differences import (
    anytime_valid,
    differences,
    interactions,
    minus,
    not_adjusted,
    statistics,
    within,
)
from attnexp.report.verdicts import (
    SPLITS,
    endpoints,
    heading,
    missing_seeds,
    where_measured,
    without_pairs,
)
from attnexp.statistics.verdict import POINTS

SIZE_TOLERANCE = 0.01
"""Relative difference in size above which the summary shows sizes."""


def tables(comparison: Comparison) -> list[Table]:
    """Every table that is printed, in this order; `differences` only by its name."""
    names = [name for name in TABLES if name != "differences"]
    return [table for name in names for table in TABLES[name](comparison)]


def tables_named(name: str, comparisons: Sequence[Comparison]) -> list[Table]:
    """The tables of one name. Raises `UserError` if these results have none."""
    found = {
        each: [table for comparison in comparisons for table in make(comparison)]
        for each, make in TABLES.items()
    }
    if not found.get(name):
        there = ", ".join(each for each, made in found.items() if made)
        raise UserError(f"--table {name}: these runs have no table of this name. Take {there}.")
    return found[name]


def epochs(comparison: Comparison) -> list[Table]:
    """A table of every epoch for each variant that has epochs."""
    return [_epochs(one, comparison) for one in comparison.variants if one.epochs]


def _epochs(variant: Variant, comparison: Comparison) -> Table:
    names = [name for name in EPOCH_METRICS if name in variant.means[1]]
    rows, published_rows = list[list[str]](), list[int]()
    for epoch in variant.epochs:
        means = variant.means[epoch]
        rows.append(
            [str(epoch), *(format_mean(means[name], _epoch_format(name)) for name in names)]
        )
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
        columns=["epoch", *(metric_heading(name) for name in names)],
        rows=rows,
        notes=notes,
        published=published_rows,
    )


def _epoch_format(metric: str) -> Callable[[float], str]:
    return format_loss if metric.endswith("loss") else POINTS.plain


def _published(metric: str, epoch: int, variant: Variant) -> str:
    """K's value, with its distance from our mean if it lies outside the prediction interval."""
    if metric not in variant.published[epoch]:
        return ""
    cell = _epoch_format(metric)(variant.published[epoch][metric])
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
                f"{found.furthest:+.1f} sd, {metric_heading(name)}, epoch {epoch}",
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
    title = "Accuracy" if metric == "accuracy" else metric
    unequal = _unequal_sizes(comparison)
    rows, published_rows = list[list[str]](), list[int]()
    for variant in comparison.variants:
        values = [format_mean(variant.means[point][metric], unit.plain) for point in points]
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
            rows.append([minus(label, comparison), str(pairs[0].difference.n), *cells])
    notes = [*comparison.mixed, *without_pairs(comparison)]
    notes += [*missing_seeds(comparison), *comparison.diverged, *comparison.damaged]
    notes += comparison.bad_seeds
    num_judged = sum(map(bool, comparison.differences.values()))
    added = [
        label
        for label, found in comparison.differences.items()
        if any(difference.sequential for difference in found.values())
    ]
    notes += [not_adjusted(num_judged, added)] if num_judged > 1 else []
    notes += anytime_valid(added)
    if metric == "accuracy":
        notes += [
            f"{heading(comparison, metric, point)}: no variant is above chance level, "
            f"{100 * chance:.1f} % (always guessing the largest class)."
            for point, chance in comparison.at_chance.items()
        ]
    in_units = " in %, differences in points" if unit.scale == 100 else " and differences"
    notes.append(f"{title}{in_units}, mean ± standard deviation over seeds.")
    if comparison.protocol:
        notes += [f"{line}." for line in endpoints(comparison)]
    if metric != "accuracy" or not comparison.protocol:
        notes.append(f"For this metric, {'less' if unit.less_is_better else 'more'} is better.")
    notes += unequal
    if comparison.order_blind_ceiling is not None:
        ceiling = f"{100 * comparison.order_blind_ceiling:.2f}"
        notes.append(
            f"Synthetic reviews: a model blind to word order reaches {ceiling} % at most on the "
            f"whole test set."
        )
    headings = [heading(comparison, metric, point) for point in points]
    columns = ["variant", "n", *headings, *(["parameters", "FLOPs"] if unequal else [])]
    return Table(
        title=f"{title} on {where_measured(comparison)}",
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
        return max((abs(size - base) / base for size in sizes if base), default=0.0)

    parameters, flops = largest("parameters"), largest("flops_per_example")
    if max(parameters, flops) <= SIZE_TOLERANCE:
        return []
    return [
        f"Sizes differ from {baseline.label}'s by up to {100 * parameters:.1f} % of its parameters "
        f"and {100 * flops:.1f} % of its FLOPs a text: a difference may be one of size."
    ]


def other_metrics(comparison: Comparison) -> list[Table]:
    """The metrics of every variant that are not judged: one table, or none."""
    names = {
        name: metric.unit.plain if metric.unit.scale == 100 else format_loss
        for name, metric in comparison.metrics.items()
        if not metric.judged
    }
    if not names:
        return []
    splits = SPLITS.get(comparison.protocol, {}).values()  # too long for a column of six
    rows = [
        [
            variant.label,
            point,
            *(format_mean(means[n], write) if n in means else "–" for n, write in names.items()),
        ]
        for point in comparison.points
        for variant in comparison.variants
        for means in [variant.means[point]]
    ]
    return [
        Table(
            title=f"Probabilities and over-fitting on {where_measured(comparison)}",
            columns=["variant", "at", *(metric_heading(name) for name in names)],
            rows=rows,
            notes=[
                "NLL: negative log-likelihood in nats. Brier: mean squared error of the "
                "probability, of more than two classes their sum.",
                "ECE: expected calibration error, 15 bins, in points. gap: accuracy on train, "
                "measured after the epoch, minus accuracy, in points.",
                *([f"at: {', '.join(splits)}."] if splits else []),
            ],
        )
    ]


def variance(comparison: Comparison) -> list[Table]:
    """Spread of accuracy by each source of chance: one table, or none."""
    names = [heading(comparison, "accuracy", point) for point in comparison.points]
    rows = [
        [
            source.variant,
            f"seeds.{source.name}",
            f"{source.num_points} × {source.num_values}",
            *(
                f"{POINTS.plain(found.sd)} [{POINTS.plain(found.low)}, {POINTS.plain(found.high)}]"
                for found in source.spreads.values()
            ),
        ]
        for source in comparison.sources
    ]
    table = Table(
        title=f"Spread of accuracy by one source of chance on {where_measured(comparison)}",
        columns=["variant", "source", "points × values", *names],
        rows=rows,
        notes=[
            "Standard deviation in points with its 95 % interval, all other sources fixed. points: "
            "what they were fixed at, each crossed with all values of the source.",
        ],
    )
    return [table] if rows else []


def across_table(found: Across) -> Table:
    """Each data set's difference with both intervals, the mean over them, and the next one's."""
    unit, rows = found.unit, []
    for data, difference in found.differences.items():
        pair = difference.metrics[found.metric]
        texts = difference.texts if found.metric == "accuracy" else None
        wide = unit.interval(texts.low, texts.high) if texts else "–"
        seeds = [str(pair.difference.n), unit.signed(pair.difference.mean)]
        own = unit.interval(*difference.interval(found.metric))
        rows.append([data, *seeds, own.strip() or "–", wide.strip()])
    over, column = found.mean, -1 if found.with_texts else -2
    for name, cells, interval in (
        ("mean", [unit.signed(over.mean)], unit.interval(over.low, over.high)),
        ("next data set", [""], unit.interval(over.predicted_low, over.predicted_high) or "–"),
    ):
        row = [name, "", *cells, "", ""]
        row[column] = interval.strip()
        rows.append(row)
    return Table(
        title=f"{found.variant} − {found.baseline}, "
        f"{heading(found, found.metric, found.point)}, over {over.num_data} data sets",
        columns=[
            "data",
            "n",
            unit.name.strip() or "difference",
            "95 %, other seeds",
            "95 %, seeds and texts",
        ],
        rows=rows,
        notes=[
            "mean: of random effects, with the 95 % interval of Hartung, Knapp, Sidik and Jonkman.",
            "next data set: 95 % prediction interval of its true difference.",
            f"I² = {100 * over.share:.0f} % of the spread is between data sets, whose true "
            f"differences have a standard deviation of {unit.plain(over.tau)}{unit.name}.",
        ],
    )


TABLES: dict[str, Callable[[Comparison], list[Table]]] = {
    "epochs": epochs,
    "published": agreement,
    "accuracy": lambda comparison: [summary(comparison, metric) for metric in comparison.judged],
    "probabilities": other_metrics,
    "differences": differences,
    "statistics": statistics,
    "within": within,
    "interactions": interactions,
    "variance": variance,
}
"""Functions that make the tables of each name, in the order in which they are printed."""
