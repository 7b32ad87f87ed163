"""Claims about the cost and the reach of K's layer, 8 heads of 16 on width 128.

The docstring of a check is the result that would refute its claim.

Shapes: B batch, T tokens, D model width, H heads, K head width.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

from attnexp.claims.finding import Finding, claim, judge_equality
from attnexp.claims.samples import draw_normal, no_padding, random_attention, random_module
from attnexp.model.mixers import LSTM, Convolution
from attnexp.model.scores import DotProduct, attention_weights
from attnexp.model.window import window_attention


@claim("C18", "K", "All heads in one operation equal a loop over heads")
def heads_at_once_equal_a_loop() -> Finding:
    """An output other than that of a loop; seconds, of a forward and a backward pass on one thread,
    do not decide."""
    layer = random_attention(128, 8, 16)
    x = draw_normal(32, 80, 128)
    outputs = (layer(x), loop_over_heads(layer, x))
    names = {"loop": loop_over_heads, "layer": layer.float().requires_grad_(), "x": x.float()}
    of_loop = Timer("loop(layer, x).sum().backward()", globals=names)
    at_once = Timer("layer(x).sum().backward()", globals=names)
    ratio = of_loop.timeit(9).mean / at_once.timeit(9).mean
    return judge_equality(outputs, shown=f"a loop takes {ratio:.2f} times as long")


def loop_over_heads(layer: Any, x: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(K)) V, one head after the other, joined: (B, T, D) -> (B, T, H K)."""
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    weights = [projection.weight.chunk(layer.num_heads) for projection in projections]
    outputs = []
    for w_q, w_k, w_v in zip(*weights, strict=True):
        q = x @ w_q.T
        k = x @ w_k.T
        v = x @ w_v.T
        scores = q @ k.mT / math.sqrt(k.shape[-1])
        outputs.append(scores.softmax(dim=-1) @ v)
    return torch.cat(outputs, dim=-1)


@claim("C23", "K", "QKV cost O(n), as a convolution; products O(n²); ±r O(n·r)")
def projections_cost_n_and_products_n_squared() -> Finding:
    """FLOPs that grow otherwise from 256 to 512 tokens, or from a window of ±16 to ±32; or QKV that
    cost more or less than a convolution of width 3."""
    before = _count_flops(256, radius=16)
    after = _count_flops(512, radius=32)
    exponents = (after / before).log2()
    qkv, products, by_tokens, by_radius, _ = exponents.tolist()
    return judge_equality(
        (exponents, torch.tensor([1.0, 2.0, 1.0, 1.0, 1.0])),
        within=0.1,
        also=bool(before[0] == before[-1] and after[0] == after[-1]),
        shown=f"QKV n^{qkv:.2f}, products n^{products:.2f}, "
        f"±8 n^{by_tokens:.2f}, ±r r^{by_radius:.2f}",
    )


def _count_flops(num_tokens: int, radius: int) -> Tensor:
    """FLOPs of queries, keys and values of one text, of the two products, of these within ±8 and,
    in 512 tokens, within ± radius; of a convolution of width 3: (5,)."""
    layer = random_attention(128, 8, 16)
    convolution = random_module(Convolution, 128, 128, kernel=3)
    score = DotProduct(8, 16, 16, 16)
    x = draw_normal(1, num_tokens, 128)
    q = draw_normal(1, 8, num_tokens, 16)
    long_q = draw_normal(1, 8, 512, 16)
    computations: list[Callable[[], object]] = [
        lambda: (layer.queries_and_keys(x), layer.v_proj(x)),
        lambda: attention_weights(score(q, q)) @ q,
        lambda: window_attention(q, q, q, radius=8),
        lambda: window_attention(long_q, long_q, long_q, radius=radius),
        lambda: convolution(x, no_padding(1, num_tokens)),
    ]
    counts = []
    for compute in computations:
        with FlopCounterMode(display=False) as counter, torch.inference_mode():
            compute()
        counts.append(counter.get_total_flops())
    return torch.tensor(counts).double()


@claim("C27", "K", "Attention reaches all tokens, an RNN back, L CNN layers ±L")
def attention_reaches_all_tokens_in_one_layer() -> Finding:
    """A token out of the claimed reach whose gradient is not 0, or one within it whose is."""
    x = draw_normal(1, 16, 128).requires_grad_()
    padding = no_padding(1, 16)
    place = torch.arange(16)
    ahead = place[None, :] - place[:, None]  # (T outputs, T inputs)
    of_attention = random_attention(128, 8, 16)(x)
    of_lstm = random_module(LSTM, 128, 8)(x, padding)
    pairs = [
        (_find_reach(of_attention, x), ahead < 16),
        (_find_reach(of_lstm, x), ahead <= 0),
    ]
    y = x
    for depth in (1, 2, 3):
        convolution = random_module(Convolution, y.shape[-1], 16, kernel=3)
        y = convolution(y, padding)
        pairs.append((_find_reach(y, x), ahead.abs() <= depth))
    counts = [int(reached.sum()) for reached, _ in pairs]
    return judge_equality(*pairs, shown=str(counts))


def _find_reach(y: Tensor, x: Tensor) -> Tensor:
    """Which tokens of x (1, T, D) each token of y depends on, boolean: (T outputs, T inputs)."""
    rows = []
    for output in y[0].sum(dim=-1):
        (gradient,) = torch.autograd.grad(output, x, retain_graph=True)
        rows.append((gradient[0] != 0).any(dim=-1))
    return torch.stack(rows)
