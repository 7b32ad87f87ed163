"""Claims about scores, heads and the layer around them.

Shapes: B batch, T tokens, D model width, H heads, K head width.
"""

from contextlib import suppress

import torch
import torch.nn.functional as F
from torch import Tensor

from attnexp.claims.finding import Finding, claim, definition, judge_equality
from attnexp.claims.samples import draw_normal, no_padding, random_attention, random_module
from attnexp.model.attention import Block, FeedForward
from attnexp.model.scores import Additive, DotProduct, attention_weights

KEY_WIDTHS = (4, 16, 64)


@claim("C12", "N", "Var(q·k) = d_k, over √d_k 1; else softmax saturates, gradients shrink")
def softmax_saturates_without_scaling() -> Finding:
    """Rows of 50 scores; unscaled figures over scaled ones.

    Judged as worded: the norm of a row's gradient shrinks only from d_k = 64 on, as two keys that
    compete pass on more than fifty. So the claim is not supported though its variances hold.
    """
    unscaled = torch.stack([_measure_softmax(d_key, scale=False) for d_key in KEY_WIDTHS])
    scaled = torch.stack([_measure_softmax(d_key, scale=True) for d_key in KEY_WIDTHS])
    variances = torch.cat([unscaled[:, 0] / torch.tensor(KEY_WIDTHS), scaled[:, 0]])
    _, peaks, norms = (unscaled / scaled).T.tolist()
    saturates = 1 < peaks[0] < peaks[1] < peaks[2]
    shrinks_at_last = norms[2] < norms[1]
    finding = judge_equality(
        (variances, torch.ones(6)),
        within=0.05,
        also=saturates and shrinks_at_last,
        shown=f"peak ×{peaks[0]:.2g} to {peaks[2]:.2g}, "
        f"gradient's norm ×{norms[0]:.2g} to {norms[2]:.2g}",
    )
    if finding.verdict == "holds" and norms[0] >= 1:
        return finding._replace(verdict="not supported")
    return finding


def _measure_softmax(d_key: int, *, scale: bool) -> Tensor:
    """Variance of the scores, largest weight of a row and norm of the gradient that its scores get,
    means over 400 rows of 50 scores: (3,). The draws are the same with and without scale."""
    q = draw_normal(20_000, 1, 1, d_key)
    k = draw_normal(20_000, 1, 1, d_key, seed=1)
    score = DotProduct(1, d_key, d_key, d_key, scale=scale)
    scores = score(q, k).view(400, 50).requires_grad_()
    weights = attention_weights(scores)
    (gradient,) = torch.autograd.grad(weights, scores, draw_normal(400, 50))
    variance = scores.var()
    peak = weights.amax(dim=-1).mean()
    norm = gradient.norm(dim=-1).mean()
    return torch.stack([variance, peak, norm]).detach()


@definition("C15", "N", "Dot-product scores need d_q = d_k; additive ones do not")
def additive_scores_take_unequal_widths() -> Finding:
    """d_q 3 and d_k 5; the additive score is v·tanh(Wq + Uk)."""
    with suppress(ValueError):  # which the dot product must raise
        layer = random_attention(6, d_query=3, d_key=5)
        return Finding("refuted", f"the dot product: {layer}")
    layer = random_attention(6, d_query=3, d_key=5, score=Additive)
    x = draw_normal(2, 7, 6)
    q, k = layer.queries_and_keys(x)
    w, u, v = layer.score.parameters()
    of_queries = (q @ w)[:, :, :, None]
    of_keys = (k @ u)[:, :, None]
    hidden = (of_queries + of_keys).tanh()  # (B, H, T queries, T keys, K)
    scores = torch.einsum("bhqkn,hn->bhqk", hidden, v)
    return judge_equality((layer.weights(x), scores.softmax(dim=-1)), shown="dot product refused")


@claim("C16", "N", "Heads joined by W_O are a sum of low-rank maps W_up·W_down")
def joined_heads_are_a_sum_of_low_rank_maps() -> Finding:
    """The sum over heads of weights · x · W_down · W_up, each map 8 × 8 and of rank 2."""
    layer = random_attention(8, 3, 2, d_output=8)
    x = draw_normal(2, 7, 8)
    up = layer.out_proj.weight.view(8, 3, 2)  # (D, H, K)
    down = layer.v_proj.weight.view(3, 2, 8)  # (H, K, D)
    total = torch.einsum("bhqk,bki,hri,ohr->bqo", layer.weights(x), x, down, up)
    return judge_equality((layer(x), total))


@definition("C17", "N", "The update is residual: E' = E + ΔE")
def updates_are_residual() -> Finding:
    """Attention and feed-forward each add to what they are given."""
    layer = random_module(Block, random_attention(), d_feed_forward=16, residual=True)
    x = draw_normal(2, 7, 8)
    between = x + layer.attention(x)
    after = between + layer.feed_forward(between)
    return judge_equality((layer(x, no_padding(2, 7)), after))


@definition("C24", "K", "The feed-forward layer is a convolution of width 1")
def feed_forward_is_a_convolution_of_width_one() -> Finding:
    """Against two convolutions of torch with the same weights."""
    layer = random_module(FeedForward, 8, 16)
    x = draw_normal(2, 7, 8)
    hidden = F.conv1d(x.mT, layer.up.weight[..., None], layer.up.bias).relu()
    y = F.conv1d(hidden, layer.down.weight[..., None], layer.down.bias)
    return judge_equality((layer(x).mT, y))
