"""Claims about scores, masks, heads and the layer around them.

Shapes: B batch, T tokens, D model width, H heads, K head width.
"""

import torch

from attnexp.claims.finding import Finding, claim, judge_equality, max_abs_diff
from attnexp.claims.samples import draw_normal, random_attention
from attnexp.model.mixers import MaskedMean
from attnexp.model.scores import Causal, DotProduct, attention_weights, grid, real_keys


@claim("C03", "D", "Masked softmax takes lengths (B,) or (B,T); rows still sum to 1")
def masked_keys_get_no_weight() -> Finding:
    """A weight of a hidden key, or weights of the others that are not their softmax."""
    scores = draw_normal(2, 3, 5)
    of_texts = torch.tensor([[2], [4]])
    of_queries = torch.tensor([[1, 3, 5], [2, 4, 1]])
    keys = torch.arange(5)
    pairs = []
    for lengths in (of_texts, of_queries):
        is_allowed = keys < lengths[..., None]
        allowed = is_allowed.expand(2, 3, 5)
        weights = attention_weights(scores, allowed)
        exponentials = scores.exp() * allowed
        total = exponentials.sum(dim=-1, keepdim=True)
        pairs.append((weights, exponentials / total))
        pairs.append((weights > 0, allowed))
    return judge_equality(*pairs)


@claim("C12", "N", "Var(q·k) = d_k, over √d_k 1; else softmax saturates, gradients shrink")
def softmax_saturates_without_scaling() -> Finding:
    """Other variances; without √d_k a largest weight that does not grow with d_k, or a gradient no
    smaller than with it. The last is so at d_k = 4, hence not supported."""
    variances = []
    peaks = []
    norms = []
    for d_key in (4, 16, 64):
        variance, peak, norm = measure_softmax(d_key, scale=False)
        scaled_variance, scaled_peak, scaled_norm = measure_softmax(d_key, scale=True)
        variances += [variance / d_key, scaled_variance]
        peaks.append(peak / scaled_peak)
        norms.append(norm / scaled_norm)
    low, middle, high = peaks
    first, second, last = norms
    shown = f"peak ×{low:.2g} to {high:.2g}, gradient's norm ×{first:.2g} to {last:.2g}"
    finding = judge_equality(
        (torch.tensor(variances), torch.ones(6)),
        within=0.05,
        also=1 < low < middle < high and last < second,
        shown=shown,
    )
    # the source says "gradients shrink" of any width; at the smallest they grow
    if finding.verdict == "holds" and first >= 1:
        return finding._replace(verdict="not supported")
    return finding


def measure_softmax(d_key: int, *, scale: bool) -> tuple[float, float, float]:
    """Variance of the scores of N(0, 1) queries and keys; means over 400 rows of 50 scores of their
    largest weight and of the norm of the gradient that they get from a random one of weights."""
    shape = (20_000, 1, 1, d_key)
    q = draw_normal(*shape)
    k = draw_normal(*shape, seed=1)
    score = DotProduct(1, d_key, d_key, d_key, scale=scale)
    scores = score(q, k).view(400, 50)
    scores.requires_grad_()
    weights = attention_weights(scores)
    of_weights = draw_normal(400, 50)
    (gradient,) = torch.autograd.grad(weights, scores, of_weights)
    variance = scores.var().item()
    peaks = weights.amax(dim=-1)
    norms = gradient.norm(dim=-1)
    return variance, peaks.mean().item(), norms.mean().item()


@claim("C14", "N", "Causal mask: no weight above the diagonal, no leak")
def causal_mask_hides_later_tokens() -> Finding:
    """A weight above the diagonal, or an output that changes with a later token, as it does without
    the mask."""
    layer = random_attention()
    causal = Causal()(*grid(7))
    x = draw_normal(1, 7, 8)
    changed = x.clone()
    later = draw_normal(1, 3, 8, seed=1)
    changed[:, 4:] = later
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


@claim("C16", "N", "Heads joined by W_O are a sum of low-rank maps W_up·W_down")
def joined_heads_are_a_sum_of_low_rank_maps() -> Finding:
    """An output other than the sum over heads of weights · x · W_down · W_up, of rank 2 each."""
    layer = random_attention(8, 3, 2, d_output=8)
    x = draw_normal(2, 7, 8)
    weights = layer.weights(x).unbind(dim=1)  # of each head: (B, T queries, T keys)
    w_down = layer.v_proj.weight.chunk(3, dim=0)  # of each head: (K, D)
    w_up = layer.out_proj.weight.chunk(3, dim=1)  # of each head: (D, K)
    total = torch.zeros(2, 7, 8)
    for mixing, down, up in zip(weights, w_down, w_up, strict=True):
        low_rank = up @ down  # (D, D)
        mixed = mixing @ x
        total = total + mixed @ low_rank.T
    output = layer(x)
    return judge_equality((output, total))


@claim("C19", "K, D", "Padding masked before softmax has no effect; `mul` loses weight")
def padding_masked_before_softmax_has_no_effect() -> Finding:
    """A result that changes with the tokens at padding; weights other than K's, who subtracts 1e12;
    or rows of `mul` that sum to 1."""
    layer = random_attention()
    pool = MaskedMean(8)
    x = draw_normal(1, 8, 8)
    padding = torch.arange(8)[None] < 3
    real = real_keys(padding)
    changed = x.masked_fill(padding[..., None], 9.0)
    output = layer(x, real)
    pooled = pool(output, padding)
    output_changed = layer(changed, real)
    pooled_changed = pool(output_changed, padding)
    q, k = layer.queries_and_keys(x)
    scores = layer.score(q, k)
    scores_of_k = scores - 1e12 * padding
    weights_of_k = scores_of_k.softmax(dim=-1)
    multiplying = random_attention(mask_mode="mul")
    multiplied = multiplying.weights(x, real)
    sums = multiplied.sum(dim=-1)
    largest_sum = sums.max().item()
    return judge_equality(
        (pooled, pooled_changed),
        (layer.weights(x, real), weights_of_k),
        also=largest_sum < 0.999,
        shown=f"rows of `mul` sum to {largest_sum:.2f} or less",
    )
