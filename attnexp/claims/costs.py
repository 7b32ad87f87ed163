"""Claims about the cost and the reach of a layer: C18, C23, C27.

Shapes: B batch, T or n tokens, D model width, H heads, K head width, r radius of a window.
"""

import math
import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils.flop_counter import FlopCounterMode

from attnexp.claims.claim import Finding, claim
from attnexp.claims.measure import (
    D_HEAD,
    D_MODEL,
    EXACT,
    NUM_HEADS,
    initialized,
    k_attention,
    max_abs_diff,
    normal,
    one_thread,
    seconds_of,
)
from attnexp.config.schema import Device, TrainConfig
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.mixers import LSTM, Convolution
from attnexp.training import device


@claim("C18", "K")
def c18() -> Finding:
    """All heads in one operation equal a loop over heads (speed: shown only).

    The numbers decide, in float64. Speed is a forward and backward pass over K's batch of 32
    reviews of 80 tokens, and over one review, on one thread, in pairs of loop and tensor run in
    turn. The tensor operation is called faster if at least three of four pairs say so; otherwise
    the line names the batch sizes at which it is not. Timings do not decide the claim.
    """
    attention, x = k_attention().double(), normal(4, 80, D_MODEL)
    with torch.inference_mode():
        difference = max_abs_diff(attention(x), loop_over_heads(x, by_head(attention)))
    ratios = {batch: loop_over_tensor(batch) for batch in (32, 1)}
    medians = ", ".join(
        f"{statistics.median(pairs):.2f} at batch {batch}" for batch, pairs in ratios.items()
    )
    slow = [str(batch) for batch, pairs in ratios.items() if not is_faster(pairs)]
    speed = f"NOT faster at {', '.join(slow)}" if slow else "faster"
    return Finding.exact(
        difference <= EXACT,
        f"max |diff| {difference:.0e} (tol {EXACT:g}); loop/tensor {medians} "
        f"({len(ratios[1])} pairs), {speed}",
    )


def loop_over_tensor(batch: int, *, num_pairs: int = 21) -> list[float]:
    """Seconds of a loop over heads divided by seconds of one tensor operation, pair by pair."""
    # As in a run: otherwise the larger score tensor pays the kernel for fresh pages every time.
    device.prepare(TrainConfig(device=Device.cpu))
    attention, x = k_attention(), normal(batch, 80, D_MODEL).float()
    heads = [[weight.detach().requires_grad_() for weight in head] for head in by_head(attention)]

    def loop() -> None:
        loop_over_heads(x, heads).sum().backward()

    def tensor() -> None:
        attention(x).sum().backward()

    ratios = []
    with one_thread():
        for pair in range(-2, num_pairs):  # the first two warm up
            order = (loop, tensor) if pair % 2 else (tensor, loop)
            seconds = {passes: seconds_of(passes) for passes in order}
            ratios.append(seconds[loop] / seconds[tensor])
    return ratios[2:]


def is_faster(ratios: Sequence[float]) -> bool:
    """Whether the tensor operation is faster in at least three of four pairs."""
    return statistics.quantiles(ratios, n=4)[0] > 1


def by_head(attention: MultiHeadSelfAttention) -> list[Sequence[Tensor]]:
    """W_Q, W_K and W_V of each head, (K, D) each."""
    projections = (attention.q_proj, attention.k_proj, attention.v_proj)
    return list(zip(*(p.weight.chunk(attention.num_heads) for p in projections), strict=True))


def loop_over_heads(x: Tensor, heads: Sequence[Sequence[Tensor]]) -> Tensor:
    """softmax(Q K^T / sqrt(K)) V, one head after the other, joined: (B, T, D) -> (B, T, H K)."""
    outputs = []
    for w_q, w_k, w_v in heads:
        q, k, v = x @ w_q.T, x @ w_k.T, x @ w_v.T
        outputs.append(((q / math.sqrt(len(w_q))) @ k.mT).softmax(dim=-1) @ v)
    return torch.cat(outputs, dim=-1)


EXPONENT_TOLERANCE = 0.1
"""Largest allowed difference between a fitted exponent and the claimed one."""

