"""Scores, each against a loop over every pair of a query and a key."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from attnexp.claims.measure import normal
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.scores import Additive, Cosine, DotProduct, Uniform
from attnexp.model.seams import Score

B, H, T, K = 2, 3, 5, 4


def cosine() -> Cosine:
    score = Cosine(H, K, K, K).double()
    score.log_temperature.data = normal(H)
    return score


def check(score: nn.Module, q: Tensor, k: Tensor, one: Callable[..., Tensor]) -> None:
    """`one` scores head h, one query and one key."""
    expected = torch.empty(B, H, T, T, dtype=torch.float64)
    for b in range(B):
        for h in range(H):
            for i in range(T):
                for j in range(T):
                    expected[b, h, i, j] = one(h, q[b, h, i], k[b, h, j])
    torch.testing.assert_close(score(q, k), expected, rtol=1e-12, atol=1e-12)


def test_cosine_pair_by_pair() -> None:
    score = cosine()

    def one(h: int, q: Tensor, k: Tensor) -> Tensor:
        cosine: Tensor = (q @ k) / (q.norm() * k.norm())
        return score.log_temperature[h].exp() * cosine

    check(score, normal(B, H, T, K), normal(B, H, T, K, seed=1), one)


def test_cosine_does_not_see_lengths() -> None:
    q, k = normal(B, H, T, K), normal(B, H, T, K, seed=1)
    torch.testing.assert_close(cosine()(7 * q, 0.1 * k), cosine()(q, k))


def test_uniform_is_zero() -> None:
    assert Uniform(H, K, K, K)(normal(B, H, T, K), normal(B, H, T + 1, K)).shape == (B, H, T, T + 1)
    assert not Uniform(H, K, K, K)(normal(B, H, T, K), normal(B, H, T, K)).any()


@pytest.mark.parametrize("score", [DotProduct, Cosine, Uniform])
def test_only_additive_scores_join_two_widths(score: type[Score]) -> None:
    """C15."""
    with pytest.raises(ValueError, match="additive ones do not"):
        MultiHeadSelfAttention(8, num_heads=2, d_head=4, d_query=3, score=score)
    attention = MultiHeadSelfAttention(8, num_heads=2, d_head=4, d_query=3, score=Additive)
    assert attention(torch.ones(1, 5, 8)).shape == (1, 5, 8)


def test_the_scale_is_that_of_the_keys_width() -> None:
    wide = MultiHeadSelfAttention(8, num_heads=2, d_head=4, d_query=16, d_key=16)
    assert isinstance(wide.score, DotProduct)
    assert wide.score.scale == 1 / math.sqrt(16)
