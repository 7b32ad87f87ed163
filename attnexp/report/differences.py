"""Tables of differences: from the baseline, and differences of differences."""

from typing import Any

from attnexp.analysis.comparison import Comparison
from attnexp.analysis.crossings import Within
from attnexp.analysis.differences import Difference
from attnexp.report.cells import Table, format_by_seed, metric_heading, statistics_rows
from attnexp.report.verdicts import heading, where_measured

COLUMNS = ["n", "endpoint", "difference", "95 % interval", "verdict"]
"""Columns of tables with a difference in each row."""


def differences(comparison: Comparison) -> list[Table]:
    """Every difference from the baseline on one line, with interval and verdict: one table, or
    none."""
    baseline = comparison.variants[0].label
    records = [
        _record(comparison, (label, baseline), metric, point, difference)
        for metric in comparison.judged
        for label, found in comparison.differences.items()
        for point, difference in found.items()
    ]
    num_judged = sum(map(bool, comparison.differences.values()))
    table = Table(
        title=f"Differences from {baseline} on {where_measured(comparison)}",
        columns=["variant", *COLUMNS],
        rows=[[str(record["variant"]), *_cells(record, comparison)] for record in records],
        notes=_notes(num_judged, records, comparison),
        records=records,
    )
    return [table] if records else []


def _cells(record: dict[str, Any], comparison: Comparison) -> list[str]:
    """A record as text, in the columns of `COLUMNS`."""
    unit = comparison.metrics[record["metric"]].unit
    return [
        str(record["n"]),
        heading(comparison, record["metric"], record["endpoint"]),
        unit.signed(record["difference"]),
        unit.interval(record["low"], record["high"]).strip() or "–",
        record["verdict"],
    ]


def _notes(num_judged: int, records: list[dict[str, Any]], comparison: Comparison) -> list[str]:
    """What the columns hold. num_judged: differences that were judged together."""
    units = [
        f"{name} in points" if metric.unit.scale == 100 else name
        for name, metric in comparison.judged.items()
    ]
    notes = [f"Mean difference of {', '.join(units)}, with its interval for other seeds."]
    added = [record["variant"] for record in records if record["sequential"]]
    if num_judged > 1:
        notes.append(not_adjusted(num_judged, added))
    return [*notes, *anytime_valid(list(dict.fromkeys(added)))]


def not_adjusted(num_judged: int, added: list[str]) -> str:
    """What is adjusted for several variants.

    num_judged: variants that were judged together. added: those whose seeds were added because of
    results; their lines name the adjustment.
    """
    how = "" if added else "by maxT "
    return (
        f"95 % intervals are not adjusted for several variants; p-values are, {how}over "
        f"{num_judged}."
    )


def anytime_valid(variants: list[str]) -> list[str]:
    """A line about variants whose seeds were added because of results, if there are any."""
    if not variants:
        return []
    return [
        f"Seeds of {', '.join(variants)} were added because of results, so verdicts, and intervals "
        f"beside them, are anytime-valid."
    ]


def _record(
    comparison: Comparison, labels: tuple[str, str], metric: str, point: str, difference: Difference
) -> dict[str, Any]:
    """A difference between two variants at one endpoint, as plain values."""
    pair, (low, high) = difference.metrics[metric], difference.interval(metric)
    variant, baseline = labels
    return {
        "data": comparison.data,
        "protocol": comparison.protocol,
        "variant": variant,
        "baseline": baseline,
        "n": pair.difference.n,
        "endpoint": point,
        "metric": metric,
        "difference": pair.difference.mean,
        "low": low,
        "high": high,
        "verdict": difference.verdict(metric).verdict or "open",
        "sequential": difference.sequential,
    }


def within(comparison: Comparison) -> list[Table]:
    """One factor's levels against the baseline's at each level of the other: a table for each two
    crossed factors."""
    tables = []
    for metric in comparison.judged:
        for (factor, other), group in by_factors(comparison).items():
            records, rows = list[dict[str, Any]](), list[list[str]]()
            for each in group:
                for point, difference in each.points.items():
                    labels = (each.variant, each.baseline)
                    records.append(_record(comparison, labels, metric, point, difference))
                    rows.append([", ".join(format_levels(each)), *_cells(records[-1], comparison)])
            tables.append(
                Table(
                    title=f"{factor} within each {other} on {where_measured(comparison)}",
                    columns=[f"{factor}, {other}", *COLUMNS],
                    rows=rows,
                    notes=_notes(len(comparison.within), records, comparison),
                    records=records,
                )
            )
    return tables


def by_factors(comparison: Comparison) -> dict[tuple[str, str], list[Within]]:
    """Differences within levels, keyed by the factor that is compared and the other one."""
    found: dict[tuple[str, str], list[Within]] = {}
    for each in comparison.within:
        factor, other = each.levels
        found.setdefault((factor, other), []).append(each)
    return found


def format_levels(each: Within) -> tuple[str, str]:
    """The levels that are compared, and the level of the other factor: `pe − no_pe`, `1000`."""
    (one, other), baselines = each.levels.items(), [*each.baselines.items()]
    variant, baseline, at = (
        level.removeprefix(f"{name}=") for name, level in (one, baselines[0], other)
    )
    return f"{variant} − {baseline}", at


def statistics(comparison: Comparison) -> list[Table]:
    """A table for each judged metric and difference from the baseline."""
    num_judged = sum(map(bool, comparison.differences.values()))
    return [
        _statistics(minus(label, comparison), found, metric, num_judged, comparison)
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
    by_heading = {heading(comparison, metric, point): found[point] for point in found}
    pairs = {name: difference.metrics[metric] for name, difference in by_heading.items()}
    rows = statistics_rows(by_heading, metric, unit, num_judged)
    for other, how in comparison.metrics.items():
        others = [of.metrics[other] for of in found.values() if other in of.metrics]
        if metric == "accuracy" and not how.judged and len(others) == len(found):
            cells = [
                how.unit.signed(pair.difference.mean) + how.unit.interval(pair.low, pair.high)
                for pair in others
            ]
            rows.append([f"Δ {metric_heading(other)}", *cells])
    return Table(
        title=f"{title} on {where_measured(comparison)}",
        columns=[f"n = {next(iter(pairs.values())).difference.n}", *by_heading],
        rows=rows,
        notes=[
            "95 %: confidence interval of the difference, for other seeds on this test set, or for "
            "other seeds and texts.",
            "anytime: valid whenever you look, also where seeds were added because of the results.",
            *(f"{name}, by seed: {format_by_seed(pair, unit)}" for name, pair in pairs.items()),
        ],
    )


def minus(label: str, comparison: Comparison) -> str:
    """`pe − none`: a variant and the baseline."""
    return f"{label} − {comparison.variants[0].label}"
