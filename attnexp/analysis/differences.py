"""Paired differences of metrics between two variants, and the verdicts on them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from attnexp.analysis.metrics import Metric
from attnexp.analysis.results import Results
from attnexp.statistics import anytime
from attnexp.statistics.anytime import Decision
from attnexp.statistics.crossed import Crossed
from attnexp.statistics.paired import McNemar, Paired, paired
from attnexp.statistics.verdict import Judgement, judge

ByMetric = dict[str, dict[str, float]]
"""Values by metric and seed."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Variant minus baseline at one evaluation point."""

    metrics: dict[str, Paired]
    """Paired differences, by metric."""
    judgements: dict[str, Judgement]
    """Verdicts on the metrics that are judged, by step-down maxT over the variants."""
    anytime: dict[str, Decision]
    """Anytime-valid verdicts on the same metrics, with Holm over the variants."""
    mcnemar: dict[str, McNemar] = field(default_factory=dict)
    """McNemar's test of accuracy, by seed, where the answers of both are known."""
    texts: Crossed | None = None
    """Interval of accuracy's difference for other seeds and texts. None unless it is known, for all
    seeds that both share, which texts of one test set each has right."""
    sequential: bool = False
    """Whether seeds were added because of results, so that `anytime` counts, not `judgements`."""

    def verdict(self, metric: str) -> Judgement | Decision:
        """The verdict that counts."""
        return self.anytime[metric] if self.sequential else self.judgements[metric]

    def interval(self, metric: str) -> tuple[float | None, float | None]:
        """The 95 % interval for other seeds that belongs to this verdict."""
        found = self.metrics[metric]
        if self.sequential and metric in self.anytime:
            return self.anytime[metric].low, self.anytime[metric].high
        return found.low, found.high


def judged_differences(
    results: Results,
    metrics: Mapping[str, Metric],
    contrasts: Mapping[str, Sequence[str]],
    sequential: Collection[str],
    at_chance: Mapping[str, float],
) -> dict[str, dict[str, Difference]]:
    """Differences with verdicts, by label and point; those of one point are judged together, each
    metric by itself.

    contrasts: two variants by label, 1 − 2, or four, (1 − 2) − (3 − 4). sequential: labels whose
    seeds were added because of results. at_chance: chance level of accuracy, by the points where no
    variant is above it.
    """
    found: dict[str, dict[str, Difference]] = {label: {} for label in contrasts}
    numbers = {label: results.num_planned(*variants) for label, variants in contrasts.items()}
    planned = {label: number for label, number in numbers.items() if number is not None}
    for point in results.points:
        steps = {name: results.step(name, point) for name in metrics}
        pairs: dict[str, dict[str, Paired]] = {label: {} for label in contrasts}
        for label, variants in contrasts.items():
            one, other = _sides(results, variants, point)
            for name, metric in metrics.items():
                values = one.get(name, {}), other.get(name, {})
                pair = paired(*values, margin=metric.margin, step=steps[name])
                if pair is not None:
                    pairs[label][name] = pair
        judgements: dict[str, dict[str, Judgement]] = {label: {} for label in contrasts}
        decisions: dict[str, dict[str, Decision]] = {label: {} for label in contrasts}
        for name, metric in metrics.items():
            if metric.judged:
                family = {label: of[name] for label, of in pairs.items() if name in of}
                remark = ""
                if point in at_chance and name == "accuracy":
                    remark = f"; no variant is above chance level, {100 * at_chance[point]:.1f} %"
                judged = judge(family, unit=metric.unit, planned=planned, remark=remark)
                decided = anytime.decide(family, unit=metric.unit, planned=planned, remark=remark)
                for label in family:
                    judgements[label][name] = judged[label]
                    decisions[label][name] = decided[label]
        for label, of in pairs.items():
            if of:
                found[label][point] = Difference(
                    metrics=of,
                    judgements=judgements[label],
                    anytime=decisions[label],
                    sequential=label in sequential,
                )
    return found


def _sides(results: Results, variants: Sequence[str], point: str) -> tuple[ByMetric, ByMetric]:
    """Values of the two sides of a contrast, by metric and seed."""
    if len(variants) == 2:
        one, other = variants
        return results.paired_with(other, one, point), results.paired_with(one, other, point)
    of = [results.metrics(variant, point) for variant in variants]
    return _minus(*of[:2]), _minus(*of[2:])


def _minus(variant: ByMetric, other: ByMetric) -> ByMetric:
    return {
        name: {
            seed: value - other[name][seed]
            for seed, value in by_seed.items()
            if seed in other[name]
        }
        for name, by_seed in variant.items()
        if name in other
    }
