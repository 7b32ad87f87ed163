"""K's layer at its own widths, and how to time it: what the claims about costs share."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import torch
from torch import nn

from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.fast import restrict
from attnexp.model.init import init_weights

D_MODEL, NUM_HEADS, D_HEAD = 128, 8, 16

Module = TypeVar("Module", bound=nn.Module)


def k_attention(window: int | None = None) -> MultiHeadSelfAttention:
    """K's layer, or the same restricted to a window, with the weights of seed 0."""
    layer = made(lambda: MultiHeadSelfAttention(D_MODEL, num_heads=NUM_HEADS, d_head=D_HEAD))
    if window is not None:
        restrict(layer, window)
    return layer


def made(build: Callable[[], Module]) -> Module:
    """A piece with the weights of seed 0, the caller's random numbers untouched."""
    with torch.random.fork_rng(devices=[]):
        module = build()
    init_weights(module, 0)
    return module


def seconds_of(run: Callable[[], object]) -> float:
    """How long a call takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


@contextmanager
def one_thread() -> Iterator[None]:
    """Timings that other threads do not disturb."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
