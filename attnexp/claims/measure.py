"""What exact checks share: numbers to feed the pieces, and how far two results lie apart.

All in float64, from generators of its own: a check finds the same figure every time and leaves
torch's global random state as it was.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor, nn

P = ParamSpec("P")
M = TypeVar("M", bound=nn.Module)

EXACT = 1e-12
"""Two float64 results of a few hundred operations on numbers near 1 are this near if equal."""


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Independent N(0, 1) numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def rough(make: Callable[P, M], *args: P.args, **keywords: P.kwargs) -> M:
    """A module whose weights are large enough for attention far from uniform.

    The n-th parameter depends on n and its shape alone, so modules of one structure are equal.
    """
    with torch.random.fork_rng(devices=[]):  # torch initialises from the global state
        module = make(*args, **keywords)
    module = module.double().eval().requires_grad_(False)
    # Seeds far from those of `normal`: weights equal to the input would make scores lopsided.
    for seed, parameter in enumerate(module.parameters(), start=1000):
        parameter.copy_(normal(*parameter.shape, seed=seed) / parameter.shape[-1] ** 0.5)
    return module


def apart(one: Tensor, other: Tensor) -> float:
    """The largest difference of any two entries; infinite where shapes differ."""
    if one.shape != other.shape:
        return float("inf")
    return (one - other).abs().max().item()


def worst(*gaps: float) -> float:
    """The largest; NaN if there is one, which Python's `max` may lose and no tolerance admits."""
    return torch.tensor(gaps, dtype=torch.float64).max().item()


def is_refused(call: Callable[[], object]) -> bool:
    """Whether a call raises the `ValueError` that a user would see."""
    try:
        call()
    except ValueError:
        return True
    return False
