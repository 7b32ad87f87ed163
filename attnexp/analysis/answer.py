"""The answer of a command: everything that is computed of results, once, for whoever shows it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pandas as pd

from attnexp.analysis.contrasts import Difference, judge_contrast, list_comparisons
from attnexp.analysis.endpoints import RESULT, Endpoint
from attnexp.analysis.families import Contrast
from attnexp.analysis.group import Group
from attnexp.analysis.kexue import Agreement, agreements_with_k
from attnexp.analysis.metrics import ACCURACY
from attnexp.statistics.meta import Meta, random_effects
from attnexp.statistics.verdict import TOO_FEW, MetricSpec, is_decided

ENDPOINT_KEYS = ["data", "protocol", "variant", "point", "split", "epoch", "metric"]
EPOCH_KEYS = ["data", "protocol", "variant", "epoch", "metric"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What is computed of a group: one data set and one protocol."""

    group: Group
    endpoints: pd.DataFrame  # `ENDPOINT_KEYS`, n, mean, sd: over the seeds of each variant
    epochs: pd.DataFrame  # `EPOCH_KEYS`, n, mean, sd
    differences: list[Difference]
    agreements: list[Agreement]  # with K's run
    notes: list[str]  # sentences that a reader of the numbers must know


@dataclass(frozen=True, kw_only=True)
class MeanDifference:
    """A difference over several data sets, and what the next data set's would be."""

    protocol: str
    contrast: Contrast
    endpoint: Endpoint
    metric: MetricSpec
    n: int  # data sets
    mean: Meta


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Everything that a command shows of results."""

    comparisons: list[Comparison]
    metrics: list[MetricSpec]  # those that are judged
    means: list[MeanDifference]
    notes_on_means: list[str]  # data sets that take no part in them

    @property
    def notes(self) -> list[str]:
        """Sentences that a reader of the numbers must know."""
        notes = [note for comparison in self.comparisons for note in comparison.notes]
        notes += [*_notes_on_skew(self.differences), *self.notes_on_means]
        return list(dict.fromkeys(notes))

    @property
    def groups(self) -> list[Group]:
        """The groups that are compared."""
        return [comparison.group for comparison in self.comparisons]

    @property
    def differences(self) -> list[Difference]:
        """The differences of all groups."""
        return [row for comparison in self.comparisons for row in comparison.differences]

    @property
    def endpoints(self) -> pd.DataFrame:
        """Means at the endpoints of all groups."""
        return pd.concat([comparison.endpoints for comparison in self.comparisons])

    @property
    def epochs(self) -> pd.DataFrame:
        """Means by epoch of all groups."""
        return pd.concat([comparison.epochs for comparison in self.comparisons])

    def select(self, comparisons: list[Comparison]) -> "Answer":
        """The answer of some of the comparisons alone."""
        protocols = {comparison.group.protocol for comparison in comparisons}
        means = [row for row in self.means if row.protocol in protocols]
        return _join(comparisons, self.metrics, means)

    @property
    def undecided(self) -> list[str]:
        """Contrasts without a verdict yet, as `pe − none`."""
        names = []
        for comparison in self.comparisons:
            rows = comparison.differences
            with_seeds = {row.contrast.name for row in rows}
            planned = [row.name for row, _ in list_comparisons(comparison.group.families)]
            names += [name for name in planned if name not in with_seeds]  # no seed in common
            names += [row.contrast.name for row in rows if not is_decided(row.verdict)]
        return list(dict.fromkeys(names))


def compare(groups: Sequence[Group], metrics: Sequence[MetricSpec]) -> Answer:
    """Compare the variants of each group by these metrics, and their differences over data sets."""
    comparisons = [_compare_group(group, metrics) for group in groups]
    differences = [row for comparison in comparisons for row in comparison.differences]
    return _join(comparisons, list(metrics), list(_average_over_data(differences)))


def _join(
    comparisons: list[Comparison], metrics: list[MetricSpec], means: list[MeanDifference]
) -> Answer:
    return Answer(
        comparisons=comparisons,
        metrics=metrics,
        means=means,
        notes_on_means=list(_notes_on_left_out(comparisons)) if means else [],
    )


def _compare_group(group: Group, metrics: Sequence[MetricSpec]) -> Comparison:
    differences = []
    for endpoint in group.points:
        for metric in metrics:
            for contrast, m in list_comparisons(group.families):
                row = judge_contrast(group, contrast, endpoint, metric, m)
                if row is not None:
                    differences.append(row)
    return Comparison(
        group=group,
        endpoints=_mean_endpoints(group),
        epochs=_mean_over_seeds(group.epochs, EPOCH_KEYS),
        differences=differences,
        agreements=agreements_with_k(group),
        notes=[*_notes_on_seeds(group), *group.notes],
    )


def _mean_endpoints(group: Group) -> pd.DataFrame:
    """Means over seeds at the endpoints; no epoch where each seed has chosen its own."""
    rows = group.endpoints
    num_epochs = rows.groupby(["variant", "point"])["epoch"].transform("nunique")
    splits = {point.name: point.split for point in group.points}
    rows = rows.assign(epoch=rows["epoch"].where(num_epochs == 1), split=rows["point"].map(splits))
    return _mean_over_seeds(rows, ENDPOINT_KEYS)


def _mean_over_seeds(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    values = rows.groupby(keys, sort=False, dropna=False)["value"]
    return values.agg(n="count", mean="mean", sd="std").reset_index()


def _average_over_data(differences: Iterable[Difference]) -> Iterator[MeanDifference]:
    """Means of the differences that several data sets have, of cuts of one its first; those without
    a verdict take no part."""
    by_contrast: dict[tuple[str, ...], dict[str, Difference]] = {}
    for row in differences:
        if has_verdict(row):
            key = (
                row.protocol,
                row.contrast.variant,
                row.contrast.baseline,
                row.endpoint.name,
                row.metric.name,
            )
            by_contrast.setdefault(key, {}).setdefault(row.source, row)
    for by_source in by_contrast.values():
        rows = list(by_source.values())
        if len(rows) > 1:
            yield MeanDifference(
                protocol=rows[0].protocol,
                contrast=rows[0].contrast,
                endpoint=rows[0].endpoint,
                metric=rows[0].metric,
                n=len(rows),
                mean=random_effects(
                    [row.interval.mean for row in rows], [row.error for row in rows]
                ),
            )


def has_verdict(row: Difference) -> bool:
    """Whether the seeds and the accuracies allow for a verdict, be it undecided."""
    return row.verdict not in ("", TOO_FEW)


def _notes_on_seeds(group: Group) -> Iterator[str]:
    seeds = group.endpoints.groupby("variant")["seed"].agg(frozenset)
    if seeds.nunique() > 1:
        yield "A difference leaves out seeds that one of its variants lacks; means do not."
    for variant, missing in group.missing().items():
        num_planned = len(group.planned[variant])
        yield f"Missing: {variant}, {len(missing)} of {num_planned} planned seeds."


def _notes_on_skew(differences: Sequence[Difference]) -> Iterator[str]:
    """A line that names skewed differences, or of several data sets these."""
    skewed = [row for row in differences if row.is_skewed and has_verdict(row)]
    if len({row.data for row in differences}) > 1:
        places = list(dict.fromkeys(row.data for row in skewed))
    else:
        places = _list_by_endpoint(skewed)
    if places:
        yield (
            f"Skewed: {', '.join(places)}. Such intervals miss the true difference more often than "
            "5 % (docs/statistics.md)."
        )


def _list_by_endpoint(rows: Sequence[Difference]) -> list[str]:
    """`pe − none (final)`, or `5 differences (final)` where they are many."""
    names: dict[str, list[str]] = {}
    for row in rows:
        words = [row.endpoint.name, row.metric.name]
        place = ", ".join(word for word in words if word not in (RESULT.name, ACCURACY.name))
        names.setdefault(f" ({place})" if place else "", []).append(row.contrast.name)
    return [
        (", ".join(contrasts) if len(contrasts) < 3 else f"{len(contrasts)} differences") + place
        for place, contrasts in names.items()
    ]


def _notes_on_left_out(comparisons: Sequence[Comparison]) -> Iterator[str]:
    """A line for each data set that takes no part in the means over data sets."""
    for comparison in comparisons:
        rows = [row for row in comparison.differences if not has_verdict(row)]
        reasons = [row.reason or row.verdict for row in rows]
        for reason in dict.fromkeys(reasons):
            yield f"Not in the mean over data sets: {comparison.group.data} ({reason})."
