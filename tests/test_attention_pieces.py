"""Attention with each piece that acts inside it, against loops over heads, queries and keys."""

import math

import pytest
import torch
from torch import Tensor, nn

from attnexp.model import masks
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.biases import AlibiBias, RelativeBias
from attnexp.model.rotary import RotaryPosition
from attnexp.model.scores import Additive, Cosine, Uniform

B, T, D, H, K = 2, 6, 8, 2, 4
X = torch.randn(B, T, D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)

PIECES: dict[str, dict[str, object]] = {
    "none": {},
    "rotary": {"rotary": RotaryPosition(K)},
    "relative": {"bias": RelativeBias(H, max_distance=2)},
    "alibi": {"bias": AlibiBias(H)},
    "cosine": {"score": Cosine},
    "additive": {"score": Additive, "d_query": 3, "d_key": 5, "d_value": 2},
    "uniform": {"score": Uniform},
    "additive alibi": {"score": Additive, "bias": AlibiBias(H)},
}


def build(name: str) -> MultiHeadSelfAttention:
    attention = MultiHeadSelfAttention(D, num_heads=H, d_head=K, **PIECES[name]).double()  # type: ignore[arg-type]
    for seed, parameter in enumerate(attention.parameters()):
        nn.init.normal_(parameter, generator=torch.Generator().manual_seed(seed))
    return attention


def slow(attention: MultiHeadSelfAttention, allowed: Tensor) -> Tensor:
    """One number at a time; `allowed` (T, T)."""
    positions = torch.arange(T)
    v = attention.split_heads(attention.v_proj(X))
    y = torch.zeros(B, T, H, v.shape[-1], dtype=torch.float64)
    for b in range(B):
        for h in range(H):
            for i in range(T):
                scores = {}
                for j in range(T):
                    if allowed[i, j]:
                        q, k = (
                            attention.split_heads(projection(X))[b, h, at]
                            for projection, at in ((attention.q_proj, i), (attention.k_proj, j))
                        )
                        scores[j] = score(attention, h, q, k, i, j)
                        if attention.bias is not None:
                            scores[j] += float(attention.bias(positions)[h, i, j])
                total = sum(math.exp(value) for value in scores.values())
                for j, value in scores.items():
                    y[b, i, h] += math.exp(value) / total * v[b, h, j]
    return y.flatten(-2)


def score(attention: MultiHeadSelfAttention, h: int, q: Tensor, k: Tensor, i: int, j: int) -> float:
    if attention.rotary is not None:
        q, k = (
            attention.rotary(one.view(1, 1, 1, -1), torch.tensor([at])).view(-1)
            for one, at in ((q, i), (k, j))
        )
    q, k = (one.expand(1, H, 1, -1) for one in (q, k))
    return float(attention.score(q, k)[0, h, 0, 0])


@pytest.mark.parametrize("name", PIECES)
@pytest.mark.parametrize("pattern", ["full", "causal", "window"])
def test_every_piece_is_its_slow_and_obvious_self(name: str, pattern: str) -> None:
    query, key = masks.grid(T)
    allowed = {
        "full": torch.ones(T, T, dtype=torch.bool),
        "causal": masks.Causal()(query, key),
        "window": masks.Window(radius=1)(query, key),
    }[pattern]
    attention = build(name)
    with torch.no_grad():
        torch.testing.assert_close(attention(X, allowed), slow(attention, allowed))


def test_the_pieces_differ() -> None:
    outputs = [build(name)(X).sum().item() for name in PIECES if name != "additive"]
    assert len({round(value, 6) for value in outputs}) == len(outputs)
