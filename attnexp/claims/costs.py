"""What attention costs, and how far it sees: heads at once (C18), growth (C23), reach (C27).

Shapes: B batch, T or n tokens, D width, H heads, K head width, r radius of a window.
"""

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.functional import jacobian
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from attnexp import device
from attnexp.claims.claim import Claim, Finding
from attnexp.config import Device, TrainConfig
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.init import init_weights
from attnexp.model.mixers import Convolution, Recurrent

D_MODEL, NUM_HEADS, D_HEAD = 128, 8, 16  # K's
EXACT = 1e-12
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

Module = TypeVar("Module", bound=nn.Module)


def c18(_results: Path) -> Finding:
    """C18: H heads as one tensor operation give what a loop over heads gives, and faster.

    The numbers decide, in float64. Speed is a forward and backward pass over K's batch of 32
    reviews of 80 tokens, and over one review, on one thread, in pairs of loop and tensor run in
    turn. It is called faster where at least three of four pairs say so, and the line says where it
    is not: that refutes the claim's second half.
    """
    difference = heads_difference()
    ratios = {batch: loop_over_tensor(batch) for batch in (32, 1)}
    medians = ", ".join(
        f"{statistics.median(pairs):.2f} at batch {batch}" for batch, pairs in ratios.items()
    )
    slow = [str(batch) for batch, pairs in ratios.items() if not is_faster(pairs)]
    speed = f"NOT faster at {' and '.join(slow)}" if slow else "faster"
    return Finding.exact(
        difference <= EXACT,
        f"max |diff| {difference:.0e} (tol {EXACT:g}); loop/tensor time {medians} "
        f"({len(ratios[1])} pairs), {speed}",
    )


def heads_difference() -> float:
    """The largest difference between the layer's output and a loop's, at K's widths (C18)."""
    attention, x = _attention().double(), _random(4, 80, D_MODEL)
    with torch.inference_mode():
        return float((attention(x) - loop_over_heads(x, by_head(attention))).abs().max())


def loop_over_tensor(batch: int, *, num_pairs: int = 21) -> list[float]:
    """Seconds of a loop over heads by seconds of one tensor operation, pair by pair (C18)."""
    # As in a run: otherwise the larger score tensor pays the kernel for fresh pages every time.
    device.prepare(TrainConfig(device=Device.cpu))
    attention, x = _attention(), _random(batch, 80, D_MODEL).float()
    heads = [[weight.detach().requires_grad_() for weight in head] for head in by_head(attention)]

    def loop() -> None:
        loop_over_heads(x, heads).sum().backward()

    def tensor() -> None:
        attention(x).sum().backward()

    ratios = []
    with _one_thread():
        for pair in range(-2, num_pairs):  # the first two warm up
            order = (loop, tensor) if pair % 2 else (tensor, loop)
            seconds = {passes: _seconds(passes) for passes in order}
            ratios.append(seconds[loop] / seconds[tensor])
    return ratios[2:]


def is_faster(ratios: Sequence[float]) -> bool:
    """Whether three of four pairs at least find the tensor operation faster."""
    return statistics.quantiles(ratios, n=4)[0] > 1


def by_head(attention: MultiHeadSelfAttention) -> list[Sequence[Tensor]]:
    """For each head its own W_Q, W_K and W_V, (K, D) each."""
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    return list(zip(*(p.weight.chunk(attention.num_heads) for p in projections), strict=True))


def loop_over_heads(x: Tensor, heads: Sequence[Sequence[Tensor]]) -> Tensor:
    """softmax(Q K^T / sqrt(K)) V, one head after the other, joined: (B, T, D) -> (B, T, H K)."""
    outputs = []
    for w_q, w_k, w_v in heads:
        q, k, v = x @ w_q.T, x @ w_k.T, x @ w_v.T
        outputs.append(((q / math.sqrt(len(w_q))) @ k.mT).softmax(dim=-1) @ v)
    return torch.cat(outputs, dim=-1)


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
        full=_curve(sizes, [(_attention(), n) for n in sizes], repeats),
        window=_curve(sizes, [(_attention(RADIUS), n) for n in sizes], repeats),
        radii=_curve(RADII, [(_attention(radius), longest) for radius in RADII], repeats),
        convolution=tuple(_convolution_flops(n) for n in sizes),
    )


def judge(found: Curves) -> Finding:
    """The verdict on C23 from its numbers."""
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
        x = _random(1, num_tokens, D_MODEL).float()
        flops.append(_flops(attention, x))
        elements.append(_elements_kept(attention, x))
        seconds.append(_median_seconds(attention, x, repeats))
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
    convolution = _made(lambda: Convolution(D_MODEL, NUM_HEADS * D_HEAD, width=3))
    padding = torch.zeros(1, num_tokens, dtype=torch.bool)
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        convolution(_random(1, num_tokens, D_MODEL).float(), padding)
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


