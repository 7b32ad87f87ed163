"""Claims about scores, masks, heads and the layer around them.

The docstring of a check is the result that would refute its claim.

Shapes: B batch, T tokens, D model width, H heads, K head width.
"""

from contextlib import suppress

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnexp.claims.finding import Finding, claim, definition, judge_equality, max_abs_diff
from attnexp.claims.samples import draw_normal, no_padding, random_attention, random_module
from attnexp.model.attention import Block, FeedForward
from attnexp.model.mixers import MaskedMean
from attnexp.model.scores import Additive, Causal, DotProduct, attention_weights, grid, real_keys


@definition("C01", "D", "Q (2,3,2), K (2,8,2), V (2,8,10) give (2,3,10); Q, Q, Q (2,3,2)")
def output_has_length_of_queries_and_width_of_values() -> Finding:
    """Shapes or values other than those of torch's own attention."""
    q = draw_normal(2, 3, 2)
    k = draw_normal(2, 8, 2, seed=1)
    v = draw_normal(2, 8, 10, seed=2)
    score = DotProduct(1, 2, 2, 2)
    cross = attention_weights(score(q, k)) @ v
    to_itself = attention_weights(score(q, q)) @ q
    cross_of_torch = F.scaled_dot_product_attention(q, k, v)
    to_itself_of_torch = F.scaled_dot_product_attention(q, q, q)
    shape = str([*cross.shape])
    return judge_equality((cross, cross_of_torch), (to_itself, to_itself_of_torch), shown=shape)


