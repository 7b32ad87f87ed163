"""What a check of a claim returns, and the claims that numbers settle at once.

Inputs and weights are float64, the table of sines is stored in float32. Shapes: B batch, T tokens,
D model width, H heads, K head width.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnexp.config.compose import compose
from attnexp.model.attention import Block, FeedForward, MultiHeadSelfAttention
from attnexp.model.mixers import MaskedMean
from attnexp.model.positions import SinusoidalPosition, sinusoidal_table
from attnexp.model.scores import Additive, Causal, DotProduct, attention_weights, grid, real_keys
from attnexp.network.build import build_model


class Finding(NamedTuple):
    """Result of a check: holds or refuted; of experiments supported, not supported, undecided."""

    verdict: str
    measured: str
    n: int | None = None  # seeds a variant


def equal(*tensors: Tensor, within: float = 1e-12, also: bool = True, shown: str = "") -> Finding:
    """Finding that tensors are equal, pair by pair, within a tolerance; also: what else is true."""
    off = max_abs_diff(*tensors)
    verdict = "holds" if off <= within and also else "refuted"
    return Finding(verdict, f"off by {off:.0e} (≤ {within:.0e}){shown}")


def max_abs_diff(*tensors: Tensor) -> float:
    """Largest difference within pairs; infinite where shapes differ, NaN where an entry is."""
    pairs = [(a.double(), b.double()) for a, b in zip(tensors[::2], tensors[1::2], strict=True)]
    if any(one.shape != other.shape for one, other in pairs):
        return math.inf
    return torch.stack([(one - other).abs().max() for one, other in pairs]).max().item()


def beyond(low: float, high: float, bound: float = 0.0) -> str:
    """What an interval says of the claim that the value is above a bound."""
    return "supported" if low > bound else "not supported" if high < bound else "undecided"


def joint(parts: Iterable[str]) -> str:
    """Not supported where any part of a claim is, supported where all parts are."""
    return min(parts, key=("not supported", "undecided", "supported").index)


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Independent N(0, 1) numbers."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_module(make: Callable[..., nn.Module], *args: Any, **settings: Any) -> Any:
    """A module with random weights, large enough for attention far from uniform."""
    module = make(*args, **settings).double().eval().requires_grad_(False)
    for seed, weight in enumerate(module.parameters(), start=1000):  # unlike the seeds of inputs
        weight.copy_(normal(*weight.shape, seed=seed) / weight.shape[-1] ** 0.5)
    return module


def attention(d_input: int = 8, heads: int = 2, d_head: int = 4, **more: Any) -> Any:
    """Attention with random weights."""
    return random_module(MultiHeadSelfAttention, d_input, num_heads=heads, d_head=d_head, **more)


def encoding(num: int, width: int) -> Tensor:
    """sin and cos of p / 10000^(2i / D), side by side: (T, D)."""
    angle = torch.arange(num)[:, None] / 10_000 ** (torch.arange(0, width, 2).double() / width)
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(-2)


def c01() -> Finding:
    """Shapes and values as torch's own function gives them."""
    q, k, v = normal(2, 3, 2), normal(2, 8, 2, seed=1), normal(2, 8, 10, seed=2)
    score, torchs = DotProduct(1, 2, 2, 2), F.scaled_dot_product_attention
    cross, itself = attention_weights(score(q, k)) @ v, attention_weights(score(q, q)) @ q
    return equal(cross, torchs(q, k, v), itself, torchs(q, q, q), shown=f"; {[*cross.shape]}")


