"""Claims about the cost and the reach of K's layer, 8 heads of 16 on width 128.

Shapes: B batch, T tokens, D model width, H heads, K head width.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils.benchmark import Timer
from torch.utils.flop_counter import FlopCounterMode

from attnexp.claims.finding import Finding, claim, judge_equality, max_abs_diff
from attnexp.claims.samples import draw_normal, random_attention, random_module
from attnexp.model.mixers import LSTM, Convolution
from attnexp.model.scores import DotProduct, attention_weights, grid
from attnexp.model.window import window_attention


@claim("C18", "K", "A loop over heads is very slow")
def heads_at_once_are_faster_than_a_loop() -> Finding:
    """A loop over heads that takes less than twice as long, forward and backward, on one thread."""
    layer = random_attention(128, 8, 16)
    x = draw_normal(32, 80, 128)
    difference = max_abs_diff((layer(x), loop_over_heads(layer, x)))
    layer.float().requires_grad_()
    names = {"loop": loop_over_heads, "layer": layer, "x": x.float()}
    seconds = []
    for call in ("loop(layer, x)", "layer(x)"):
        timer = Timer(f"{call}.sum().backward()", globals=names)
        seconds.append(min(timer.timeit(1).mean for _ in range(9)))
    ratio = seconds[0] / seconds[1]
    measured = f"a loop takes {ratio:.2f} times as long; its numbers are off by {difference:.0e}"
    return Finding("supported" if ratio >= 2 else "not supported", measured)


def loop_over_heads(layer: Any, x: Tensor) -> Tensor:
    """softmax(Q K^T / sqrt(K)) V, one head after the other, joined: (B, T, D) -> (B, T, H K)."""
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    by_head = [part.weight.chunk(layer.num_heads) for part in projections]
    outputs = []
    for weights in zip(*by_head, strict=True):
        q, k, v = (x @ weight.T for weight in weights)
        scores = q @ k.mT / math.sqrt(k.shape[-1])
        outputs.append(scores.softmax(dim=-1) @ v)
    return torch.cat(outputs, dim=-1)


@claim("C23", "K", "QKV cost O(n), as a convolution; products O(n²); ±r O(n·r)")
def projections_cost_n_and_products_n_squared() -> Finding:
    """FLOPs that grow otherwise from 256 to 512 tokens, or from a window of ±16 to ±32; or QKV that
    cost more or less than a convolution of width 3."""
    flops = []
    for num_tokens, radius in ((256, 16), (512, 32)):
        windows = [count_window(num_tokens, radius=8), count_window(512, radius=radius)]
        flops.append(count_parts(num_tokens) + windows)
    before, after = torch.tensor(flops).double()
    exponents = (after / before).log2()
    claimed = torch.tensor([1, 1, 2, 1, 1])
    qkv, _, products, by_tokens, by_radius = exponents.tolist()
    return judge_equality(
        (exponents, claimed),
        within=0.1,
        also=all(of_qkv == of_convolution for of_qkv, of_convolution, *_ in flops),
        shown=f"QKV n^{qkv:.2f}, products n^{products:.2f}, "
        f"±8 n^{by_tokens:.2f}, ±r r^{by_radius:.2f}",
    )


def count_parts(num_tokens: int) -> list[int]:
    """FLOPs, for one text, of QKV, a convolution of width 3, and the two products of attention."""
    layer = random_attention(128, 8, 16)
    convolution = random_module(Convolution(128, 128, kernel=3))
    score = DotProduct(8, 16, 16, 16)
    x = draw_normal(1, num_tokens, 128)
    padding = torch.zeros(1, num_tokens, dtype=torch.bool)
    q = draw_normal(1, 8, num_tokens, 16)
    return [
        count_flops(lambda: (layer.queries_and_keys(x), layer.v_proj(x))),
        count_flops(lambda: convolution(x, padding)),
        count_flops(lambda: attention_weights(score(q, q)) @ q),
    ]


def count_window(num_tokens: int, radius: int) -> int:
    """FLOPs, for one text, of the two products of attention within ± radius tokens."""
    q = draw_normal(1, 8, num_tokens, 16)
    return count_flops(lambda: window_attention(q, q, q, radius=radius))


def count_flops(compute: Callable[[], object]) -> int:
    """FLOPs of what a function computes."""
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        compute()
    return int(counter.get_total_flops())


@claim("C27", "K", "Attention reaches all tokens, an RNN back, L CNN layers ±L")
def attention_reaches_all_tokens_in_one_layer() -> Finding:
    """A token out of the claimed reach whose gradient is not 0, or one within it whose is."""
    x = draw_normal(1, 16, 128).requires_grad_()
    padding = torch.zeros(1, 16, dtype=torch.bool)
    query, key = grid(16)
    ahead = key - query  # (T outputs, T inputs)
    attention = random_attention(128, 8, 16)
    lstm = random_module(LSTM(128, 8))
    pairs = [
        (find_reach(attention(x), x), ahead < 16),
        (find_reach(lstm(x, padding), x), ahead <= 0),
    ]
    y = x
    for depth in (1, 2, 3):
        convolution = random_module(Convolution(y.shape[-1], 16, kernel=3))
        y = convolution(y, padding)
        pairs.append((find_reach(y, x), ahead.abs() <= depth))
    counts = [int(reached.sum()) for reached, _ in pairs]
    return judge_equality(*pairs, shown=str(counts))


def find_reach(y: Tensor, x: Tensor) -> Tensor:
    """Which tokens of x (1, T, D) each token of y depends on, boolean: (T outputs, T inputs)."""
    rows = []
    for output in y[0].sum(dim=-1):
        (gradient,) = torch.autograd.grad(output, x, retain_graph=True)
        rows.append(gradient[0].any(dim=-1))  # of (T inputs, D)
    return torch.stack(rows)