@definition("C02", "M", "Five heads keep (2,4,100) at lengths [3,2]; 50 hidden: (2,4,50)")
def heads_keep_the_length_and_choose_the_width() -> Finding:
    """Outputs of other shapes."""
    x = draw_normal(2, 4, 100)
    lengths = torch.tensor([3, 2]).view(2, 1, 1, 1)
    real = torch.arange(4) < lengths
    shapes = []
    for width in (100, 50):
        layer = random_attention(100, 5, width // 5, d_output=width)
        shapes.append(list(layer(x, real).shape))
    claimed = torch.tensor([[2, 4, 100], [2, 4, 50]])
    return judge_equality((torch.tensor(shapes), claimed), shown=str(shapes))


@claim("C03", "D", "Masked softmax takes lengths (B,) or (B,T); rows still sum to 1")
def masked_keys_get_no_weight() -> Finding:
    """A weight of a hidden key, or weights of the others that are not their softmax."""
    scores = draw_normal(2, 3, 5)
    of_texts = torch.tensor([2, 4]).view(2, 1, 1)
    of_queries = torch.tensor([[1, 3, 5], [2, 4, 1]]).view(2, 3, 1)
    pairs = []
    for lengths in (of_texts, of_queries):
        allowed = (torch.arange(5) < lengths).expand(2, 3, 5)
        weights = attention_weights(scores, allowed)
        exponentials = scores.exp() * allowed
        softmax = exponentials / exponentials.sum(dim=-1, keepdim=True)
        pairs.append((weights, softmax))
        pairs.append((weights > 0, allowed))
    return judge_equality(*pairs)


@claim("C12", "N", "Var(q·k) = d_k, over √d_k 1; else softmax saturates, gradients shrink")
def softmax_saturates_without_scaling() -> Finding:
    """Other variances; without √d_k a largest weight that does not grow with d_k, or a gradient no
    smaller than with it. The last is so at d_k = 4, hence not supported."""
    widths = (4, 16, 64)
    unscaled = torch.stack([_measure_softmax(d_key, scale=False) for d_key in widths])
    scaled = torch.stack([_measure_softmax(d_key, scale=True) for d_key in widths])
    variances = torch.cat([unscaled[:, 0], scaled[:, 0]])
    _, peaks, norms = (unscaled / scaled).T.tolist()
    finding = judge_equality(
        (variances, torch.ones(6)),
        within=0.05,
        also=1 < peaks[0] < peaks[1] < peaks[2] and norms[2] < norms[1],
        shown=f"peak ×{peaks[0]:.2g} to {peaks[2]:.2g}, "
        f"gradient's norm ×{norms[0]:.2g} to {norms[2]:.2g}",
    )
    if finding.verdict == "holds" and norms[0] >= 1:
        return finding._replace(verdict="not supported")
    return finding


def _measure_softmax(d_key: int, *, scale: bool) -> Tensor:
    """Variance of the scores over the claimed one, largest weight of a row and norm of the gradient
    that its scores get, means over 400 rows of 50 scores: (3,)."""
    q = draw_normal(20_000, 1, 1, d_key)
    k = draw_normal(20_000, 1, 1, d_key, seed=1)
    score = DotProduct(1, d_key, d_key, d_key, scale=scale)
    scores = score(q, k).view(400, 50).requires_grad_()
    weights = attention_weights(scores)
    (gradient,) = torch.autograd.grad(weights, scores, draw_normal(400, 50))
    variance = scores.var() if scale else scores.var() / d_key
    peak = weights.amax(dim=-1).mean()
    norm = gradient.norm(dim=-1).mean()
    return torch.stack([variance, peak, norm]).detach()


@definition("C13", "N", "Parameters d(2d_q+d), hd(d_q+d_k+2d_v), 4hdd_q, K's 3hdd_q")
def parameters_follow_the_formulas() -> Finding:
    """Another number of weights in the projections, without an additive score's hidden layer."""
    widths = {"d_query": 3, "d_key": 5, "d_value": 7, "d_output": 6}
    layers = [
        random_attention(6, 1, 3, d_value=6),
        random_attention(6, 4, 2, score=Additive, **widths),
        random_attention(512, 8, 64, d_output=512),
        random_attention(128, 8, 16),
    ]
    formulas = [6 * (2 * 3 + 6), 4 * 6 * (3 + 5 + 2 * 7), 4 * 8 * 512 * 64, 3 * 8 * 128 * 16]
    counts = []
    for layer in layers:
        num_weights = 0
        for name, weight in layer.named_parameters():
            if "_proj" in name:
                num_weights += weight.numel()
        counts.append(num_weights)
    return judge_equality((torch.tensor(counts), torch.tensor(formulas)), shown=str(counts))


@claim("C14", "N", "Causal mask: no weight above the diagonal, no leak")
def causal_mask_hides_later_tokens() -> Finding:
    """A weight above the diagonal, or an output that changes with a later token, as it does without
    the mask."""
    layer = random_attention()
    causal = Causal()(*grid(7))
    x = draw_normal(1, 7, 8)
    later = draw_normal(1, 3, 8, seed=1)
    changed = torch.cat([x[:, :4], later], dim=1)
    weights = layer.weights(x, causal)
    early = layer(x, causal)[:, :4]
    early_changed = layer(changed, causal)[:, :4]
    unmasked = layer(x)[:, :4]
    unmasked_changed = layer(changed)[:, :4]
    change = max_abs_diff((unmasked, unmasked_changed))
    return judge_equality(
        (weights, weights.tril()),
        (early, early_changed),
        within=0,
        also=change > 1e-3,
        shown=f"without a mask by {change:.2g}",
    )


@definition("C15", "N", "Dot-product scores need d_q = d_k; additive ones do not")
def additive_scores_take_unequal_widths() -> Finding:
    """A dot product of widths 3 and 5, or an additive score that is not v·tanh(Wq + Uk)."""
    with suppress(ValueError):  # which the dot product must raise
        layer = random_attention(6, d_query=3, d_key=5)
        return Finding("refuted", f"the dot product: {layer}")
    layer = random_attention(6, d_query=3, d_key=5, score=Additive)
    x = draw_normal(2, 7, 6)
    q, k = layer.queries_and_keys(x)
    w, u, v = layer.score.parameters()
    of_queries = (q @ w).unsqueeze(3)
    of_keys = (k @ u).unsqueeze(2)
    hidden = (of_queries + of_keys).tanh()  # (B, H, T queries, T keys, K)
    scores = torch.einsum("bhqkn,hn->bhqk", hidden, v)
    weights = scores.softmax(dim=-1)
    return judge_equality((layer.weights(x), weights), shown="dot product refused")


@claim("C16", "N", "Heads joined by W_O are a sum of low-rank maps W_up·W_down")
def joined_heads_are_a_sum_of_low_rank_maps() -> Finding:
    """An output other than the sum over heads of weights · x · W_down · W_up, of rank 2 each."""
    layer = random_attention(8, 3, 2, d_output=8)
    x = draw_normal(2, 7, 8)
    up = layer.out_proj.weight.view(8, 3, 2)  # (D, H, K)
    down = layer.v_proj.weight.view(3, 2, 8)  # (H, K, D)
    total = torch.einsum("bhqk,bki,hri,ohr->bqo", layer.weights(x), x, down, up)
    return judge_equality((layer(x), total))


@definition("C17", "N", "The update is residual: E' = E + ΔE")
def updates_are_residual() -> Finding:
    """An output that is not x plus attention, plus feed-forward of that sum."""
    layer = random_module(Block, random_attention(), d_feed_forward=16, residual=True)
    x = draw_normal(2, 7, 8)
    between = x + layer.attention(x)
    after = between + layer.feed_forward(between)
    return judge_equality((layer(x, no_padding(2, 7)), after))


@claim("C19", "K, D", "Padding masked before softmax has no effect; `mul` loses weight")
def padding_masked_before_softmax_has_no_effect() -> Finding:
    """A result that changes with the tokens at padding; weights other than K's, who subtracts 1e12;
    or rows of `mul` that sum to 1."""
    layer = random_attention()
    x = draw_normal(1, 8, 8)
    padding = torch.arange(8)[None] < 3
    real = real_keys(padding)
    changed = x.masked_fill(padding[..., None], 9.0)
    pool = MaskedMean(8)
    pooled = pool(layer(x, real), padding)
    pooled_changed = pool(layer(changed, real), padding)
    scores = layer.score(*layer.queries_and_keys(x))
    of_k = (scores - 1e12 * padding[:, None, None]).softmax(dim=-1)
    after_softmax = random_attention(mask_mode="mul").weights(x, real)
    largest_sum = float(after_softmax.sum(dim=-1).max())
    return judge_equality(
        (pooled, pooled_changed),
        (layer.weights(x, real), of_k),
        also=largest_sum < 0.999,
        shown=f"rows of `mul` sum to {largest_sum:.2f} or less",
    )


@definition("C24", "K", "The feed-forward layer is a convolution of width 1")
def feed_forward_is_a_convolution_of_width_one() -> Finding:
    """An output other than that of two convolutions of torch with the same weights."""
    layer = random_module(FeedForward, 8, 16)
    x = draw_normal(2, 7, 8)
    hidden = F.conv1d(x.mT, layer.up.weight[..., None], layer.up.bias).relu()
    y = F.conv1d(hidden, layer.down.weight[..., None], layer.down.bias)
    return judge_equality((layer(x).mT, y))


@definition("C28", "M", "Self-attention layers stack: they keep the length")
def stacked_layers_keep_the_length() -> Finding:
    """Another length after six layers, of texts of four lengths."""
    layers = nn.Sequential(*(random_attention() for _ in range(6)))
    lengths = [1, 2, 7, 80]
    after = []
    for num_tokens in lengths:
        y = layers(draw_normal(1, num_tokens, 8))
        after.append(y.shape[1])
    return judge_equality((torch.tensor(after), torch.tensor(lengths)), shown=str(after))
