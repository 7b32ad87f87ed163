"""Helpers for exact checks: inputs, modules with random weights, differences, and timings.

Inputs and weights come from generators of their own: a check measures the same every time and
leaves torch's global random state unchanged.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.init import init_weights

P = ParamSpec("P")
M = TypeVar("M", bound=nn.Module)

EXACT = 1e-12
"""Tolerance for two float64 results of a few hundred operations on numbers near 1."""

D_MODEL, NUM_HEADS, D_HEAD = 128, 8, 16
"""Widths of the attention layer of source K."""


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Independent N(0, 1) numbers in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def with_random_weights(make: Callable[P, M], *args: P.args, **keywords: P.kwargs) -> M:
    """A float64 module whose weights are large enough for attention far from uniform.

    The n-th parameter depends on n and its shape alone, so modules of one structure are equal.
    """
    with torch.random.fork_rng(devices=[]):  # torch initialises from the global state
        module = make(*args, **keywords)
    module = module.double().eval().requires_grad_(False)
    # Seeds far from those of `normal`: weights equal to the input would make scores lopsided.
    for seed, parameter in enumerate(module.parameters(), start=1000):
        parameter.copy_(normal(*parameter.shape, seed=seed) / parameter.shape[-1] ** 0.5)
    return module


def random_attention(
    d_input: int = 8, *, num_heads: int = 2, d_head: int = 4, **settings: Any
) -> MultiHeadSelfAttention:
    """Attention layer with random weights."""
    return with_random_weights(
        MultiHeadSelfAttention, d_input, num_heads=num_heads, d_head=d_head, **settings
    )


def initialized(make: Callable[[], M]) -> M:
    """A module with the initial weights that seed 0 gives in a run."""
    with torch.random.fork_rng(devices=[]):
        module = make()
    init_weights(module, 0)
    return module


def k_attention(window: int | None = None) -> MultiHeadSelfAttention:
    """Initialized attention layer of source K, or the same restricted to a window."""
    layer = initialized(lambda: MultiHeadSelfAttention(D_MODEL, num_heads=NUM_HEADS, d_head=D_HEAD))
    layer.window = window
    return layer


def max_abs_diff(one: Tensor, other: Tensor) -> float:
    """The largest absolute difference of any two entries; infinite where shapes differ."""
    if one.shape != other.shape:
        return float("inf")
    return (one - other).abs().max().item()


def max_or_nan(*values: float) -> float:
    """The largest value; NaN if any is NaN, which no tolerance admits and Python's `max` drops."""
    return torch.tensor(values, dtype=torch.float64).max().item()


def raises_value_error(call: Callable[[], object]) -> bool:
    """Whether a call raises the `ValueError` that a user would see."""
    try:
        call()
    except ValueError:
        return True
    return False


def seconds_of(run: Callable[[], object]) -> float:
    """Wall-clock seconds of one call."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


@contextmanager
def one_thread() -> Iterator[None]:
    """Let torch use one thread, which other threads cannot disturb."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
