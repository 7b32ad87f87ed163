"""Poolings are their loops over real tokens, and a review of padding alone gives zeros."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from attnexp.claims.measure import normal
from attnexp.model.pooling import (
    AttentionPooling,
    Last,
    MaskedMean,
    Maximum,
    Mean,
    SummaryToken,
)

Pool = Callable[[Tensor, Tensor], Tensor]

DENSE = torch.float64

mean, masked_mean, maximum, last, first = (
    kind(3) for kind in (Mean, MaskedMean, Maximum, Last, SummaryToken)
)

# Six reviews of five positions, 1 at padding: none, in front, behind, on both sides, all, between.
PADDING = torch.tensor(
    [
        [0, 0, 0, 0, 0],
        [1, 1, 0, 0, 0],
        [0, 0, 0, 1, 1],
        [1, 0, 0, 1, 1],
        [1, 1, 1, 1, 1],
        [0, 1, 0, 0, 1],
    ],
    dtype=torch.bool,
)
EMPTY = 4


def attention(d_input: int) -> AttentionPooling:
    pool = AttentionPooling(d_input).to(DENSE)
    with torch.no_grad():
        pool.query.copy_(3 * normal(d_input, seed=1))
    return pool


def mean_by_loop(tokens: list[list[float]]) -> list[float]:
    return [math.fsum(column) / len(tokens) for column in zip(*tokens, strict=True)]


def maximum_by_loop(tokens: list[list[float]]) -> list[float]:
    return [max(column) for column in zip(*tokens, strict=True)]


def last_by_loop(tokens: list[list[float]]) -> list[float]:
    return tokens[-1]


def attention_by_loop(tokens: list[list[float]]) -> list[float]:
    query = attention(3).query.tolist()
    weights = []
    for token in tokens:
        score = math.fsum(a * b for a, b in zip(token, query, strict=True)) / math.sqrt(3)
        weights.append(math.exp(score))
    total = math.fsum(weights)
    return [
        math.fsum(weight * number for weight, number in zip(weights, column, strict=True)) / total
        for column in zip(*tokens, strict=True)
    ]


OVER_REAL_TOKENS: dict[str, tuple[Pool, Callable[[list[list[float]]], list[float]]]] = {
    "masked_mean": (masked_mean, mean_by_loop),
    "maximum": (maximum, maximum_by_loop),
    "last": (last, last_by_loop),
    "attention": (attention(3), attention_by_loop),
}
NAMES = pytest.mark.parametrize("name", OVER_REAL_TOKENS)


@NAMES
@settings(deadline=None)
@given(
    padding=st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4),
    seed=st.integers(0, 100),
)
def test_a_pooling_is_its_loop_over_real_tokens(
    name: str, padding: list[list[bool]], seed: int
) -> None:
    pool, by_loop = OVER_REAL_TOKENS[name]
    x, mask = normal(len(padding), 6, 3, seed=seed), torch.tensor(padding)
    expected = []
    for review, hidden in zip(x, mask, strict=True):
        tokens = review[~hidden].tolist()
        expected.append(by_loop(tokens) if tokens else [0.0, 0.0, 0.0])
    torch.testing.assert_close(pool(x, mask), torch.tensor(expected, dtype=DENSE))


def test_the_plain_mean_and_the_first_position_mind_no_padding() -> None:
    x = normal(6, 5, 3)
    expected = torch.tensor([mean_by_loop(review) for review in x.tolist()], dtype=DENSE)
    torch.testing.assert_close(mean(x, PADDING), expected)
    for i in range(6):
        assert torch.equal(first(x, PADDING)[i], x[i, 0])


@NAMES
def test_a_review_of_padding_alone_gives_zeros_and_no_nan(name: str) -> None:
    pool, _ = OVER_REAL_TOKENS[name]
    x = normal(6, 5, 3).requires_grad_()
    pooled = pool(x, PADDING)
    (pooled * normal(6, 3, seed=2)).sum().backward()
    assert x.grad is not None
    assert (pooled[EMPTY] == 0).all()
    assert x.grad.isfinite().all()
    assert (x.grad[PADDING] == 0).all()
    assert x.grad[torch.arange(6) != EMPTY].any(dim=-1).any(dim=-1).all()


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@NAMES
def test_poolings_keep_the_number_format(name: str, dtype: torch.dtype) -> None:
    pool = OVER_REAL_TOKENS[name][0] if name != "attention" else attention(3).to(dtype)
    assert pool(normal(6, 5, 3).to(dtype), PADDING).dtype is dtype


def test_attention_pooling_starts_as_the_masked_mean_and_learns() -> None:
    pool, x = AttentionPooling(3).to(DENSE), normal(6, 5, 3)
    assert {name: tuple(p.shape) for name, p in pool.named_parameters()} == {"query": (3,)}
    pooled = pool(x, PADDING)
    torch.testing.assert_close(pooled, masked_mean(x, PADDING))
    pooled[:, 0].sum().backward()
    assert pool.query.grad is not None
    assert (pool.query.grad != 0).all()
    assert pool.query.grad.isfinite().all()
