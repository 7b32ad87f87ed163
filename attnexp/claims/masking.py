"""Claims about what a mask hides: C03, C14, C19.

Shapes: B batch, T tokens.
"""

from pathlib import Path

import torch
from torch import Tensor

from attnexp.claims.claim import Claim, Finding
from attnexp.claims.measure import EXACT, apart, normal, rough, worst
from attnexp.model import masks, pooling
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.block import Block
from attnexp.model.softmax import attention_weights


def c03(_results: Path) -> Finding:
    """C03: lengths a review, or a query, hide what stands beyond: weight 0, rows sum to 1."""
    scores, beyond, sums, gaps = normal(2, 3, 5), [], [], []
    for lengths in (torch.tensor([2, 4]), torch.tensor([[1, 3, 5], [2, 4, 1]])):
        allowed = torch.arange(5) < lengths.view(2, -1, 1)  # (B, 1 or queries, keys)
        weights = attention_weights(scores, allowed)
        seen = scores.exp() * allowed
        beyond.append((weights * ~allowed).abs().max().item())
        sums.append((weights.sum(dim=-1) - 1).abs().max().item())
        gaps.append(apart(weights, seen / seen.sum(dim=-1, keepdim=True)))
    hidden, total, gap = worst(*beyond), worst(*sums), worst(*gaps)
    return Finding.exact(
        hidden == 0 and worst(total, gap) <= EXACT,
        f"(2,) and (2, 3): hidden weights {hidden:g}, sums off 1 by {total:.1g}, "
        f"values by {gap:.1g} (tolerance {EXACT:g})",
    )


def c14(_results: Path) -> Finding:
    """C14: under a causal mask, put in before softmax, nothing later reaches anything earlier."""
    x, causal = normal(1, 7, 8), masks.Causal()(*masks.grid(7))
    later = torch.cat([x[:, :4], normal(1, 3, 8, seed=1)], dim=1)
    earlier_moves = {}
    for mode in ("add", "mul"):
        layer = rough(MultiHeadSelfAttention, 8, num_heads=2, d_head=4, mask_mode=mode)
        earlier_moves[mode] = apart(layer(x, causal)[:, :4], layer(later, causal)[:, :4])
    layer = rough(MultiHeadSelfAttention, 8, num_heads=2, d_head=4)
    above = layer.weights(x, causal).triu(diagonal=1).abs().max().item()
    unmasked = apart(layer(x)[:, :4], layer(later)[:, :4])
    return Finding.exact(
        above == 0 and earlier_moves["add"] == 0 and unmasked > 1e-3,
        f"weights above {above:g}, earlier outputs move {earlier_moves['add']:g} (exact); "
        f"unmasked {unmasked:.2g}; masked after softmax {earlier_moves['mul']:.2g}",
    )


def c19(_results: Path) -> Finding:
    """C19: hidden before softmax, padding changes nothing; zeroed after, rows lose weight."""
    x, padding = normal(1, 8, 8), torch.arange(8)[None] < 3
    other = torch.where(padding[..., None], normal(1, 8, 8, seed=1), x)
    layer, allowed = _hiding("add"), masks.real_keys(padding)
    weight = layer.attention.weights(x, allowed)[..., :3].abs().max().item()
    y = _pooled(layer, x, padding)
    gap = worst(
        apart(y, _pooled(layer, other, padding)),
        apart(y, _pooled(layer, x[:, 3:], padding[:, 3:])),
        apart(layer.attention.weights(x, allowed), _as_k_wrote_it(layer.attention, x, padding)),
    )
    sums = _hiding("mul").attention.weights(x, allowed).sum(dim=-1)
    return Finding.exact(
        weight == 0 and gap <= EXACT and sums.max().item() < 1 - 1e-3,
        f"padding weighs {weight:g}, changes {gap:.1g} (tolerance {EXACT:g}); "
        f"`mul`: rows sum to {sums.min().item():.2f}–{sums.max().item():.2f}",
    )


def _hiding(mode: str) -> Block:
    attention = rough(MultiHeadSelfAttention, 8, num_heads=2, d_head=4, mask_mode=mode)
    return rough(Block, attention, d_input=8)


def _pooled(layer: Block, x: Tensor, padding: Tensor) -> Tensor:
    y = layer(x, padding, masks.real_keys(padding))
    pooled: Tensor = pooling.MaskedMean(y.shape[-1])(y, padding)
    return pooled


def _as_k_wrote_it(attention: MultiHeadSelfAttention, x: Tensor, padding: Tensor) -> Tensor:
    """K's weights: subtract 1e12 from the scores of padding, then softmax."""
    scores = attention.score(*attention.queries_and_keys(x))
    weights: Tensor = (scores - 1e12 * padding[:, None, None]).softmax(dim=-1)
    return weights


CLAIMS = [
    Claim(
        "C03", "D", "masked softmax takes lengths (B,) or (B, queries); rows still sum to 1", c03
    ),
    Claim("C14", "N", "causal mask: weights above the diagonal 0, no later token leaks back", c14),
    Claim(
        "C19", "K, D", "padding masked before softmax changes nothing; `mul` rows lose weight", c19
    ),
]
