"""Claims that numbers settle at once, mostly on random inputs and modules in float64.

Shapes: B batch, T tokens, D model width, H heads, Dh head width. K: 8 heads of 16 on 128."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.benchmark import Timer

from attnexp.claims.finding import Finding, claim, judge_equality, judge_parts, max_abs_diff
from attnexp.config.compose import compose
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.mixers import LSTM, Convolution
from attnexp.model.positions import SinusoidalPosition, sinusoidal_table
from attnexp.model.scores import DotProduct, attention_weights, grid
from attnexp.model.window import window_attention
from attnexp.network.build import build_model
from attnexp.network.cost import count_flops


def draw_normal(*shape: int, seed: int = 0) -> Tensor:
    """Independent N(0, 1) numbers."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def random_module(module: nn.Module) -> Any:
    """The module with random weights, large enough for attention far from uniform."""
    module.double().eval().requires_grad_(False)
    for seed, weight in enumerate(module.parameters(), start=1000):  # inputs have small seeds
        standard_normal = draw_normal(*weight.shape, seed=seed)
        weight.copy_(standard_normal / weight.shape[-1] ** 0.5)
    return module


def random_attention(d_input: int = 128, heads: int = 8, d_head: int = 16) -> Any:
    """Multi-head self-attention with random weights, as large as K's layer unless told."""
    return random_module(MultiHeadSelfAttention(d_input, num_heads=heads, d_head=d_head))


@claim("C04", "M, K", "Attention is permutation-equivariant without PE, not with it")
def attention_without_positions_is_equivariant() -> Finding:
    """Outputs that do not swap places when two tokens do; with PE a mean that stays the same."""
    layer = random_attention(8, 2, 4)
    add_positions = SinusoidalPosition(7, 8)
    order = [1, 0, 2, 3, 4, 5, 6]
    x = draw_normal(1, 7, 8)
    texts = torch.cat([x, x[:, order]])
    output, swapped_output = layer(texts)
    positioned = add_positions(texts, torch.arange(7))
    mean, swapped_mean = layer(positioned).mean(dim=1)
    change = max_abs_diff((mean, swapped_mean))
    return judge_equality(
        (swapped_output, output[order]),
        also=change > 1e-3,
        shown=f"the mean with PE by {change:.2g}",
    )


@claim("C06", "P", "√d before PE makes positions weigh more; a step has its own PE")
def scaled_embeddings_make_positions_weigh_more() -> Finding:
    """Each part by itself: positions whose norm, as a multiple of that of words, is no larger with
    √d than without it (by arithmetic always so); two steps with the same PE."""
    embedding: Any = build_model(compose([])).embedding
    words = embedding.words.detach()
    d_model = words.shape[1]
    positions = sinusoidal_table(80, d_model)
    position_norms = positions.norm(dim=1)
    word_norms = words.norm(dim=1)
    ratio = float(position_norms.mean() / word_norms.mean())
    scaled_ratio = ratio / d_model**0.5
    weight = f"norm of positions over that of words {ratio:.1f}, with √d {scaled_ratio:.1f}"
    num_own = len(positions.unique(dim=0))
    steps = f"own PE at {num_own} of 80 steps"
    return judge_parts({weight: scaled_ratio > ratio, steps: num_own == 80})


@claim("C12", "N, K", "Var(q·k) = d_k, over √d_k 1; else softmax saturates, gradients shrink")
def softmax_saturates_without_scaling() -> Finding:
    """Each part by itself, at any d_k of 4, 16, 64: a variance 5 % off; a largest weight without
    √d_k no larger than with it; a gradient without √d_k no smaller than with it."""
    d_keys = torch.tensor([4, 16, 64])
    unscaled = measure_softmax(d_keys, scale=False)
    scaled = measure_softmax(d_keys, scale=True)
    errors = torch.stack([unscaled[0] / d_keys, scaled[0]]) - 1
    error = errors.abs().max()
    _, peak_ratios, norm_ratios = unscaled / scaled
    parts = {
        f"at d_k = 4, 16, 64: variance within {error:.1%}": error <= 0.05,
        f"peak {format_ratios(peak_ratios)}": peak_ratios.min() > 1,
        f"gradient's norm {format_ratios(norm_ratios)}": norm_ratios.max() < 1,
    }
    return judge_parts(parts)


def format_ratios(ratios: Tensor) -> str:
    """Such as `×2.6, ×4.7`."""
    return ", ".join(f"×{ratio:.2g}" for ratio in ratios)