SIZES = (128, 256, 512, 1024, 2048)
"""Numbers of tokens, each twice the previous one. The smallest must exceed one block of the window
with its surroundings (2 r + max(r, 16) = 32 keys here): below, the window is the whole map."""
NUM_FITTED = 3
"""Exponents are fitted at this many of the largest sizes: below, the projections' share shows."""
RADIUS = 8
RADII = (16, 32, 64, 128)
"""From 16 on, where a block has r queries and 3 r keys, so that padding a block costs nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Curve:
    """Cost of one layer of K's widths on one text, as tokens or the radius grow."""

    sizes: tuple[int, ...]
    """Numbers of tokens, or radii."""
    projections: tuple[int, ...]
    """Floating-point operations of Q, K and V in a forward pass."""
    products: tuple[int, ...]
    """Floating-point operations of q k^T and of the weights times v."""
    elements: tuple[int, ...]
    """Numbers kept for the backward pass, without the layer's weights."""
    seconds: tuple[float, ...]
    """Median seconds of a forward pass on one thread."""

    def exponent(self, cost: Sequence[float]) -> float:
        """Exponent with which a cost grows: least squares in logs, at the largest sizes."""
        n, found = np.log(self.sizes[-NUM_FITTED:]), np.log(cost[-NUM_FITTED:])
        return float(np.polyfit(n, found, 1)[0])


@dataclass(frozen=True, kw_only=True, slots=True)
class Curves:
    """Measurements for C23."""

    full: Curve
    window: Curve
    """Curve of the layer restricted to ±`RADIUS`."""
    radii: Curve
    """Curve of the restricted layer over the radius, at the largest number of tokens."""
    convolution: tuple[int, ...]
    """Floating-point operations of a width-3 convolution of equal widths, over tokens."""


@claim("C23", "K")
def c23() -> Finding:
    """QKV cost O(n), as a width-3 convolution; products O(n²); ±r O(n r).

    Operations and numbers kept for the backward pass decide, operations alone over r; time is
    shown and does not decide.
    """
    return judge(curves())


def curves(*, sizes: tuple[int, ...] = SIZES, repeats: int = 5) -> Curves:
    """Measure C23, in about 6 s on one core at the default sizes."""
    longest = sizes[-1]
    return Curves(
        full=_curve(sizes, [(k_attention(), n) for n in sizes], repeats),
        window=_curve(sizes, [(k_attention(RADIUS), n) for n in sizes], repeats),
        radii=_curve(RADII, [(k_attention(radius), longest) for radius in RADII], repeats),
        convolution=tuple(_convolution_flops(n) for n in sizes),
    )


def judge(found: Curves) -> Finding:
    """The conclusion on C23 from its measurements."""
    full, window, radii = found.full, found.window, found.radii
    exponents = {  # name: (fitted, claimed)
        "QKV": (full.exponent(full.projections), 1),
        "full": (full.exponent(full.products), 2),
        "full memory": (full.exponent(full.elements), 2),
        "window": (window.exponent(window.products), 1),
        "window memory": (window.exponent(window.elements), 1),
        "radius": (radii.exponent(radii.products), 1),
    }
    close = all(abs(one - other) <= EXPONENT_TOLERANCE for one, other in exponents.values())
    e = {name: f"{exponent:.2f}" for name, (exponent, _) in exponents.items()}
    return Finding.exact(
        close and full.projections == found.convolution,
        f"QKV n^{e['QKV']}, conv x {full.projections[-1] / found.convolution[-1]:.2f}; "
        f"full n^{e['full']}, memory {e['full memory']}, time {full.exponent(full.seconds):.1f}; "
        f"window n^{e['window']} r^{e['radius']}, {e['window memory']}, "
        f"{window.exponent(window.seconds):.1f} (tol {EXPONENT_TOLERANCE})",
    )


def _curve(
    sizes: tuple[int, ...], cases: list[tuple[MultiHeadSelfAttention, int]], repeats: int
) -> Curve:
    """cases: for each size a layer and its number of tokens."""
    flops, elements, seconds = [], [], []
    for attention, num_tokens in cases:
        x = normal(1, num_tokens, D_MODEL).float()
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