def _median_seconds(attention: MultiHeadSelfAttention, x: Tensor, repeats: int) -> float:
    with _one_thread(), torch.inference_mode():
        attention(x)  # warms up
        return statistics.median(_seconds(lambda: attention(x)) for _ in range(repeats))


def c27(_results: Path) -> Finding:
    """C27: attention reaches any token in a layer, an RNN in n steps; L width-3 CNN layers ±L.

    A token reaches an output where the output's gradient in it is not zero. That an LSTM takes n
    steps to reach back n: cut between any two tokens, it is the same function as long as its state
    is handed on, and reaches nothing beyond the cut when the state's gradient is not.
    """
    num_tokens = 16
    every = num_tokens * num_tokens
    attention = reach(_attention().double(), num_tokens)
    lstm, crossing = lstm_reach(num_tokens)
    layers = {depth: cnn_reach(depth, num_tokens) for depth in (1, 2, 3)}
    apart = _apart(num_tokens)
    holds = (
        bool(attention.all())
        and bool((lstm == (apart <= 0)).all())
        and crossing == 0
        and all(bool((seen == (apart.abs() <= depth)).all()) for depth, seen in layers.items())
    )
    widest = ", ".join(f"±{int(apart[seen].abs().max())}" for seen in layers.values())
    return Finding.exact(
        holds,
        f"attention {int(attention.sum())} of {every} pairs; LSTM {int(lstm.sum())} "
        f"({int(lstm.triu(1).sum())} ahead, {crossing} past a cut); 1, 2, 3 CNN layers {widest}",
    )


def reach(layer: Callable[[Tensor], Tensor], num_tokens: int) -> Tensor:
    """Which tokens each output depends on at a random input: (T outputs, T inputs), boolean."""
    gradient = jacobian(layer, _random(1, num_tokens, D_MODEL))  # (1, T, D_out, 1, T, D)
    assert isinstance(gradient, Tensor)
    return (gradient != 0).any(dim=-1).any(dim=2)[0, :, 0]


def lstm_reach(num_tokens: int) -> tuple[Tensor, int]:
    """What an LSTM reaches, and how many pairs of cut and token reach beyond the cut."""
    recurrent = _made(lambda: Recurrent(D_MODEL, 8, cell="lstm")).double()
    padding = torch.zeros(1, num_tokens, dtype=torch.bool)
    x = _random(1, num_tokens, D_MODEL).requires_grad_()
    whole = recurrent(x, padding)
    crossing = 0
    for cut in range(1, num_tokens):
        _, (h, c) = recurrent.rnn(x[:, :cut])
        rest = recurrent.rnn(x[:, cut:], (h.detach(), c.detach()))[0]
        same = torch.allclose(rest, whole[:, cut:], rtol=0, atol=EXACT)
        (gradient,) = torch.autograd.grad(rest.sum(), x)
        reached = int((gradient[0, :cut] != 0).any(dim=-1).sum())
        crossing += reached if same else cut
    return reach(lambda tokens: recurrent(tokens, padding), num_tokens), crossing


def cnn_reach(depth: int, num_tokens: int) -> Tensor:
    """What `depth` convolutions of width 3, one upon the other, reach."""
    padding = torch.zeros(1, num_tokens, dtype=torch.bool)

    def stack() -> nn.ModuleList:
        widths = [D_MODEL] + [16] * depth
        return nn.ModuleList(Convolution(*pair, width=3) for pair in pairwise(widths))

    layers = _made(stack).double()

    def forward(x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x, padding)
        return x

    return reach(forward, num_tokens)


def _apart(num_tokens: int) -> Tensor:
    """How far each input stands behind each output: (T, T)."""
    position = torch.arange(num_tokens)
    return position[None, :] - position[:, None]


def _attention(window: int | None = None) -> MultiHeadSelfAttention:
    return _made(
        lambda: MultiHeadSelfAttention(D_MODEL, num_heads=NUM_HEADS, d_head=D_HEAD, window=window)
    )


def _made(build: Callable[[], Module]) -> Module:
    """A piece with the weights of seed 0, the caller's random numbers untouched."""
    with torch.random.fork_rng(devices=[]):
        module = build()
    init_weights(module, 0)
    return module


def _random(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _seconds(run: Callable[[], object]) -> float:
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


@contextmanager
def _one_thread() -> Iterator[None]:
    """Timings that other threads do not disturb."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


CLAIMS = [
    Claim(
        id="C18",
        source="K",
        text="heads as one tensor operation: a loop's numbers, and faster",
        check=c18,
    ),
    Claim(
        id="C23",
        source="K",
        text="QKV cost O(n), as a width-3 convolution; products O(n²); ±r O(n r)",
        check=c23,
    ),
    Claim(
        id="C27",
        source="K",
        text="attention reaches any distance; an RNN in n steps, L CNN layers ±L",
        check=c27,
    ),
]
