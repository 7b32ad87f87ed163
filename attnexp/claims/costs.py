"""Claims about the cost and the reach of K's layer, 8 heads of 16 on width 128: C18, C23, C27.

Shapes: B batch, T tokens, D model width, H heads, K head width.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

from attnexp.claims.finding import Finding, judge_equality
from attnexp.claims.samples import draw_normal, no_padding, random_attention, random_module
from attnexp.model.mixers import LSTM, Convolution
from attnexp.model.scores import DotProduct, attention_weights
from attnexp.model.window import window_attention

WIDTH = 128
HEADS = 8
D_HEAD = 16


def heads_at_once_equal_a_loop() -> Finding:
    """C18: seconds, of a forward and a backward pass on one thread, are shown and do not decide."""
    layer = random_attention(WIDTH, HEADS, D_HEAD)
    x = draw_normal(32, 80, WIDTH)
    pairs = [(layer(x), loop_over_heads(layer, x))]
    names = {"layer": layer.float().requires_grad_(), "x": x.float(), "loop": loop_over_heads}
    of_loop = Timer("loop(layer, x).sum().backward()", globals=names).timeit(9).mean
    at_once = Timer("layer(x).sum().backward()", globals=names).timeit(9).mean
    return judge_equality(pairs, shown=f"a loop takes {of_loop / at_once:.2f} times as long")


def loop_over_heads(layer: Any, x: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(K)) V, one head after the other, joined: (B, T, D) -> (B, T, H K)."""
    weights_q = layer.q_proj.weight.chunk(layer.num_heads)
    weights_k = layer.k_proj.weight.chunk(layer.num_heads)
    weights_v = layer.v_proj.weight.chunk(layer.num_heads)
    outputs = []
    for w_q, w_k, w_v in zip(weights_q, weights_k, weights_v, strict=True):
        q = x @ w_q.T
        k = x @ w_k.T
        v = x @ w_v.T
        scores = q @ k.mT / math.sqrt(k.shape[-1])
        outputs.append(scores.softmax(dim=-1) @ v)
    return torch.cat(outputs, dim=-1)


def projections_cost_n_and_products_n_squared() -> Finding:
    """C23: exponents of FLOPs from 1,024 to 2,048 tokens, and from a window of ±64 to ±128."""
    of_projections = growth(flops_of_projections, 1024)
    of_products = growth(flops_of_products, 1024)
    of_tokens = growth(lambda num_tokens: flops_of_window(num_tokens, radius=8), 1024)
    of_radius = growth(lambda radius: flops_of_window(2048, radius=radius), 64)
    as_convolution = all(
        flops_of_projections(num_tokens) == flops_of_convolution(num_tokens)
        for num_tokens in (1024, 2048)
    )
    exponents = torch.tensor([of_projections, of_products, of_tokens, of_radius])
    claimed = torch.tensor([1.0, 2.0, 1.0, 1.0])
    return judge_equality(
        [(exponents, claimed)],
        within=0.1,
        also=as_convolution,
        shown=f"QKV n^{of_projections:.2f}, products n^{of_products:.2f}, "
        f"±8 n^{of_tokens:.2f}, ±r r^{of_radius:.2f}",
    )


def growth(flops: Callable[[int], int], size: int) -> float:
    """Exponent with which FLOPs grow from a size to twice the size."""
    return math.log2(flops(2 * size) / flops(size))


def flops_of_projections(num_tokens: int) -> int:
    """FLOPs that make queries, keys and values of one text."""
    layer = random_attention(WIDTH, HEADS, D_HEAD)
    x = draw_normal(1, num_tokens, WIDTH)
    return count_flops(layer.queries_and_keys, x) + count_flops(layer.v_proj, x)


def flops_of_convolution(num_tokens: int) -> int:
    """FLOPs of a convolution of width 3 on one text."""
    convolution = random_module(Convolution, WIDTH, WIDTH, kernel=3)
    x = draw_normal(1, num_tokens, WIDTH)
    return count_flops(convolution, x, no_padding(1, num_tokens))


def flops_of_products(num_tokens: int) -> int:
    """FLOPs of the two products with all tokens: scores, and weights times values."""
    score = DotProduct(HEADS, D_HEAD, D_HEAD, D_HEAD)
    q = draw_normal(1, HEADS, num_tokens, D_HEAD)
    return count_flops(lambda: attention_weights(score(q, q)) @ q)


def flops_of_window(num_tokens: int, *, radius: int) -> int:
    """FLOPs of the two products with the tokens within a radius."""
    q = draw_normal(1, HEADS, num_tokens, D_HEAD)
    return count_flops(lambda: window_attention(q, q, q, radius=radius))


def count_flops(run: Callable[..., object], *args: Any) -> int:
    """Floating-point operations of a call."""
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        run(*args)
    return int(counter.get_total_flops())


def attention_reaches_all_tokens_in_one_layer() -> Finding:
    """C27: a token reaches an output whose gradient in it is not zero."""
    x = draw_normal(1, 16, WIDTH).requires_grad_()
    ahead = torch.arange(16)[None, :] - torch.arange(16)[:, None]  # (T outputs, T inputs)

    attention = random_attention(WIDTH, HEADS, D_HEAD)
    lstm = random_module(LSTM, WIDTH, 8)
    pairs = [
        (find_reach(attention(x), x), ahead < 16),
        (find_reach(lstm(x, no_padding(1, 16)), x), ahead <= 0),
    ]
    y = x
    for depth in (1, 2, 3):
        convolution = random_module(Convolution, y.shape[-1], 16, kernel=3)
        y = convolution(y, no_padding(1, 16))
        pairs.append((find_reach(y, x), ahead.abs() <= depth))
    counts = [int(reached.sum()) for reached, _ in pairs]
    return judge_equality(pairs, shown=str(counts))


def find_reach(y: Tensor, x: Tensor) -> Tensor:
    """Which tokens of x (1, T, D) each token of y depends on, boolean: (T outputs, T inputs)."""
    rows = []
    for output in y[0].sum(dim=-1):
        (gradient,) = torch.autograd.grad(output, x, retain_graph=True)
        rows.append((gradient[0] != 0).any(dim=-1))
    return torch.stack(rows)
