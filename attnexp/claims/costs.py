"""Claims about the cost and the reach of K's layer, 8 heads of 16 on width 128.

Shapes: B batch, T tokens, D model width, H heads, K head width.
"""

import math
from collections.abc import Callable
from functools import partial
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

WIDTH = 128
HEADS = 8
D_HEAD = 16


@claim("C18", "K", "All heads in one operation equal a loop over heads")
def heads_at_once_equal_a_loop() -> Finding:
    """Seconds, of a forward and a backward pass on one thread, are shown and do not decide."""
    layer = random_attention(WIDTH, HEADS, D_HEAD)
    x = draw_normal(32, 80, WIDTH)
    pair = (layer(x), loop_over_heads(layer, x))
    names = {"layer": layer.float().requires_grad_(), "x": x.float(), "loop": loop_over_heads}
    of_loop = Timer("loop(layer, x).sum().backward()", globals=names).timeit(9).mean
    at_once = Timer("layer(x).sum().backward()", globals=names).timeit(9).mean
    return judge_equality(pair, shown=f"a loop takes {of_loop / at_once:.2f} times as long")


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
    """Exponents of FLOPs from 1,024 to 2,048 tokens, and from a window of ±64 to ±128."""
    of_projections = growth(project, 1024)
    of_products = growth(attend, 1024)
    of_tokens = growth(partial(attend_in_window, radius=8), 1024)
    of_radius = growth(lambda radius: attend_in_window(2048, radius), 64)
    as_convolution = all(
        count_flops(project, size) == count_flops(convolve, size) for size in (1024, 2048)
    )
    exponents = torch.tensor([of_projections, of_products, of_tokens, of_radius])
    return judge_equality(
        (exponents, torch.tensor([1.0, 2.0, 1.0, 1.0])),
        within=0.1,
        also=as_convolution,
        shown=f"QKV n^{of_projections:.2f}, products n^{of_products:.2f}, "
        f"±8 n^{of_tokens:.2f}, ±r r^{of_radius:.2f}",
    )


def growth(compute: Callable[[int], object], size: int) -> float:
    """Exponent with which FLOPs grow from a size to twice the size."""
    return math.log2(count_flops(compute, 2 * size) / count_flops(compute, size))


def count_flops(compute: Callable[[int], object], size: int) -> int:
    """Floating-point operations of a computation of this size."""
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        compute(size)
    return int(counter.get_total_flops())


def project(num_tokens: int) -> None:
    """Make queries, keys and values of one text."""
    layer = random_attention(WIDTH, HEADS, D_HEAD)
    x = draw_normal(1, num_tokens, WIDTH)
    layer.queries_and_keys(x)
    layer.v_proj(x)


def convolve(num_tokens: int) -> None:
    """Apply a convolution of width 3 to one text."""
    convolution = random_module(Convolution, WIDTH, WIDTH, kernel=3)
    convolution(draw_normal(1, num_tokens, WIDTH), no_padding(1, num_tokens))


def attend(num_tokens: int) -> None:
    """Compute the two products with all tokens: scores, and weights times values."""
    q = draw_normal(1, HEADS, num_tokens, D_HEAD)
    score = DotProduct(HEADS, D_HEAD, D_HEAD, D_HEAD)
    attention_weights(score(q, q)) @ q


def attend_in_window(num_tokens: int, radius: int) -> None:
    """Compute the two products with the tokens within a radius."""
    q = draw_normal(1, HEADS, num_tokens, D_HEAD)
    window_attention(q, q, q, radius=radius)


@claim("C27", "K", "Attention reaches all tokens, an RNN back, L CNN layers ±L")
def attention_reaches_all_tokens_in_one_layer() -> Finding:
    """A token reaches an output whose gradient in it is not zero."""
    x = draw_normal(1, 16, WIDTH).requires_grad_()
    padding = no_padding(1, 16)
    ahead = torch.arange(16)[None, :] - torch.arange(16)[:, None]  # (T outputs, T inputs)
    of_attention = random_attention(WIDTH, HEADS, D_HEAD)(x)
    of_lstm = random_module(LSTM, WIDTH, 8)(x, padding)
    pairs = [(find_reach(of_attention, x), ahead < 16), (find_reach(of_lstm, x), ahead <= 0)]
    y = x
    for depth in (1, 2, 3):
        y = random_module(Convolution, y.shape[-1], 16, kernel=3)(y, padding)
        pairs.append((find_reach(y, x), ahead.abs() <= depth))
    counts = [int(reached.sum()) for reached, _ in pairs]
    return judge_equality(*pairs, shown=str(counts))


def find_reach(y: Tensor, x: Tensor) -> Tensor:
    """Which tokens of x (1, T, D) each token of y depends on, boolean: (T outputs, T inputs)."""
    rows = []
    for output in y[0].sum(dim=-1):
        (gradient,) = torch.autograd.grad(output, x, retain_graph=True)
        rows.append((gradient[0] != 0).any(dim=-1))
    return torch.stack(rows)
