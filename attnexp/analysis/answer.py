"""The answer of a command: everything that is computed of results, once, for whoever shows it."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import pandas as pd

from attnexp.analysis.contrasts import Difference, average_differences, contrasts_with_m, judge_all
from attnexp.analysis.group import Group
from attnexp.analysis.kexue import Agreement, agreements_with_k, k_runs_of
from attnexp.analysis.metrics import ACCURACY, BY_NAME, planned_metric, with_margin
from attnexp.base.errors import UserError, join_names
from attnexp.statistics.verdict import MetricSpec

ENDPOINT_KEYS = ["data", "protocol", "variant", "point", "split", "epoch", "metric"]
ENDPOINT_FIELDS = [*ENDPOINT_KEYS, "n", "mean", "sd"]  # of the JSON document
EPOCH_KEYS = ["data", "protocol", "variant", "epoch", "metric"]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What is computed of a group: one data set and one protocol."""

    group: Group
    at_endpoints: pd.DataFrame  # `ENDPOINT_KEYS`, at, n, mean, sd: over the seeds of each variant
    epochs: pd.DataFrame  # `EPOCH_KEYS`, n, mean, sd
    differences: list[Difference]
    k_runs: dict[str, pd.DataFrame]  # K's run of a variant, a row an epoch, if K ran it
    agreements: list[Agreement]  # with K's runs
    notes: list[str]  # sentences that a reader of the numbers must know

    @property
    def curve(self) -> pd.DataFrame:
        """Mean validation accuracies by epoch, or no rows."""
        return self.epochs[self.epochs["metric"] == "val_accuracy"]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Everything that a command shows of results."""

    comparisons: list[Comparison]
    metric: MetricSpec  # that is judged
    means: list[Difference]  # over data sets

    @property
    def notes(self) -> list[str]:
        """Sentences that a reader of the numbers must know."""
        notes = [note for comparison in self.comparisons for note in comparison.notes]
        averaged = {_subject(row) for row in self.means}
        left_out: defaultdict[str, list[str]] = defaultdict(list)
        for row in self.measured:
            if _subject(row) in averaged and not row.has_verdict:
                left_out[f"{row.data} ({row.words})"].append(row.endpoint.label)
        for name, labels in left_out.items():
            listed = " and ".join(dict.fromkeys(labels))
            notes.append(f"Not in every mean over data sets at {listed}: {name}.")
        return list(dict.fromkeys(notes))

    @property
    def groups(self) -> list[Group]:
        """The groups that are compared."""
        return [comparison.group for comparison in self.comparisons]

    @property
    def differences(self) -> list[Difference]:
        """The differences of all groups, and their means over data sets."""
        return self.measured + self.means

    @property
    def measured(self) -> list[Difference]:
        """The differences of all groups."""
        return [row for comparison in self.comparisons for row in comparison.differences]

    @property
    def at_endpoints(self) -> pd.DataFrame:
        """Means at the endpoints of all groups."""
        frames = [comparison.at_endpoints for comparison in self.comparisons]
        return pd.concat(frames) if frames else pd.DataFrame(columns=[*ENDPOINT_FIELDS, "at"])

    @property
    def undecided(self) -> list[str]:
        """Contrasts not decided (helps, hurts, equivalent) everywhere, as `pe − none`."""
        names = []
        for comparison in self.comparisons:
            for contrast, _ in contrasts_with_m(comparison.group.families):
                rows = [row for row in comparison.differences if row.contrast == contrast]
                if not rows or not all(row.verdict.is_decided for row in rows):
                    names.append(contrast.name)
        return list(dict.fromkeys(names))

    def select_comparisons(self, comparisons: list[Comparison]) -> "Answer":
        """These comparisons, with the means over data sets of their protocols."""
        protocols = {comparison.group.protocol for comparison in comparisons}
        means = [row for row in self.means if row.protocol in protocols]
        return replace(self, comparisons=comparisons, means=means)


def choose_metric(
    name: str | None, margin: float | None, groups: Iterable[Group] = ()
) -> MetricSpec:
    """The metric of this name with a margin in points, or in its own unit as that of loss; what is
    not given is that of the studies, else accuracy and the default margin. Raises `UserError`."""
    studies = chain.from_iterable(group.origin.studies for group in groups)
    plans = list(dict.fromkeys(map(planned_metric, studies))) or [ACCURACY]
    if len(plans) > 1 and None in (name, margin):
        raise UserError(f"These studies judge {join_names(plans)}. Give --metric and --margin.")
    plan = plans[0]
    name = name or plan.name
    if name not in BY_NAME:
        raise UserError(f"Judge by {name}? Give --metric one of {', '.join(BY_NAME)}.")
    metric = BY_NAME[name]
    # A margin in points is one of any share.
    has_margin_of_plan = name == plan.name or (metric.is_share and plan.is_share)
    if margin is None and has_margin_of_plan:
        return replace(metric, margin=plan.margin)
    return with_margin(metric, margin)


def compare(groups: Sequence[Group], metric: MetricSpec) -> Answer:
    """Compare the variants of each group by a metric, and their differences over data sets."""
    comparisons = []
    for group in groups:
        differences = judge_all(group, metric)
        comparison = Comparison(
            group=group,
            at_endpoints=_mean_endpoints(group),
            epochs=mean_over_seeds(group.epochs, EPOCH_KEYS),
            differences=differences,
            k_runs=k_runs_of(group),
            agreements=agreements_with_k(group),
            notes=[*_list_notes(group, differences, metric), *group.notes],
        )
        comparisons.append(comparison)
    return Answer(comparisons=comparisons, metric=metric, means=_average_over_data(comparisons))


def _mean_endpoints(group: Group) -> pd.DataFrame:
    """Means over seeds at the endpoints, labelled in the column at; no epoch where seeds differ."""
    about = [(endpoint.name, endpoint.split, endpoint.label) for endpoint in group.endpoints]
    endpoints = pd.DataFrame(about, columns=["point", "split", "at"])
    rows = group.at_endpoints.merge(endpoints, on="point")
    by_variant = rows.groupby(["variant", "point"])
    num_epochs = by_variant["epoch"].transform("nunique")
    rows["epoch"] = rows["epoch"].where(num_epochs == 1)
    return mean_over_seeds(rows, [*ENDPOINT_KEYS, "at"])


def mean_over_seeds(rows: pd.DataFrame, keys: list[str]) -> pd.DataFrame:
    """n, mean and sd of the column value for each combination of keys."""
    values = rows.groupby(keys, sort=False, dropna=False)["value"]
    return values.agg(n="count", mean="mean", sd="std").reset_index()


def _subject(row: Difference) -> tuple[str, ...]:
    """What the differences of a mean over data sets have in common."""
    return row.protocol, row.endpoint.name, row.contrast.variant, row.contrast.baseline


def _average_over_data(comparisons: Iterable[Comparison]) -> list[Difference]:
    """Means of differences that have a verdict, over data sets, each by its first cut with one."""
    by_contrast: defaultdict[tuple[str, ...], dict[str, Difference]] = defaultdict(dict)
    for comparison in comparisons:
        for row in comparison.differences:
            if row.has_verdict:
                by_contrast[_subject(row)].setdefault(comparison.group.source, row)
    by_data = [list(rows.values()) for rows in by_contrast.values()]
    return [average_differences(rows) for rows in by_data if len(rows) > 1]


def _list_notes(group: Group, rows: Iterable[Difference], metric: MetricSpec) -> Iterator[str]:
    """Notes on what was planned, what is missing, and seeds that are not compared."""
    for study in group.origin.studies:
        planned = planned_metric(study)
        if planned != metric:
            yield f"Planned: {planned}. This judges {metric}."
        if study.added_seeds:
            yield f"Seeds added after a first answer: {', '.join(study.added_seeds)}."
    if metric.name not in set(group.at_endpoints["metric"]):
        yield f"{group.data}: these results hold no {metric.name}."
    num_seeds = group.at_endpoints.groupby("variant")["seed"].nunique()
    few = [row for row in rows if row.interval.n < max(num_seeds[[*row.contrast.weights]])]
    if few:
        listed = "; ".join(dict.fromkeys(f"{row.contrast.name}: {row.interval.n}" for row in few))
        yield f"Differences take shared seeds alone ({listed}); means take all."
    for variant, seeds in group.missing().items():
        number = f"{len(seeds)} of {len(group.origin.planned[variant])} planned"
        yield f"Missing: {variant}, {number} (seed {join_names(seeds)})."
