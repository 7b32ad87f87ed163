"""Claims about a layer that numbers settle: shapes, scores, parameters, heads, stacking.

Shapes: B batch, T tokens, D model width, H heads, K head width.
"""

from dataclasses import replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from attnexp.claims.claim import Conclusion, Finding, claim
from attnexp.claims.measure import (
    EXACT,
    max_abs_diff,
    max_or_nan,
    normal,
    raises_value_error,
    random_attention,
    with_random_weights,
)
from attnexp.model import scores as masks
from attnexp.model.attention import Block, FeedForward
from attnexp.model.mixers import Convolution
from attnexp.model.scores import Additive, DotProduct, attention_weights


@claim("C01", "D")
def c01() -> Finding:
    """Q (2,3,2), K (2,8,2), V (2,8,10) give (2,3,10); Q, Q, Q give (2,3,2)."""
    q, k, v = normal(2, 3, 2, seed=0), normal(2, 8, 2, seed=1), normal(2, 8, 10, seed=2)
    cross, itself = _attention(q, k, v), _attention(q, q, q)
    gap = max_or_nan(
        max_abs_diff(cross, F.scaled_dot_product_attention(q, k, v)),
        max_abs_diff(itself, F.scaled_dot_product_attention(q, q, q)),
    )
    return Finding.exact(
        cross.shape == (2, 3, 10) and itself.shape == (2, 3, 2) and gap <= EXACT,
        f"{_shape(cross)} and {_shape(itself)}; off torch's by {gap:.1g} (tolerance {EXACT:g})",
    )


