"""Paired differences of metrics between two variants, and the verdicts on them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from attnexp.analysis.metrics import Metric
from attnexp.statistics import anytime
from attnexp.statistics.anytime import Decision
from attnexp.statistics.crossed import Crossed
from attnexp.statistics.paired import McNemar, Paired, paired
from attnexp.statistics.verdict import Judgement, judge

BySeed = Mapping[str, float]


@dataclass(frozen=True, kw_only=True, slots=True)
class Difference:
    """Variant minus baseline at one evaluation point."""

    metrics: dict[str, Paired]
    """Paired differences, by metric."""
    judgements: dict[str, Judgement]
    """Verdicts on the metrics that are judged, by step-down maxT over the variants."""
    anytime: dict[str, Decision]
    """Anytime-valid verdicts on the same metrics, with Holm over the variants."""
    mcnemar: dict[str, McNemar]
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


def paired_differences(
    variant: Mapping[str, BySeed],
    baseline: Mapping[str, BySeed],
    metrics: Mapping[str, Metric],
    steps: Mapping[str, float],
) -> dict[str, Paired]:
    """Paired differences with their intervals, by metric: the only place where they are made."""
    pairs = {
        name: paired(
            variant.get(name, {}),
            baseline.get(name, {}),
            margin=metric.margin,
            step=steps[name],
        )
        for name, metric in metrics.items()
    }
    return {name: pair for name, pair in pairs.items() if pair is not None}


def judged_differences(
    pairs: Mapping[str, dict[str, Paired]],
    metrics: Mapping[str, Metric],
    tests: Mapping[str, dict[str, McNemar]],
    planned: Mapping[str, int | None],
    chance: float | None = None,
    sequential: Collection[str] = (),
) -> dict[str, Difference]:
    """Differences with verdicts; variants are judged together, each metric by itself.

    chance: chance level of accuracy, where no variant is above it. sequential: labels of pairs
    whose seeds were added because of results.
    """
    known = {label: number for label, number in planned.items() if number is not None}
    shared = {label: found for label, found in pairs.items() if found}
    judgements: dict[str, dict[str, Judgement]] = {label: {} for label in shared}
    decisions: dict[str, dict[str, Decision]] = {label: {} for label in shared}
    for name, metric in metrics.items():
        if metric.judged:
            family = {label: found[name] for label, found in shared.items() if name in found}
            remark = ""
            if chance is not None and name == "accuracy":
                remark = f"; no variant is above chance level, {100 * chance:.1f} %"
            judged = judge(family, unit=metric.unit, planned=known, remark=remark)
            decided = anytime.decide(family, unit=metric.unit, planned=known, remark=remark)
            for label in family:
                judgements[label][name] = judged[label]
                decisions[label][name] = decided[label]
    return {
        label: Difference(
            metrics=found,
            judgements=judgements[label],
            anytime=decisions[label],
            mcnemar=tests.get(label, {}),
            sequential=label in sequential,
        )
        for label, found in shared.items()
    }
