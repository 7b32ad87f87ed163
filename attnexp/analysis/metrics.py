"""Metrics of a comparison: the direction that is better, the unit and the margin."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from attnexp.base.errors import UserError
from attnexp.statistics.paired import MARGIN
from attnexp.statistics.verdict import POINTS, Unit

RATES = frozenset(
    "acc accuracy auc auroc auprc dice em f1 fscore iou map mrr ndcg precision recall sensitivity "
    "specificity top1 top5".split()
)
"""Words for a share of successes, which may be written in per cent."""

SUCCESSES = RATES | frozenset("correct match success win wins".split())
"""Words for a share of successes. Those that are not rates may count successes instead."""

OF_A_SUCCESS = frozenset(
    "average avg balanced best dev eval exact final macro mean micro pr rate roc score test train "
    "val valid validation weighted".split()
)
"""Words that may stand beside one of `SUCCESSES` in the name of a metric of which more is better.
With any other word the user has to say the direction."""

LOSSES = frozenset(
    "bce bpb bpc brier cer crossentropy ece eer err error loss mae mape mse nll nmse perplexity "
    "ppl rmse rmsle smape ter wer xent".split()
)
"""Last words of names of metrics of which less is better."""

TURNED = frozenset("neg negative negated not no minus inv inverse less reduced reduction".split())
"""Words that turn a loss into its opposite, as in `neg_mean_squared_error`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Metric:
    """How a metric is compared."""

    unit: Unit
    margin: float
    """Differences within ± this count as none; in the metric's own unit."""
    judged: bool
    """Whether its differences get a verdict."""


SHARES_OF_ERROR = replace(POINTS, less_is_better=True)
NATS = Unit(name="", scale=1, digits=".4f", less_is_better=True)


class Known(NamedTuple):
    """What is known about a metric without options of the user."""

    unit: Unit
    has_direction: bool = True
    """Whether it is known that less, or more, is better, as the unit says."""
    judged: bool = True
    """Whether it is judged by default."""


OF_RUNS = {
    "accuracy": Known(POINTS),
    "loss": Known(NATS, judged=False),
    "brier": Known(NATS, judged=False),
    "ece": Known(SHARES_OF_ERROR, judged=False),
    "gap": Known(SHARES_OF_ERROR, judged=False),
}
"""The metrics of our runs at an evaluation point."""


def metrics_of_runs(margin: float = MARGIN) -> dict[str, Metric]:
    """The metrics of our runs: accuracy is judged, the others are shown."""
    return {
        name: Metric(unit=known.unit, margin=margin, judged=known.judged)
        for name, known in OF_RUNS.items()
    }


def known_by_name(metric: str, values: Collection[float], lower: Collection[str]) -> Known:
    """Unit, direction and judging of a metric, from its name and values. Values that all lie from 0
    to 1 are shares, with differences in points, unless less is known to be better."""
    less = metric in lower or is_loss(metric)
    if all(0 <= value <= 1 for value in values) and not less:
        return Known(POINTS, is_success(metric))
    return Known(Unit(name="", scale=1, digits=".4g", less_is_better=less), less)


def is_success(metric: str) -> bool:
    """Whether a name is that of a share of successes, of which more is better."""
    words = _words(metric)
    successes = [word for word in words if word in SUCCESSES]
    return len(successes) == 1 and {*words} <= SUCCESSES | OF_A_SUCCESS


def is_loss(metric: str) -> bool:
    """Whether a name is that of a loss or an error, of which less is better."""
    words = _words(metric)
    return words[-1] in LOSSES and not {*words} & TURNED


def is_in_percent(metric: str, values: Collection[float]) -> bool:
    """Whether the values of a known rate are written in per cent instead of as shares."""
    is_rate = is_success(metric) and not {*_words(metric)} & SUCCESSES - RATES
    return is_rate and max(values) > 1 and all(0 <= value <= 100 for value in values)


def _words(metric: str) -> list[str]:
    words = re.split(r"[ _./]", re.sub(r"([a-z])([A-Z])", r"\1 \2", metric).lower())
    text = " ".join(words).replace("cross entropy", "crossentropy")
    return text.replace("error rate", "error").replace("brier score", "brier").split(" ")


def choose_metrics(
    known: Mapping[str, Known],
    *,
    higher: Sequence[str] = (),
    lower: Sequence[str] = (),
    margins: Sequence[str] = (),
) -> dict[str, Metric]:
    """Metrics with the direction and margin that the user gave, or that are known. A metric that
    the user names in one of these options is judged.

    higher, lower: metrics of which more, or less, is better. margins: `METRIC=NUMBER`, or a number
    for all, in the unit in which the tables write differences (points for shares, whose default is
    0.25). Raises `UserError` if one of them is wrong, or if a direction or margin is not known.
    """
    for name in (*higher, *lower):
        check_known(name, known)
    given, named = _margins(margins, known)
    metrics, unknown = dict[str, Metric](), list[str]()
    for name, (unit, has_direction, judged) in known.items():
        if name in higher and name in lower:
            raise UserError(f"--higher {name} and --lower {name} contradict each other.")
        judged = judged or name in (*higher, *lower, *named)
        is_share = unit.scale == POINTS.scale
        if name not in (*higher, *lower) and not has_direction:
            more = "" if name in given or not is_share else f" and --margin {name}=0.01"
            unknown.append(
                f"which direction is better, with --higher {name}, or --lower {name}{more}"
            )
        if judged and not is_share and name not in given:
            unknown.append(
                f"the smallest difference that matters, for example --margin {name}=0.01"
            )
        margin = given[name] / unit.scale if name in given else MARGIN
        if judged and is_share and margin >= 1:
            raise UserError(f"--margin of {name} is in points, below 100; got {given[name]:g}.")
        less = name in lower or (unit.less_is_better and name not in higher)
        unit = replace(unit, less_is_better=less)
        metrics[name] = Metric(unit=unit, margin=margin, judged=judged)
    if unknown:
        raise UserError(f"Say {'; '.join(unknown)}.")
    return metrics


def check_known(metric: str, metrics: Collection[str]) -> None:
    """Raise `UserError` if a metric that the user names is not among `metrics`."""
    if metric not in metrics:
        raise UserError(f"There is no metric {metric!r}; here are {', '.join(metrics)}.")


def _margins(
    words: Sequence[str], metrics: Collection[str]
) -> tuple[dict[str, float], Collection[str]]:
    """Margins by metric, one given for a metric before one given for all; the metrics named."""
    for_all, for_one = dict[str, float](), dict[str, float]()
    for word in words:
        metric, equals, text = word.rpartition("=")
        margin = to_number(text)
        if margin is None or margin <= 0:
            raise UserError(f"--margin takes a number above 0, or METRIC=NUMBER; got {word}.")
        if equals:
            check_known(metric, metrics)
            for_one[metric] = margin
        else:
            for_all = dict.fromkeys(metrics, margin)
    return for_all | for_one, for_one


def to_number(value: object) -> float | None:
    """A number whose square is finite, else None; of a text, its ASCII digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    if isinstance(value, str) and not value.isascii():
        return None
    try:
        number = float(value)
    except (ValueError, OverflowError):
        return None
    return number if abs(number) <= 1e100 else None