@claim("C02", "M")
def c02() -> Finding:
    """Five heads keep (2,4,100) at lengths [3,2]; 50 hidden give (2,4,50)."""
    x, real = normal(2, 4, 100), torch.arange(4) < torch.tensor([[3], [2]])
    outputs, seen = [], []
    for hidden in (100, 50):
        attention = random_attention(100, num_heads=5, d_head=hidden // 5, d_output=hidden)
        outputs.append(attention(x, masks.real_keys(~real)))
        weights = attention.weights(x, masks.real_keys(~real))
        seen.append((weights > 0).sum(dim=-1).amax(dim=(1, 2)).tolist())
    kept, halved = outputs
    return Finding.exact(
        kept.shape == (2, 4, 100) and halved.shape == (2, 4, 50) and seen == [[3, 2]] * 2,
        f"100 hidden: {_shape(kept)}; 50 hidden: {_shape(halved)}; keys with weight {seen[0]}",
    )


@claim("C12", "N")
def c12() -> Finding:
    """Var(q·k) = d_k, over √d_k 1; else softmax saturates, gradients shrink.

    Saturated: the largest of a row's 50 weights grows with d_k. Shrunk: the norm of a row's
    gradient is below that of scaled scores at every d_k, and falls with d_k. That is not so below
    d_k = 64, where the norm first grows: two keys that compete pass on more than fifty that share.
    Then the claim is not supported. It is refuted if a variance is off, nothing saturates, or not
    even the mean |gradient| of a score shrinks with d_k.
    """
    off, ratios = [], []
    for d_head in (4, 16, 64):
        raw, scaled = (_independent_scores(d_head, scale=scale) for scale in (False, True))
        off += [abs(raw.var().item() / d_head - 1), abs(scaled.var().item() - 1)]
        ratios.append(_softmax_figures(raw.view(-1, 50)) / _softmax_figures(scaled.view(-1, 50)))
    off_by, (top, gradient, norm) = max_or_nan(*off), torch.stack(ratios, dim=-1)
    saturates = top[0].item() > 1 and top.diff().min().item() > 0
    mean_shrinks, norm_shrinks = (
        ratio[0].item() < 1 and ratio.diff().max().item() < 0 for ratio in (gradient, norm)
    )
    found = Finding.exact(
        off_by <= 0.05 and saturates and mean_shrinks,
        f"Var off {off_by:.1%} (≤ 5%); unscaled, d_k 4 to 64: peak {_times(top)}, "
        f"gradient's norm {_times(norm)}, mean {_times(gradient)}",
    )
    if norm_shrinks or found.conclusion is Conclusion.refuted:
        return found
    return replace(found, conclusion=Conclusion.not_supported)


@claim("C13", "N")
def c13() -> Finding:
    """Parameters: d(2d_q+d), hd(d_q+d_k+2d_v), the paper 4hdd_q, K 3hdd_q.

    The layer of an additive score is not counted.
    """
    layers = [
        random_attention(6, num_heads=1, d_head=3, d_value=6),
        random_attention(
            6, num_heads=4, d_head=2, d_query=3, d_key=5, d_value=7, d_output=6, score=Additive
        ),
        random_attention(512, num_heads=8, d_head=64, d_output=512),
        random_attention(128, num_heads=8, d_head=16),
    ]
    counted = [
        sum(weight.numel() for name, weight in layer.named_parameters() if "_proj." in name)
        for layer in layers
    ]
    expected = [6 * (2 * 3 + 6), 4 * 6 * (3 + 5 + 2 * 7), 4 * 8 * 512 * 64, 3 * 8 * 128 * 16]
    return Finding.exact(
        counted == expected,
        f"one head, h heads, the paper's, K's: {_listed(counted)}; by formula {_listed(expected)}",
    )


@claim("C15", "N")
def c15() -> Finding:
    """Dot-product scores need d_q = d_k; additive scores do not."""
    refused = raises_value_error(lambda: random_attention(6, d_query=3, d_key=5))
    layer = random_attention(6, d_query=3, d_key=5, score=Additive)
    x = normal(2, 7, 6)
    q, k = layer.queries_and_keys(x)
    w, u, v = layer.score.parameters()
    hidden_q, hidden_k = torch.einsum("bhqi,hin->bhqn", q, w), torch.einsum("bhki,hin->bhkn", k, u)
    hidden = (hidden_q[:, :, :, None] + hidden_k[:, :, None]).tanh()
    gap = max_abs_diff(layer.weights(x), torch.einsum("bhqkn,hn->bhqk", hidden, v).softmax(dim=-1))
    return Finding.exact(
        refused and gap <= EXACT,
        f"d_q 3, d_k 5: dot product {'refused' if refused else 'accepted'}, "
        f"additive off v·tanh(Wq + Uk) by {gap:.1g} (tolerance {EXACT:g})",
    )


@claim("C16", "N")
def c16() -> Finding:
    """Concatenation and W_O equal the sum over heads of maps W_up·W_down."""
    num_heads, d_head, width = 3, 2, 8
    layer = random_attention(width, num_heads=num_heads, d_head=d_head, d_output=width)
    x, ranks = normal(2, 7, width), []
    maps, total = layer.weights(x), torch.zeros(2, 7, width, dtype=torch.float64)
    for head in range(num_heads):
        columns = slice(head * d_head, (head + 1) * d_head)
        up, down = layer.get_parameter("out_proj.weight")[:, columns], layer.v_proj.weight[columns]
        ranks.append(int(torch.linalg.matrix_rank(up @ down)))
        total += maps[:, head] @ x @ (up @ down).T
    gap = max_abs_diff(layer(x), total)
    return Finding.exact(
        gap <= EXACT and ranks == [d_head] * num_heads,
        f"off by {gap:.1g} (tolerance {EXACT:g}); {num_heads} maps {width}×{width} "
        f"of ranks {', '.join(map(str, ranks))}",
    )


@claim("C17", "N")
def c17() -> Finding:
    """The update is residual: E' = E + ΔE."""
    attention = random_attention()
    block = with_random_weights(Block, attention, d_input=8, d_feed_forward=16, residual=True)
    assert block.feed_forward is not None
    x, no_padding = normal(2, 7, 8), torch.zeros(2, 7, dtype=torch.bool)
    between = x + block.attention(x)
    gap = max_abs_diff(block(x, no_padding), between + block.feed_forward(between))
    for parameter in block.parameters():
        parameter.zero_()  # so that ΔE = 0
    kept = max_abs_diff(block(x, no_padding), x)
    return Finding.exact(
        gap <= EXACT and kept == 0,
        f"off E + ΔE by {gap:.1g} (tolerance {EXACT:g}); where ΔE is 0, off E by {kept:g} (exact)",
    )


@claim("C24", "K")
def c24() -> Finding:
    """The position-wise feed-forward layer is a convolution of width 1."""
    layer, x = with_random_weights(FeedForward, 8, 16), normal(2, 7, 8)
    up, down = layer.up, layer.down
    hidden = F.conv1d(x.mT, up.weight[..., None], up.bias).relu()
    gap = max_abs_diff(layer(x), F.conv1d(hidden, down.weight[..., None], down.bias).mT)

    convolution = with_random_weights(Convolution, 8, 16, kernel=1)
    weight, bias = convolution.conv.weight.squeeze(-1), convolution.conv.bias
    no_padding = torch.zeros(2, 7, dtype=torch.bool)
    first = max_abs_diff(convolution(x, no_padding), F.linear(x, weight, bias).relu())
    return Finding.exact(
        max_or_nan(gap, first) <= EXACT,
        f"two convolutions off by {gap:.1g}, our own by {first:.1g} (tolerance {EXACT:g})",
    )


@claim("C28", "M")
def c28() -> Finding:
    """Self-attention layers stack: output length equals input length."""
    lengths = (1, 2, 7, 80)
    left = []
    for num_tokens in lengths:
        y, no_padding = normal(1, num_tokens, 8), torch.zeros(1, num_tokens, dtype=torch.bool)
        for _ in range(6):
            attention = random_attention()
            y = with_random_weights(Block, attention, d_input=8)(y, no_padding)
        left.append(y.shape[1])
    return Finding.exact(left == list(lengths), f"six layers: {list(lengths)} tokens -> {left}")


def _attention(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    width = q.shape[-1]
    return attention_weights(DotProduct(1, width, width, width)(q, k)) @ v


def _shape(x: Tensor) -> str:
    return str(tuple(x.shape))


def _independent_scores(d_head: int, *, scale: bool) -> Tensor:
    """20,000 scores of a query and a key whose coordinates are independent N(0, 1)."""
    layer = random_attention(1, num_heads=1, d_head=d_head, score=partial(DotProduct, scale=scale))
    q, k = normal(20_000, 1, 1, d_head, seed=0), normal(20_000, 1, 1, d_head, seed=1)
    scores: Tensor = layer.score(q, k)
    return scores.flatten()


def _softmax_figures(scores: Tensor) -> Tensor:
    """Means over rows: largest weight, |gradient| of a score, norm of a row's gradient."""
    scores = scores.clone().requires_grad_()
    weights = attention_weights(scores)
    weights.backward(normal(*weights.shape))
    gradient = scores.grad
    assert gradient is not None
    top = weights.detach().amax(dim=-1)
    return torch.stack([top.mean(), gradient.abs().mean(), gradient.norm(dim=-1).mean()])


def _times(ratios: Tensor) -> str:
    return f"×{ratios[0].item():.2g} to {ratios[-1].item():.2g}"


def _listed(numbers: list[int]) -> str:
    return " ".join(f"{number:,}" for number in numbers)
