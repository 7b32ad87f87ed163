"""A claim, what its check returns, and how numbers become a verdict."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor


class Finding(NamedTuple):
    """Result of a check: holds or refuted; of experiments supported, not supported, undecided."""

    verdict: str
    measured: str
    n: int | None = None  # seeds a variant


class Claim(NamedTuple):
    """A statement of a source, with its check."""

    id: str
    source: str
    text: str
    refuted_by: str  # the result that would refute it: the docstring of its check
    check: Callable[..., Finding]  # takes the path of the study, if there is one
    study: str
    by_construction: bool  # as `definition` says


def claim(
    id: str, source: str, text: str, study: str = "", *, by_construction: bool = False
) -> Callable[[Callable[..., Finding]], Claim]:
    """Decorator that makes a claim of a function that checks it and says what would refute it."""

    def make_claim(check: Callable[..., Finding]) -> Claim:
        refuted_by = " ".join(str(check.__doc__).split())
        return Claim(id, source, text, refuted_by, check, study, by_construction)

    return make_claim


definition = partial(claim, by_construction=True)
"""Decorator for a claim that defines a piece: shapes, counts, formulas. Its check tests our code
and nothing else, and tests/model/test_oracle.py holds that code to plain loops."""


def judge_equality(
    *pairs: tuple[Tensor, Tensor], within: float = 1e-12, also: bool = True, shown: str = ""
) -> Finding:
    """Finding that the tensors of each pair are equal within a tolerance.

    also: whatever else must be true. shown: what else was measured.
    """
    difference = max_abs_diff(*pairs)
    verdict = "holds" if difference <= within and also else "refuted"
    measured = f"off by {difference:.0e} (≤ {within:.0e})"
    return Finding(verdict, f"{measured}; {shown}" if shown else measured)


def max_abs_diff(*pairs: tuple[Tensor, Tensor]) -> float:
    """Largest difference within pairs; infinite where shapes differ, NaN where an entry is."""
    if any(left.shape != right.shape for left, right in pairs):
        return float("inf")
    differences = [(left.double() - right.double()).abs().max() for left, right in pairs]
    return torch.stack(differences).max().item()  # of which a NaN is the largest


def judge_interval(low: float, high: float, bound: float = 0.0) -> str:
    """What an interval says of the claim that the value is above a bound."""
    if low > bound:
        return "supported"
    return "not supported" if high < bound else "undecided"


def join_verdicts(verdicts: Iterable[str]) -> str:
    """Not supported where any part of a claim is, supported where all parts are."""
    return min(verdicts, key=("not supported", "undecided", "supported").index)
