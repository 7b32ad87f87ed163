"""What a check of a claim returns, and how numbers become its verdict."""

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from torch import Tensor

Pairs = Sequence[tuple[Tensor, Tensor]]


class Finding(NamedTuple):
    """Result of a check: holds or refuted; of experiments supported, not supported, undecided."""

    verdict: str
    measured: str
    n: int | None = None  # seeds a variant


def judge_equality(
    pairs: Pairs, *, within: float = 1e-12, also: bool = True, shown: str = ""
) -> Finding:
    """Finding that the tensors of each pair are equal within a tolerance.

    also: whatever else must be true. shown: what else was measured.
    """
    difference = max_abs_diff(pairs)
    measured = f"off by {difference:.0e} (≤ {within:.0e})"
    if shown:
        measured += f"; {shown}"
    holds = difference <= within and also
    return Finding("holds" if holds else "refuted", measured)


def max_abs_diff(pairs: Pairs) -> float:
    """Largest difference within pairs; infinite where shapes differ, NaN where an entry is."""
    largest = 0.0
    for left, right in pairs:
        if left.shape != right.shape:
            return math.inf
        difference = (left.double() - right.double()).abs().max().item()
        if math.isnan(difference):
            return math.nan
        largest = max(largest, difference)
    return largest


def judge_interval(low: float, high: float, bound: float = 0.0) -> str:
    """What an interval says of the claim that the value is above a bound."""
    if low > bound:
        return "supported"
    if high < bound:
        return "not supported"
    return "undecided"


def join_verdicts(verdicts: Iterable[str]) -> str:
    """Not supported where any part of a claim is, supported where all parts are."""
    from_worst = ("not supported", "undecided", "supported")
    return min(verdicts, key=from_worst.index)
