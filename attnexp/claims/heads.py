"""C18: all heads at once against one after the other.

Shapes: B batch, T tokens, D width, H heads, K head width.
"""

import math
import statistics
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from attnexp.claims.claim import Claim, Finding
from attnexp.claims.layers import D_MODEL, k_attention, one_thread, seconds_of
from attnexp.claims.measure import EXACT, normal
from attnexp.config.schema import Device, TrainConfig
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.training import device


def c18(_results: Path) -> Finding:
    """C18: H heads as one tensor operation give what a loop over heads gives, and faster.

    The numbers decide, in float64. Speed is a forward and backward pass over K's batch of 32
    reviews of 80 tokens, and over one review, on one thread, in pairs of loop and tensor run in
    turn. It is called faster where at least three of four pairs say so, and the line says where it
    is not; a timing decides no claim.
    """
    difference = heads_difference()
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


def heads_difference() -> float:
    """The largest difference between the layer's output and a loop's, at K's widths (C18)."""
    attention, x = k_attention().double(), normal(4, 80, D_MODEL)
    with torch.inference_mode():
        return float((attention(x) - loop_over_heads(x, by_head(attention))).abs().max())


def loop_over_tensor(batch: int, *, num_pairs: int = 21) -> list[float]:
    """Seconds of a loop over heads by seconds of one tensor operation, pair by pair (C18)."""
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


CLAIMS = [
    Claim("C18", "K", "heads as one operation give a loop's numbers (speed: shown only)", c18),
]
