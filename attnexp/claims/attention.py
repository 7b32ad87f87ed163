"""Claims about scores, heads and the layer around them: C12, C15, C16, C17, C24.

Shapes: B batch, T tokens, D model width, H heads, K head width.
"""

from contextlib import suppress
from typing import NamedTuple

import torch
import torch.nn.functional as F

from attnexp.claims.finding import Finding, judge_equality
from attnexp.claims.samples import draw_normal, no_padding, random_attention, random_module
from attnexp.model.attention import Block, FeedForward
from attnexp.model.scores import Additive, DotProduct, attention_weights

KEY_WIDTHS = (4, 16, 64)


def softmax_saturates_without_scaling() -> Finding:
    """C12: rows of 50 scores; unscaled figures over scaled ones.

    Judged as worded: the norm of a row's gradient shrinks only from d_k = 64 on, as two keys that
    compete pass on more than fifty. So the claim is not supported though its variances hold.
    """
    peaks = []
    norms = []
    variances = []
    for d_key in KEY_WIDTHS:
        unscaled = _draw_softmax(d_key, scale=False)
        scaled = _draw_softmax(d_key, scale=True)
        variances += [unscaled.variance / d_key, scaled.variance]
        peaks.append(unscaled.peak / scaled.peak)
        norms.append(unscaled.gradient / scaled.gradient)

    saturates = 1 < peaks[0] < peaks[1] < peaks[2]
    shrinks_at_last = norms[2] < norms[1]
    finding = judge_equality(
        [(torch.tensor(variances), torch.ones(6))],
        within=0.05,
        also=saturates and shrinks_at_last,
        shown=f"peak ×{peaks[0]:.2g} to {peaks[2]:.2g}, "
        f"gradient's norm ×{norms[0]:.2g} to {norms[2]:.2g}",
    )
    if finding.verdict == "holds" and norms[0] >= 1:
        return finding._replace(verdict="not supported")
    return finding


class RandomSoftmax(NamedTuple):
    """Means over rows of softmax(q k) for random q and k."""

    variance: float  # of the scores
    peak: float  # the largest weight
    gradient: float  # norm of the gradient that the scores get


def _draw_softmax(d_key: int, *, scale: bool) -> RandomSoftmax:
    """400 rows of 50 scores, the same draws with and without scale."""
    q = draw_normal(20_000, 1, 1, d_key)
    k = draw_normal(20_000, 1, 1, d_key, seed=1)
    score = DotProduct(1, d_key, d_key, d_key, scale=scale)
    scores = score(q, k).view(400, 50).requires_grad_()
    weights = attention_weights(scores)
    (gradient,) = torch.autograd.grad(weights, scores, draw_normal(400, 50))
    return RandomSoftmax(
        variance=scores.var().item(),
        peak=weights.amax(dim=-1).mean().item(),
        gradient=gradient.norm(dim=-1).mean().item(),
    )


def additive_scores_take_unequal_widths() -> Finding:
    """C15: d_q 3 and d_k 5; the additive score is v·tanh(Wq + Uk)."""
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
    pairs = [(layer.weights(x), scores.softmax(dim=-1))]
    return judge_equality(pairs, shown="dot product refused")


def joined_heads_are_a_sum_of_low_rank_maps() -> Finding:
    """C16: the sum over heads of weights · x · W_down · W_up, each map 8 × 8 and of rank 2."""
    layer = random_attention(8, 3, 2, d_output=8)
    x = draw_normal(2, 7, 8)
    up = layer.out_proj.weight.view(8, 3, 2)  # (D, H, K)
    down = layer.v_proj.weight.view(3, 2, 8)  # (H, K, D)
    total = torch.einsum("bhqk,bki,hri,ohr->bqo", layer.weights(x), x, down, up)
    return judge_equality([(layer(x), total)])


def updates_are_residual() -> Finding:
    """C17: attention and feed-forward each add to what they are given."""
    layer = random_module(Block, random_attention(), d_feed_forward=16, residual=True)
    x = draw_normal(2, 7, 8)
    between = x + layer.attention(x)
    after = between + layer.feed_forward(between)
    return judge_equality([(layer(x, no_padding(2, 7)), after)])


def feed_forward_is_a_convolution_of_width_one() -> Finding:
    """C24: against two convolutions of torch with the same weights."""
    layer = random_module(FeedForward, 8, 16)
    x = draw_normal(2, 7, 8)
    hidden = F.conv1d(x.mT, layer.up.weight[..., None], layer.up.bias).relu()
    y = F.conv1d(hidden, layer.down.weight[..., None], layer.down.bias)
    return judge_equality([(layer(x).mT, y)])
