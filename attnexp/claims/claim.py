"""What a check of a claim returns, and how tensors and intervals become a verdict."""

import math
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

EXACT = 1e-12
"""Largest difference of equal float64 results, of a few hundred operations on numbers near 1."""


class Finding(NamedTuple):
    """Result of a check: holds or refuted; of experiments supported, not supported, undecided."""

    verdict: str
    measured: str
    n: int | None = None
    """Number of seeds a variant; None for exact claims."""


def exact(holds: bool, measured: str) -> Finding:
    """Finding on a claim that is either true or false."""
    return Finding("holds" if holds else "refuted", measured)


def equal(*tensors: Tensor, within: float = EXACT, also: bool = True, shown: str = "") -> Finding:
    """Finding that tensors are equal, pair by pair, and that something else is true."""
    off = max_abs_diff(*tensors)
    return exact(off <= within and also, f"off by {off:.0e} (≤ {within:.0e}){shown}")


def max_abs_diff(*tensors: Tensor) -> float:
    """Largest difference of the first from the second, the third from the fourth, and so on.

    Infinite where shapes differ; NaN where an entry is, which no tolerance admits.
    """
    pairs = [*zip(tensors[::2], tensors[1::2], strict=True)]
    if any(one.shape != other.shape for one, other in pairs):
        return math.inf
    return torch.stack([(one - other).abs().max() for one, other in pairs]).max().item()


def beyond(low: float, high: float, bound: float = 0.0) -> str:
    """What an interval says of the claim that the value is above a bound."""
    return "supported" if low > bound else "not supported" if high < bound else "undecided"


def joint(parts: Iterable[str]) -> str:
    """Not supported where any part of a claim is, supported where all parts are."""
    return min(parts, key=("not supported", "undecided", "supported").index)