def _median_seconds(attention: MultiHeadSelfAttention, x: Tensor, repeats: int) -> float:
    with one_thread(), torch.inference_mode():
        attention(x)  # warms up
        return statistics.median(seconds_of(lambda: attention(x)) for _ in range(repeats))


def _flops(layer: nn.Module, *inputs: Tensor) -> tuple[int, int]:
    """Floating-point operations of a forward pass: those of the projections, and all others."""
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        layer(*inputs)
    projections = sum(
        sum(counts.values())
        for module, counts in counter.get_flop_counts().items()
        if module.endswith("_proj")
    )
    return int(projections), int(counter.get_total_flops() - projections)


def _convolution_flops(num_tokens: int) -> int:
    convolution = initialized(lambda: Convolution(D_MODEL, NUM_HEADS * D_HEAD, kernel=3))
    padding = torch.zeros(1, num_tokens, dtype=torch.bool)
    return sum(_flops(convolution, normal(1, num_tokens, D_MODEL).float(), padding))


def _elements_kept(attention: MultiHeadSelfAttention, x: Tensor) -> int:
    """Numbers kept between forward and backward, each storage counted once."""
    kept: dict[int, int] = {}
    weights = {parameter.untyped_storage().data_ptr() for parameter in attention.parameters()}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in weights:
            kept[storage.data_ptr()] = storage.nbytes() // tensor.itemsize
        return tensor

    with saved_tensors_hooks(keep, lambda tensor: tensor):
        y = attention(x)  # while y lives, no storage is freed and counted as another
    del y
    return sum(kept.values())


@claim("C27", "K")
def c27() -> Finding:
    """Attention reaches any distance, an RNN in n steps, L CNN layers ±L.

    A token reaches an output if the output's gradient in it is not zero. An LSTM takes n steps to
    reach back n: cut between any two tokens, it is the same function as long as its state is handed
    on, and it reaches nothing beyond the cut if the state's gradient is not.
    """
    num_tokens = 16
    position = torch.arange(num_tokens)
    offset = position[None, :] - position[:, None]  # (T outputs, T inputs): input minus output
    attention = reach(k_attention().double(), num_tokens)
    lstm, crossing = lstm_reach(num_tokens)
    layers = {depth: cnn_reach(depth, num_tokens) for depth in (1, 2, 3)}
    holds = (
        bool(attention.all())
        and torch.equal(lstm, offset <= 0)
        and crossing == 0
        and all(torch.equal(seen, offset.abs() <= depth) for depth, seen in layers.items())
    )
    widest = ", ".join(f"±{int(offset[seen].abs().max())}" for seen in layers.values())
    return Finding.exact(
        holds,
        f"attention {int(attention.sum())} of {attention.numel()} pairs; LSTM {int(lstm.sum())} "
        f"({int(lstm.triu(1).sum())} ahead, {crossing} past a cut); 1, 2, 3 CNN layers {widest}",
    )


def reach(layer: Callable[[Tensor], Tensor], num_tokens: int) -> Tensor:
    """Which tokens each output depends on at a random input: (T outputs, T inputs), boolean."""
    x = normal(1, num_tokens, D_MODEL).requires_grad_()
    outputs = layer(x)[0].sum(dim=-1)
    gradients = [torch.autograd.grad(y, x, retain_graph=True)[0] for y in outputs]
    return (torch.cat(gradients) != 0).any(dim=-1)


def lstm_reach(num_tokens: int) -> tuple[Tensor, int]:
    """The reach of an LSTM, and how many pairs of cut and token reach beyond the cut."""
    recurrent = initialized(lambda: LSTM(D_MODEL, 8)).double()
    padding = torch.zeros(1, num_tokens, dtype=torch.bool)
    x = normal(1, num_tokens, D_MODEL).requires_grad_()
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
    """The reach of `depth` stacked convolutions of width 3."""
    padding = torch.zeros(1, num_tokens, dtype=torch.bool)
    widths = [D_MODEL] + [16] * depth
    layers = initialized(
        lambda: nn.ModuleList(Convolution(*pair, kernel=3) for pair in pairwise(widths))
    ).double()

    def forward(x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x, padding)
        return x

    return reach(forward, num_tokens)
