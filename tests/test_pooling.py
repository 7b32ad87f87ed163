"""Poolings are their loops over real tokens, and a review of padding alone gives zeros."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

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
LAST = [4, 4, 2, 2, None, 3]


def random(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=DENSE)


def attention(d_input: int) -> AttentionPooling:
    pool = AttentionPooling(d_input).to(DENSE)
    with torch.no_grad():
        pool.query.copy_(3 * random(d_input, seed=1))
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
    x, mask = random(len(padding), 6, 3, seed=seed), torch.tensor(padding)
    expected = []
    for review, hidden in zip(x, mask, strict=True):
        tokens = review[~hidden].tolist()
        expected.append(by_loop(tokens) if tokens else [0.0, 0.0, 0.0])
    torch.testing.assert_close(pool(x, mask), torch.tensor(expected, dtype=DENSE))


def test_the_plain_mean_and_the_first_position_mind_no_padding() -> None:
    x = random(6, 5, 3)
    expected = torch.tensor([mean_by_loop(review) for review in x.tolist()], dtype=DENSE)
    torch.testing.assert_close(mean(x, PADDING), expected)
    for i in range(6):
        assert torch.equal(first(x, PADDING)[i], x[i, 0])


def test_the_last_real_token_stands_before_padding_behind() -> None:
    x = random(6, 5, 3)
    for review, got, place in zip(x, last(x, PADDING), LAST, strict=True):
        assert torch.equal(got, torch.zeros(3, dtype=DENSE) if place is None else review[place])


def test_the_maximum_of_negative_numbers_is_negative() -> None:
    """Padding takes part neither as itself nor as zero."""
    x = -random(6, 5, 3).abs() - 1
    x[PADDING] = 100.0
    pooled = maximum(x, PADDING)
    assert (pooled[EMPTY] == 0).all()
    pooled = pooled[torch.arange(6) != EMPTY]
    assert (pooled <= -1).all()


@NAMES
def test_a_review_of_padding_alone_gives_zeros_and_no_nan(name: str) -> None:
    pool, _ = OVER_REAL_TOKENS[name]
    x = random(6, 5, 3).requires_grad_()
    pooled = pool(x, PADDING)
    (pooled * random(6, 3, seed=2)).sum().backward()
    assert x.grad is not None
    assert (pooled[EMPTY] == 0).all()
    assert x.grad.isfinite().all()
    assert (x.grad[PADDING] == 0).all()
    assert x.grad[torch.arange(6) != EMPTY].any(dim=-1).any(dim=-1).all()


@NAMES
def test_what_stands_at_padding_changes_nothing(name: str) -> None:
    """C19."""
    pool, _ = OVER_REAL_TOKENS[name]
    x = random(6, 5, 3)
    other = torch.where(PADDING[..., None], random(6, 5, 3, seed=9), x)
    assert torch.equal(pool(x, PADDING), pool(other, PADDING))


@NAMES
def test_a_batch_is_pooled_as_each_review_alone(name: str) -> None:
    pool, _ = OVER_REAL_TOKENS[name]
    x = random(6, 5, 3)
    together = pool(x, PADDING)
    for i in range(6):
        torch.testing.assert_close(together[i : i + 1], pool(x[i : i + 1], PADDING[i : i + 1]))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@NAMES
def test_poolings_keep_the_number_format(name: str, dtype: torch.dtype) -> None:
    pool = OVER_REAL_TOKENS[name][0] if name != "attention" else attention(3).to(dtype)
    assert pool(random(6, 5, 3).to(dtype), PADDING).dtype is dtype


def test_attention_pooling_starts_as_the_masked_mean_and_learns() -> None:
    pool, x = AttentionPooling(3).to(DENSE), random(6, 5, 3)
    assert {name: tuple(p.shape) for name, p in pool.named_parameters()} == {"query": (3,)}
    pooled = pool(x, PADDING)
    torch.testing.assert_close(pooled, masked_mean(x, PADDING))
    pooled[:, 0].sum().backward()
    assert pool.query.grad is not None
    assert (pool.query.grad != 0).all()
    assert pool.query.grad.isfinite().all()


def test_attention_pooling_weighs_real_tokens_to_a_sum_of_one() -> None:
    """C03."""
    weights = attention(3).weights(random(6, 5, 3), PADDING)
    assert torch.equal(weights > 0, ~PADDING)
    sums = torch.ones(6, dtype=DENSE)
    sums[EMPTY] = 0
    torch.testing.assert_close(weights.sum(dim=-1), sums)


def test_attention_pooling_can_pick_one_token() -> None:
    x = random(2, 5, 3)
    pool = AttentionPooling(3).to(DENSE)
    with torch.no_grad():
        pool.query.copy_(1e4 * x[0, 3] / x[0, 3].norm() ** 2)
    x[0, [0, 1, 2, 4]] *= 0.1  # so that no other token agrees with the query as much
    torch.testing.assert_close(pool(x, torch.zeros(2, 5, dtype=torch.bool))[0], x[0, 3])
