"""The verdict on a difference: what its interval allows to say, and nothing else.

It is about one metric at one endpoint that was declared before any run (say, final test accuracy).
No correction here allows for looking at several metrics and quoting the best."""

import math
from dataclasses import dataclass
from typing import NamedTuple

from attnexp.statistics.defaults import FEWEST_SEEDS, MARGIN
from attnexp.statistics.intervals import Bounds, Interval

HELPS = "helps"
HURTS = "hurts"
EQUIVALENT = "equivalent"
UNDECIDED = "undecided"
TOO_FEW = "too few"  # seeds, or data sets
WITHHELD = "withheld"  # for a reason beside the interval, which `words` says
ON_THESE_TEXTS = "on these texts"  # added where other texts of the same kind may say otherwise


@dataclass(frozen=True, kw_only=True)
class MetricSpec:
    """How a metric is judged and shown."""

    name: str = "accuracy"
    is_share: bool = True  # so that tables show it in %, and differences in percentage points
    higher_is_better: bool = True
    counts_texts: bool = False  # whether one of n texts moves it by about 1 / n
    margin: float = MARGIN  # smallest difference that matters, in the metric's own unit

    @property
    def unit(self) -> int:
        """The metric's own unit in that of the tables: a share of 1 is 100 points."""
        return 100 if self.is_share else 1

    @property
    def margin_text(self) -> str:
        """The margin in the unit of the tables: `0.25`."""
        return f"{self.margin * self.unit:.4g}"

    def __str__(self) -> str:
        """The metric with its margin: `accuracy ±0.25`."""
        return f"{self.name} ±{self.margin_text}"


class Verdict(NamedTuple):
    """What an interval allows to say of a difference."""

    kind: str  # HELPS, HURTS, EQUIVALENT, UNDECIDED, TOO_FEW or WITHHELD
    name: str  # `helps on these texts`; empty if WITHHELD
    words: str  # with its size, `helps by at least 0.25 points on these texts`

    @property
    def is_decided(self) -> bool:
        """Whether it says helps, hurts or equivalent."""
        return self.kind in (HELPS, HURTS, EQUIVALENT)


def judge_interval(
    interval: Interval, metric: MetricSpec, texts: Bounds | None = None, *, counted: str = "seeds"
) -> Verdict:
    """The verdict on a difference. The interval for other seeds decides: within ± margin it is
    equivalent, beyond 0 it helps or hurts, else it is undecided. Where n is below three or the
    interval has no ends, there are too few of what `counted` names.

    texts: the interval for other seeds and texts. If it has the same verdict, it takes the place of
    the first; if not, "on these texts" is added. One beyond the margin adds "by at least"."""
    if interval.n < FEWEST_SEEDS or math.isinf(interval.low):
        too_few = f"{TOO_FEW} {counted}"
        return Verdict(TOO_FEW, too_few, too_few)
    bounds = interval.bounds
    kind = _locate(bounds, metric)
    if kind == UNDECIDED:
        return Verdict(UNDECIDED, UNDECIDED, UNDECIDED)
    suffix = f" {ON_THESE_TEXTS}"
    if texts is not None and _locate(texts, metric) == kind:
        bounds = texts
        suffix = ""
    low, high = bounds
    size = ""
    if low >= metric.margin or high <= -metric.margin:
        unit = " points" if metric.is_share else ""
        size = f" by at least {metric.margin_text}{unit}"
    return Verdict(kind, kind + suffix, kind + size + suffix)


def _locate(bounds: Bounds, metric: MetricSpec) -> str:
    """The kind of verdict that an interval alone allows."""
    low, high = bounds
    if -metric.margin < low and high < metric.margin:
        return EQUIVALENT
    if low <= 0 <= high:
        return UNDECIDED
    return HELPS if (low > 0) == metric.higher_is_better else HURTS
