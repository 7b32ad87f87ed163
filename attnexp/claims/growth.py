"""C23: what attention costs as the text grows, in full and within a window.

Shapes: n tokens, D width, r radius of a window.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from attnexp.claims.claim import Claim, Finding
from attnexp.claims.layers import (
    D_HEAD,
    D_MODEL,
    NUM_HEADS,
    k_attention,
    made,
    one_thread,
    seconds_of,
)
from attnexp.claims.measure import normal
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.mixers import Convolution

EXPONENT = 0.1
"""How far a fitted exponent may lie from the claim's."""

SIZES = (128, 256, 512, 1024, 2048)
"""Tokens, each twice the one before. Fewer would not do: where one block of the window with its
surroundings (2 r + max(r, 16) = 32 keys here) holds all tokens, the window is the whole map."""
LARGEST = 3
"""Exponents are fitted at that many of the largest sizes: below, the projections' share shows."""
RADIUS = 8
RADII = (16, 32, 64, 128)
"""From 16 on, where a block has r queries and 3 r keys, so that padding a block costs nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """The price of one layer of K's widths and one text, as something grows."""

    sizes: tuple[int, ...]
    """What grows: tokens, or the radius."""
    projections: tuple[int, ...]
    """Floating-point operations of Q, K and V, forward."""
    products: tuple[int, ...]
    """Those of the two score products: q k^T, and the weights with v."""
    elements: tuple[int, ...]
    """Numbers kept for the backward pass, weights of the layer left out."""
    seconds: tuple[float, ...]
    """Of a forward pass on one thread: the median of a few."""

    def exponent(self, price: Sequence[float]) -> float:
        """The power with which a price grows: least squares in logs, at the largest sizes."""
        n, found = np.log(self.sizes[-LARGEST:]), np.log(price[-LARGEST:])
        return float(np.polyfit(n, found, 1)[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class Curves:
    """All that C23 speaks of."""

    full: Curve
    window: Curve
    """Restricted to ±`RADIUS`."""
    radii: Curve
    """Restricted, over the radius, at the largest number of tokens."""
    convolution: tuple[int, ...]
    """Floating-point operations of a convolution of width 3 and equal widths, over tokens."""


def c23(_results: Path) -> Finding:
    """C23: QKV cost O(n), as a width-3 convolution; products O(n²); within ±r O(n r).

    Operations and numbers kept for the backward pass decide, operations alone over r; time is
    shown and decides nothing.
    """
    return judge(curves())


def curves(*, sizes: tuple[int, ...] = SIZES, repeats: int = 5) -> Curves:
    """Measure (C23): some 6 s on one core at the default sizes."""
    longest = sizes[-1]
    return Curves(
        full=_curve(sizes, [(k_attention(), n) for n in sizes], repeats),
        window=_curve(sizes, [(k_attention(RADIUS), n) for n in sizes], repeats),
        radii=_curve(RADII, [(k_attention(radius), longest) for radius in RADII], repeats),
        convolution=tuple(_convolution_flops(n) for n in sizes),
    )


def judge(found: Curves) -> Finding:
    """The conclusion on C23 from its numbers."""
    full, window, radii = found.full, found.window, found.radii
    decide = {  # name: (exponent found, exponent claimed)
        "QKV": (full.exponent(full.projections), 1),
        "full": (full.exponent(full.products), 2),
        "full memory": (full.exponent(full.elements), 2),
        "window": (window.exponent(window.products), 1),
        "window memory": (window.exponent(window.elements), 1),
        "radius": (radii.exponent(radii.products), 1),
    }
    is_convolution = full.projections == found.convolution
    e = {name: f"{exponent:.2f}" for name, (exponent, _) in decide.items()}
    return Finding.exact(
        is_convolution and all(abs(one - other) <= EXPONENT for one, other in decide.values()),
        f"QKV n^{e['QKV']}, conv x {full.projections[-1] / found.convolution[-1]:.2f}; "
        f"full n^{e['full']}, memory {e['full memory']}, time {full.exponent(full.seconds):.1f}; "
        f"window n^{e['window']} r^{e['radius']}, {e['window memory']}, "
        f"{window.exponent(window.seconds):.1f} (tol {EXPONENT})",
    )


def _curve(
    sizes: tuple[int, ...], cases: list[tuple[MultiHeadSelfAttention, int]], repeats: int
) -> Curve:
    """cases: for each size a layer, and the number of tokens it is given."""
    flops, elements, seconds = [], [], []
    for attention, num_tokens in cases:
        x = normal(1, num_tokens, D_MODEL).float()
        flops.append(_flops(attention, x))
        elements.append(_elements_kept(attention, x))
        seconds.append(_median_time(attention, x, repeats))
    return Curve(
        sizes=sizes,
        projections=tuple(projections for projections, _ in flops),
        products=tuple(products for _, products in flops),
        elements=tuple(elements),
        seconds=tuple(seconds),
    )


def _flops(attention: MultiHeadSelfAttention, x: Tensor) -> tuple[int, int]:
    """Floating-point operations, forward: those of the projections, and all others."""
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        attention(x)
    projections = sum(
        sum(counts.values())
        for module, counts in counter.get_flop_counts().items()
        if module.endswith("_proj")
    )
    return int(projections), int(counter.get_total_flops() - projections)


def _convolution_flops(num_tokens: int) -> int:
    convolution = made(lambda: Convolution(D_MODEL, NUM_HEADS * D_HEAD, kernel=3))
    padding = torch.zeros(1, num_tokens, dtype=torch.bool)
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        convolution(normal(1, num_tokens, D_MODEL).float(), padding)
    return int(counter.get_total_flops())


def _elements_kept(attention: MultiHeadSelfAttention, x: Tensor) -> int:
    """Numbers kept between forward and backward, each storage once."""
    kept: dict[int, int] = {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in attention.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes() // tensor.itemsize
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        y = attention(x)  # while y lives, no storage is given back and counted as another
    del y
    return sum(kept.values())


def _median_time(attention: MultiHeadSelfAttention, x: Tensor, repeats: int) -> float:
    with one_thread(), torch.inference_mode():
        attention(x)  # warms up
        return statistics.median(seconds_of(lambda: attention(x)) for _ in range(repeats))


CLAIMS = [
    Claim("C23", "K", "QKV cost O(n), as a width-3 convolution; products O(n²); ±r O(n r)", c23),
]