def c02() -> Finding:
    """Shapes of the outputs; the mask of lengths is C03's."""
    x, real = normal(2, 4, 100), torch.arange(4) < torch.tensor([[[[3]]], [[[2]]]])
    shapes = [[*attention(100, 5, d // 5, d_output=d)(x, real).shape] for d in (100, 50)]
    return equal(torch.tensor(shapes), torch.tensor([[2, 4, 100], [2, 4, 50]]), shown=f"; {shapes}")


def c03() -> Finding:
    """Hidden weights are exactly 0, the others a softmax over what is left."""
    scores, compared = normal(2, 3, 5), list[Tensor]()
    for lengths in (torch.tensor([2, 4]), torch.tensor([[1, 3, 5], [2, 4, 1]])):
        allowed = (torch.arange(5) < lengths.view(2, -1, 1)).expand(2, 3, 5)
        weights, left = attention_weights(scores, allowed), scores.exp() * allowed
        compared += [weights, left / left.sum(dim=-1, keepdim=True), weights > 0, allowed]
    return equal(*compared)


def c04() -> Finding:
    """Two tokens are swapped: outputs swap with them, and so have the same mean."""
    layer, position = attention(), SinusoidalPosition(7, 8)
    x, order = normal(1, 7, 8), [1, 0, 2, 3, 4, 5, 6]
    pe = max_abs_diff(layer(position(x[:, order])).mean(dim=1), layer(position(x)).mean(dim=1))
    shown = f"; the mean with PE by {pe:.2g}"
    return equal(layer(x[:, order]), layer(x)[:, order], also=pe > 1e-3, shown=shown)


def c05() -> Finding:
    """The table against the formula, both forms of the frequency, and an odd width."""
    with suppress(ValueError):
        return Finding("refuted", f"an odd width gives {sinusoidal_table(9, 127).shape}")
    two_i, table = torch.arange(0, 128, 2).double(), sinusoidal_table(1000, 128)
    forms = (10_000 ** (-two_i / 128), (-math.log(10_000) / 128 * two_i).exp())
    return equal(table, encoding(1000, 128), *forms, within=1e-7, shown="; odd width refused")


def c06() -> Finding:
    """What enters the first layer of a model, and the encoding of single steps."""
    words = """position=sinusoidal position.layout=interleaved model.scale_embedding=true
        model.d_model=16 data.vocab_size=20 data.max_len=9"""
    model: Any = build_model(compose(words.split())).double().eval()
    entered, ids, table = list[Tensor](), torch.arange(5, 14), encoding(9, 16)
    model.layers[0].register_forward_pre_hook(lambda _, given: entered.append(given[0][0]))
    model(ids[None])
    steps = model.position(torch.zeros(9, 1, 16).double(), torch.arange(9)[:, None])[:, 0]
    return equal(entered[0], 4 * model.embedding(ids) + table, steps, table, within=1e-7)


def c07() -> Finding:
    """The tables; a linear map after them takes any order of columns."""
    split, interleaved = (sinusoidal_table(9, 16, layout=name) for name in ("split", "interleaved"))
    return equal(split, torch.cat([interleaved[:, 1::2], interleaved[:, 0::2]], dim=1), within=0)


def c08() -> Finding:
    """Every shift from every position by one rotation of pairs, built from the formula."""
    table, compared = sinusoidal_table(1000, 32).double(), list[Tensor]()
    for shift in (1, 7, 40, 500):
        sin, cos = encoding(shift + 1, 32)[shift].view(-1, 2).T
        blocks = torch.stack([cos, sin, -sin, cos], dim=-1).view(-1, 2, 2)
        compared += [table[shift:], table[:-shift] @ torch.block_diag(*blocks).T]
    return equal(*compared, within=2e-7, shown="; δ = 1, 7, 40, 500 from all p < 1000 - δ")


def c09() -> Finding:
    """Periods by s[p-1] + s[p+1] = 2 cos(w) s[p]; a quarter period apart, squares sum to 1."""
    wave = sinusoidal_table(60, 32).double()[:, 6:10]
    cosines = ((wave[:-2] + wave[2:]) * wave[1:-1]).sum(0) / (2 * wave[1:-1] ** 2).sum(0)
    periods, squares = 2 * math.pi / cosines.acos(), wave[:, 0] ** 2 + wave[:, 1] ** 2
    faster = bool(periods[:2].max() < periods[2:].min())
    shown = f"; periods {periods[0]:.2f}, {periods[1]:.2f}, {periods[2]:.2f}, {periods[3]:.2f}"
    return equal(squares, torch.ones(60), within=2e-7, also=faster, shown=shown)


def c12() -> Finding:
    """Rows of 50 scores; unscaled figures over scaled ones. Judged as worded: the norm of a row's
    gradient shrinks only from d_k = 64 on, as two keys that compete pass on more than fifty."""
    figures = []
    for d_k, scale in itertools.product((4, 16, 64), (False, True)):
        q, k = normal(20_000, 1, 1, d_k), normal(20_000, 1, 1, d_k, seed=1)
        scores = DotProduct(1, d_k, d_k, d_k, scale=scale)(q, k).view(-1, 50).requires_grad_()
        weights, variance = attention_weights(scores), scores.var() / (1 if scale else d_k)
        (slope,) = torch.autograd.grad(weights, scores, normal(400, 50))
        figures.append(torch.stack([variance, weights.amax(-1).mean(), slope.norm(dim=-1).mean()]))
    unscaled, scaled = torch.stack(figures).view(3, 2, 3).unbind(dim=1)  # (d_k, figures)
    (_, peak, norm), variances = (unscaled / scaled).T, torch.stack(figures)[:, 0]
    saturates = bool(peak[0] > 1 and (peak.diff() > 0).all() and norm[2] < norm[1])
    ends = *peak[[0, 2]], *norm[[0, 2]]
    shown = "; peak ×{:.2g} to {:.2g}, gradient's norm ×{:.2g} to {:.2g}".format(*ends)
    found = equal(variances, torch.ones(6), within=0.05, also=saturates, shown=shown)
    fails = found.verdict == "holds" and norm[0] >= 1
    return found._replace(verdict="not supported") if fails else found


def c13() -> Finding:
    """Numbers in the projections, without the hidden layer of an additive score."""
    wide = {"d_query": 3, "d_key": 5, "d_value": 7, "d_output": 6, "score": Additive}
    one, many = attention(6, 1, 3, d_value=6), attention(6, 4, 2, **wide)
    layers = [one, many, attention(512, 8, 64, d_output=512), attention(128, 8, 16)]
    counts = [sum(w.numel() for n, w in each.named_parameters() if "_proj" in n) for each in layers]
    formula = [6 * (2 * 3 + 6), 4 * 6 * (3 + 5 + 2 * 7), 4 * 8 * 512 * 64, 3 * 8 * 128 * 16]
    return equal(torch.tensor(counts), torch.tensor(formula), shown=f"; {counts}")


def c14() -> Finding:
    """The last three of seven tokens change: earlier outputs do not, but do without a mask."""
    x, causal, layer = normal(1, 7, 8), Causal()(*grid(7)), attention()
    later, weights = torch.cat([x[:, :4], normal(1, 3, 8, seed=1)], 1), layer.weights(x, causal)
    free = max_abs_diff(layer(x)[:, :4], layer(later)[:, :4])
    compared = (weights, weights.tril(), layer(x, causal)[:, :4], layer(later, causal)[:, :4])
    return equal(*compared, within=0, also=free > 1e-3, shown=f"; without a mask by {free:.2g}")


def c15() -> Finding:
    """d_q 3 and d_k 5; the additive score is v·tanh(Wq + Uk)."""
    with suppress(ValueError):
        return Finding("refuted", f"the dot product: {attention(6, d_query=3, d_key=5)}")
    layer, x = attention(6, d_query=3, d_key=5, score=Additive), normal(2, 7, 6)
    (q, k), (w, u, v) = layer.queries_and_keys(x), layer.score.parameters()
    hidden = (q @ w)[:, :, :, None] + (k @ u)[:, :, None]  # (B, H, T queries, T keys, K)
    weights = torch.einsum("bhqkn,hn->bhqk", hidden.tanh(), v).softmax(dim=-1)
    return equal(layer.weights(x), weights, shown="; dot product refused")


def c16() -> Finding:
    """The sum over heads of weights · x · W_down · W_up, each map 8 × 8 and of rank 2."""
    layer, x = attention(8, 3, 2, d_output=8), normal(2, 7, 8)
    up, down = layer.out_proj.weight.view(8, 3, 2), layer.v_proj.weight.view(3, 2, 8)
    total = torch.einsum("bhqk,bki,hri,ohr->bqo", layer.weights(x), x, down, up)
    return equal(layer(x), total)


def c17() -> Finding:
    """Attention and feed-forward each add to what they are given."""
    layer = random_module(Block, attention(), d_feed_forward=16, residual=True)
    x, no_padding = normal(2, 7, 8), torch.zeros(2, 7, dtype=torch.bool)
    between = x + layer.attention(x)
    return equal(layer(x, no_padding), between + layer.feed_forward(between))


def c19() -> Finding:
    """Other tokens at padding change nothing; weights are K's, who subtracts 1e12 from scores."""
    x, padding, layer = normal(1, 8, 8), torch.arange(8)[None] < 3, attention()
    other, real = x.masked_fill(padding[..., None], 9.0), real_keys(padding)
    y, changed = (MaskedMean(8)(layer(each, real), padding) for each in (x, other))
    k = (layer.score(*layer.queries_and_keys(x)) - 1e12 * padding[:, None, None]).softmax(dim=-1)
    rows = attention(mask_mode="mul").weights(x, real).sum(dim=-1).max().item()
    shown = f"; rows of `mul` sum to {rows:.2f} or less"
    return equal(y, changed, layer.weights(x, real), k, also=rows < 0.999, shown=shown)


def c24() -> Finding:
    """Against two convolutions of torch with the same weights."""
    layer, x = random_module(FeedForward, 8, 16), normal(2, 7, 8)
    hidden = F.conv1d(x.mT, layer.up.weight[..., None], layer.up.bias).relu()
    return equal(layer(x).mT, F.conv1d(hidden, layer.down.weight[..., None], layer.down.bias))


def c28() -> Finding:
    """Six layers on texts of four lengths."""
    layers = nn.Sequential(*(attention() for _ in range(6)))
    left = [layers(normal(1, num_tokens, 8)).shape[1] for num_tokens in (1, 2, 7, 80)]
    return equal(torch.tensor(left), torch.tensor([1, 2, 7, 80]), shown=f"; {left}")
