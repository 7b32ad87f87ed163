"""Claims about what a mask hides: C03, C14, C19.

Shapes: B batch, T tokens.
"""

import torch
from torch import Tensor

from attnexp.claims.claim import Finding, claim
from attnexp.claims.measure import (
    EXACT,
    max_abs_diff,
    max_or_nan,
    normal,
    random_attention,
    with_random_weights,
)
from attnexp.model import mixers
from attnexp.model import scores as masks
from attnexp.model.attention import Block, MultiHeadSelfAttention
from attnexp.model.scores import attention_weights


@claim("C03", "D")
def c03() -> Finding:
    """Masked softmax takes lengths (B,) or (B, queries); rows still sum to 1."""
    scores, beyond, sums, gaps = normal(2, 3, 5), [], [], []
    for lengths in (torch.tensor([2, 4]), torch.tensor([[1, 3, 5], [2, 4, 1]])):
        allowed = torch.arange(5) < lengths.view(2, -1, 1)  # (B, 1 or queries, keys)
        weights = attention_weights(scores, allowed)
        seen = scores.exp() * allowed
        beyond.append((weights * ~allowed).abs().max().item())
        sums.append((weights.sum(dim=-1) - 1).abs().max().item())
        gaps.append(max_abs_diff(weights, seen / seen.sum(dim=-1, keepdim=True)))
    hidden, total, gap = max_or_nan(*beyond), max_or_nan(*sums), max_or_nan(*gaps)
    return Finding.exact(
        hidden == 0 and max_or_nan(total, gap) <= EXACT,
        f"(2,) and (2, 3): hidden weights {hidden:g}, sums off 1 by {total:.1g}, "
        f"values by {gap:.1g} (tolerance {EXACT:g})",
    )


@claim("C14", "N")
def c14() -> Finding:
    """Causal mask: weights above the diagonal are 0, no later token leaks."""
    x, causal = normal(1, 7, 8), masks.Causal()(*masks.grid(7))
    later = torch.cat([x[:, :4], normal(1, 3, 8, seed=1)], dim=1)
    earlier_moves = {}
    for mode in ("add", "mul"):
        layer = random_attention(mask_mode=mode)
        earlier_moves[mode] = max_abs_diff(layer(x, causal)[:, :4], layer(later, causal)[:, :4])
    layer = random_attention()
    above = layer.weights(x, causal).triu(diagonal=1).abs().max().item()
    unmasked = max_abs_diff(layer(x)[:, :4], layer(later)[:, :4])
    return Finding.exact(
        above == 0 and earlier_moves["add"] == 0 and unmasked > 1e-3,
        f"weights above {above:g}, earlier outputs move {earlier_moves['add']:g} (exact); "
        f"unmasked {unmasked:.2g}; masked after softmax {earlier_moves['mul']:.2g}",
    )


@claim("C19", "K, D")
def c19() -> Finding:
    """Padding masked before softmax has no effect; rows of `mul` lose weight."""
    x, padding = normal(1, 8, 8), torch.arange(8)[None] < 3
    other = torch.where(padding[..., None], normal(1, 8, 8, seed=1), x)
    layer, allowed = _hiding("add"), masks.real_keys(padding)
    weight = layer.attention.weights(x, allowed)[..., :3].abs().max().item()
    y = _pooled(layer, x, padding)
    gap = max_or_nan(
        max_abs_diff(y, _pooled(layer, other, padding)),
        max_abs_diff(y, _pooled(layer, x[:, 3:], padding[:, 3:])),
        max_abs_diff(
            layer.attention.weights(x, allowed), _as_k_wrote_it(layer.attention, x, padding)
        ),
    )
    sums = _hiding("mul").attention.weights(x, allowed).sum(dim=-1)
    return Finding.exact(
        weight == 0 and gap <= EXACT and sums.max().item() < 1 - 1e-3,
        f"padding weighs {weight:g}, changes {gap:.1g} (tolerance {EXACT:g}); "
        f"`mul`: rows sum to {sums.min().item():.2f}–{sums.max().item():.2f}",
    )


def _hiding(mode: str) -> Block:
    attention = random_attention(mask_mode=mode)
    return with_random_weights(Block, attention, d_input=8)


def _pooled(layer: Block, x: Tensor, padding: Tensor) -> Tensor:
    y = layer(x, padding, masks.real_keys(padding))
    pooled: Tensor = mixers.MaskedMean(y.shape[-1])(y, padding)
    return pooled


def _as_k_wrote_it(attention: MultiHeadSelfAttention, x: Tensor, padding: Tensor) -> Tensor:
    """K's weights: subtract 1e12 from the scores of padding, then softmax."""
    scores = attention.score(*attention.queries_and_keys(x))
    weights: Tensor = (scores - 1e12 * padding[:, None, None]).softmax(dim=-1)
    return weights