def measure_softmax(d_keys: Tensor, *, scale: bool) -> Tensor:
    """Variance of scores, mean largest weight and mean norm of a row's gradient, by d_k: (3, n)."""
    columns = []
    gradient_of_weights = draw_normal(400, 50, seed=2)  # independent of q and k
    for d_key in d_keys.tolist():
        q = draw_normal(20_000, 1, 1, d_key)
        k = draw_normal(20_000, 1, 1, d_key, seed=1)
        score = DotProduct(1, d_key, d_key, d_key, scale=scale)
        scores = score(q, k).view(400, 50).requires_grad_()
        weights = attention_weights(scores)
        (gradient,) = torch.autograd.grad(weights, scores, gradient_of_weights)
        peaks = weights.amax(dim=-1)
        norms = gradient.norm(dim=-1)
        columns.append(torch.stack([scores.var(), peaks.mean(), norms.mean()]).detach())
    return torch.stack(columns, dim=1)


@claim("C18", "K", "A loop over heads is very slow")
def heads_at_once_are_faster_than_a_loop() -> Finding:
    """A loop over heads that takes less than twice as long, forward and backward, on one thread."""
    layer = random_attention()
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
    """softmax(q k^T / sqrt(Dh)) v, one head after the other, joined: (B, T, D) -> (B, T, H Dh)."""
    projections = (layer.q_proj, layer.k_proj, layer.v_proj)
    by_head = [part.weight.chunk(layer.num_heads) for part in projections]
    outputs = []
    for weights in zip(*by_head, strict=True):
        q, k, v = [x @ weight.T for weight in weights]
        scores = q @ k.mT / k.shape[-1] ** 0.5
        outputs.append(scores.softmax(dim=-1) @ v)
    return torch.cat(outputs, dim=-1)


@claim("C23", "K", "QKV cost O(n), as a convolution; products O(n²); ±r O(n·r)")
def projections_cost_n_and_products_n_squared() -> Finding:
    """FLOPs that grow otherwise from 256 to 512 tokens, or from a window of ±16 to ±32; or QKV that
    cost more or less than a convolution of width 3."""
    claimed = {"QKV": 2, "products": 4, "±8": 2, "±r": 2}  # times as many when n and r double
    before = count_parts(256, radius=16)
    after = count_parts(512, radius=32)
    growth = [after[name] / before[name] for name in claimed]
    shown = [f"{name} ×{factor:.2f}" for name, factor in zip(claimed, growth, strict=True)]
    return judge_equality(
        (torch.tensor(growth), torch.tensor([*claimed.values()])),
        within=0.1,
        also=all(flops["QKV"] == flops["convolution"] for flops in (before, after)),
        shown=", ".join(shown),
    )


def count_parts(num_tokens: int, radius: int) -> dict[str, int]:
    """FLOPs for one text; those of ±r, a window of this radius, for one of 512 tokens."""
    layer = random_attention()
    convolution = random_module(Convolution(128, 128, kernel=3))
    score = DotProduct(8, 16, 16, 16)
    x = draw_normal(1, num_tokens, 128)
    padding = torch.zeros(1, num_tokens, dtype=torch.bool)
    q = draw_normal(1, 8, num_tokens, 16)
    q_512 = draw_normal(1, 8, 512, 16)
    return {
        "QKV": count_flops(lambda: (layer.queries_and_keys(x), layer.v_proj(x))),
        "convolution": count_flops(lambda: convolution(x, padding)),
        "products": count_flops(lambda: attention_weights(score(q, q)) @ q),
        "±8": count_flops(lambda: window_attention(q, q, q, radius=8)),
        "±r": count_flops(lambda: window_attention(q_512, q_512, q_512, radius=radius)),
    }


@claim("C27", "K", "Attention reaches all tokens, an RNN back, L CNN layers ±L")
def attention_reaches_all_tokens_in_one_layer() -> Finding:
    """A token out of the claimed reach whose gradient is not 0, or one within it whose is."""
    x = draw_normal(1, 16, 128).requires_grad_()
    padding = torch.zeros(1, 16, dtype=torch.bool)
    query, key = grid(16)
    ahead = key - query  # (T outputs, T inputs)
    attention = random_attention()
    lstm = random_module(LSTM(128, 8))
    pairs = [  # which tokens each output depends on, and those that are claimed
        (find_reach(attention(x), x), ahead.abs() < 16),  # every token
        (find_reach(lstm(x, padding), x), ahead <= 0),
    ]
    y = x
    for depth in (1, 2, 3):
        convolution = random_module(Convolution(y.shape[-1], 16, kernel=3))
        y = convolution(y, padding)
        pairs.append((find_reach(y, x), ahead.abs() <= depth))
    counts = [int(reached.sum()) for reached, _ in pairs]
    return judge_equality(*pairs, shown=f"tokens in reach {counts}")


def find_reach(y: Tensor, x: Tensor) -> Tensor:
    """Which tokens of x (1, T, D) each token of y depends on, boolean: (T outputs, T inputs)."""
    rows = []
    for output in y[0].sum(dim=-1):
        (gradient,) = torch.autograd.grad(output, x, retain_graph=True)
        rows.append(gradient[0].any(dim=-1))  # of (T inputs, D)
    return torch.stack(rows)
