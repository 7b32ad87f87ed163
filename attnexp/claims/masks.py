"""Claims about masks."""

import torch

from attnexp.claims.finding import Finding, claim, judge_equality, max_abs_diff
from attnexp.claims.samples import draw_normal, random_attention
from attnexp.model.mixers import MaskedMean
from attnexp.model.scores import Causal, attention_weights, grid, real_keys


@claim("C03", "D", "Masked softmax takes lengths (B,) or (B,T); rows still sum to 1")
def masked_keys_get_no_weight() -> Finding:
    """Hidden weights are exactly 0, the others a softmax over what is left."""
    scores = draw_normal(2, 3, 5)
    of_texts = torch.tensor([2, 4]).view(2, 1, 1)
    of_queries = torch.tensor([[1, 3, 5], [2, 4, 1]]).view(2, 3, 1)
    pairs = []
    for lengths in (of_texts, of_queries):
        allowed = (torch.arange(5) < lengths).expand(2, 3, 5)
        weights = attention_weights(scores, allowed)
        exponentials = scores.exp() * allowed
        softmax = exponentials / exponentials.sum(dim=-1, keepdim=True)
        pairs += [(weights, softmax), (weights > 0, allowed)]
    return judge_equality(*pairs)


@claim("C14", "N", "Causal mask: no weight above the diagonal, no leak")
def causal_mask_hides_later_tokens() -> Finding:
    """The last three of seven tokens change; earlier outputs do not, but do without a mask."""
    layer = random_attention()
    causal = Causal()(*grid(7))
    x = draw_normal(1, 7, 8)
    changed = x.clone()
    changed[:, 4:] = draw_normal(1, 3, 8, seed=1)

    weights = layer.weights(x, causal)
    before = layer(x, causal)[:, :4]
    after = layer(changed, causal)[:, :4]
    change = max_abs_diff((layer(x)[:, :4], layer(changed)[:, :4]))
    return judge_equality(
        (weights, weights.tril()),
        (before, after),
        within=0,
        also=change > 1e-3,
        shown=f"without a mask by {change:.2g}",
    )


@claim("C19", "K, D", "Padding masked before softmax has no effect; `mul` loses weight")
def padding_masked_before_softmax_has_no_effect() -> Finding:
    """Other tokens at padding change nothing; weights are K's, who subtracts 1e12."""
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
    sum_of_row = float(after_softmax.sum(dim=-1).max())
    return judge_equality(
        (pooled, pooled_changed),
        (layer.weights(x, real), of_k),
        also=sum_of_row < 0.999,
        shown=f"rows of `mul` sum to {sum_of_row:.2f} or less",
    )
