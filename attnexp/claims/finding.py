"""A claim, what its check returns, and how numbers become a verdict."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from attnexp.analysis.metrics import ACCURACY
from attnexp.report.cells import format_size
from attnexp.statistics.intervals import Interval


class Finding(NamedTuple):
    """Result of a check. docs/reproduction.md says which verdicts there are."""

    verdict: str
    measured: str
    n: int | None = None  # seeds a variant, or data sets


Check = Callable[..., Finding]  # of the path of the study, if there is one


class Claim(NamedTuple):
    """A statement of a source, with its check."""

    id: str
    source: str
    text: str
    refuted_by: str  # the result that would refute it: the docstring of its check
    check: Check
    study: str


CHECKED: list[Claim] = []  # the claims that have a check


def claim(id: str, source: str, text: str, study: str = "") -> Callable[[Check], Check]:
    """Decorator of a function that checks a claim; its docstring says what would refute it."""

    def add_claim(check: Check) -> Check:
        refuted_by = " ".join(str(check.__doc__).split())
        CHECKED.append(Claim(id, source, text, refuted_by, check, study))
        return check

    return add_claim


def judge_equality(
    *pairs: tuple[Tensor, Tensor], within: float = 1e-12, also: bool = True, shown: str
) -> Finding:
    """Finding that pairs are equal within a tolerance. also: what else must be true."""
    difference = max_abs_diff(*pairs)
    measured = f"off by {difference:.0e} (≤ {within:.0e}); {shown}"
    holds = difference <= within and also
    return Finding("holds" if holds else "refuted", measured)


def judge_parts(parts: Mapping[str, bool | Tensor]) -> Finding:
    """Finding on a claim of several parts; parts: whether each holds, by what was measured."""
    shown = [f"{part} {'holds' if is_true else 'refuted'}" for part, is_true in parts.items()]
    holds = parts.values()
    verdict = "holds" if all(holds) else "holds in part" if any(holds) else "refuted"
    return Finding(verdict, "; ".join(shown))


def max_abs_diff(*pairs: tuple[Tensor, Tensor]) -> float:
    """Largest difference within pairs; infinite where shapes differ, NaN where an entry is."""
    if any(left.shape != right.shape for left, right in pairs):
        return float("inf")
    differences = [(left.double() - right.double()).abs().max() for left, right in pairs]
    return torch.stack(differences).max().item()  # A NaN is the largest to torch.


def judge_above(interval: Interval, bound: float = 0.0) -> str:
    """What an interval says of the claim that the mean is above a bound."""
    if interval.low > bound:
        return "supported"
    return "not supported" if interval.high < bound else "undecided"


def join_verdicts(verdicts: Iterable[str]) -> str:
    """Not supported where any part of a claim is, supported where all parts are."""
    return min(verdicts, key=("not supported", "undecided", "supported").index)


class Evidence(NamedTuple):
    """A mean with its interval, and how it is judged."""

    name: str
    interval: Interval
    decides: bool = True  # whether the verdict rests on it; else it is shown in brackets
    within: float | None = None  # the mean should lie within ± this; None: above 0


def judge_part(part: Evidence) -> str:
    """The verdict on a part of a claim."""
    if part.within is None:
        return judge_above(part.interval)
    low, high = part.interval.bounds
    if -part.within < low and high < part.within:
        return "supported"
    is_outside = high < -part.within or low > part.within
    return "not supported" if is_outside else "undecided"


def judge_evidence(parts: Sequence[Evidence], *, by_part: bool = False) -> Finding:
    """Finding on a claim of deciding parts. by_part: if only some support it, it is so in part."""
    shown = []
    verdicts = []
    for part in parts:
        text = f"{part.name} {format_size(part.interval, ACCURACY)}"
        if not part.decides:
            shown.append(f"({text})")
            continue
        verdicts.append(judge_part(part))
        shown.append(f"{text} {verdicts[-1]}" if by_part else text)
    verdict = join_verdicts(verdicts)
    if by_part and "supported" in verdicts and verdict != "supported":
        verdict = "supported in part"
    n = min(part.interval.n for part in parts)
    return Finding(verdict, "; ".join(shown), n)
