"""Poolings are their formulas over real tokens, and a review of padding alone gives zeros."""

import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from attnexp.claims.measure import normal
from attnexp.model.pooling import AttentionPooling, Last, MaskedMean, Maximum, Mean, SummaryToken

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


OVER_REAL_TOKENS: dict[str, tuple[Pool, Callable[[Tensor], Tensor]]] = {
    "masked_mean": (masked_mean, lambda x: x.mean(dim=0)),
    "maximum": (maximum, lambda x: x.amax(dim=0)),
    "last": (last, lambda x: x[-1]),
    "attention": (
        attention(3),
        lambda x: (x @ attention(3).query / math.sqrt(3)).softmax(dim=0) @ x,
    ),
}
"""Poolings, and what each gives for the real tokens (T, D) of one review."""
NAMES = pytest.mark.parametrize("name", OVER_REAL_TOKENS)


@NAMES
@given(
    padding=st.lists(st.lists(st.booleans(), min_size=6, max_size=6), min_size=1, max_size=4),
    seed=st.integers(0, 100),
)
def test_a_pooling_is_its_formula_over_real_tokens(
    name: str, padding: list[list[bool]], seed: int
) -> None:
    pool, of_one = OVER_REAL_TOKENS[name]
    x, mask = normal(len(padding), 6, 3, seed=seed), torch.tensor(padding)
    expected = [
        of_one(review[~hidden]) if not hidden.all() else torch.zeros(3, dtype=DENSE)
        for review, hidden in zip(x, mask, strict=True)
    ]
    torch.testing.assert_close(pool(x, mask), torch.stack(expected))


def test_the_plain_mean_and_the_first_position_mind_no_padding() -> None:
    x = normal(6, 5, 3)
    torch.testing.assert_close(mean(x, PADDING), x.sum(dim=1) / 5)
    assert torch.equal(first(x, PADDING), x[:, 0])


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


def test_attention_pooling_starts_as_the_masked_mean_and_learns() -> None:
    pool, x = AttentionPooling(3).to(DENSE), normal(6, 5, 3)
    assert {name: tuple(p.shape) for name, p in pool.named_parameters()} == {"query": (3,)}
    pooled = pool(x, PADDING)
    torch.testing.assert_close(pooled, masked_mean(x, PADDING))
    pooled[:, 0].sum().backward()
    assert pool.query.grad is not None
    assert (pool.query.grad != 0).all()
    assert pool.query.grad.isfinite().all()
