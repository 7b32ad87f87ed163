"""Convolution, recurrence and n-grams: what they compute, and how far they see.

Shapes: B batch, T tokens, D input width.
"""

from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from samples import redrawn

from attnexp.claims.measure import normal
from attnexp.model.embedding import NgramEmbedding
from attnexp.model.mixers import BiLSTM, Convolution, Recurrent

B, T, D = 3, 11, 6

REAL = torch.zeros(B, T, dtype=torch.bool)
"""A `key_padding_mask` without padding."""


@pytest.mark.parametrize("width", [1, 3, 5])
def test_convolution_is_a_sum_over_neighbours_with_zeros_beyond_the_ends(width: int) -> None:
    convolution = redrawn(Convolution(D, 4, kernel=width), std=0.4)
    x, weight, bias = normal(B, T, D), convolution.conv.weight, convolution.conv.bias
    assert bias is not None
    slow = torch.zeros(B, T, 4, dtype=x.dtype)
    for t in range(T):
        slow[:, t] = bias
        for k in range(width):
            s = t + k - width // 2
            if 0 <= s < T:
                slow[:, t] += x[:, s] @ weight[:, :, k].T
    torch.testing.assert_close(convolution(x, REAL), slow.relu())


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_both_ways_is_one_way_and_the_other_on_the_reversed_input(
    cell: Literal["lstm", "gru"],
) -> None:
    both = redrawn(Recurrent(D, 4, cell=cell, bidirectional=True), std=0.4)
    x = normal(B, T, D)
    ways = []
    for suffix in ("", "_reverse"):
        one = Recurrent(D, 2, cell=cell).double()
        weights = both.state_dict()
        one.load_state_dict({name: weights[name + suffix] for name in one.state_dict()})
        ways.append(one)
    forwards, backwards = ways[0](x, REAL), ways[1](x.flip(1), REAL).flip(1)
    torch.testing.assert_close(both(x, REAL), torch.cat([forwards, backwards], dim=-1))


def test_what_cannot_be_built_is_refused() -> None:
    with pytest.raises(ValueError, match="odd, to have a middle; got 2"):
        Convolution(D, 4, kernel=2)
    with pytest.raises(ValueError, match="must be even; got 5"):
        BiLSTM(D, 5)


# N-grams

VOCAB = 50

ids_of = st.lists(st.integers(0, VOCAB - 1), min_size=1, max_size=8)


def ngrams(*, num_buckets: int = 1000, n: int = 2) -> NgramEmbedding:
    return redrawn(NgramEmbedding(VOCAB, D, buckets=num_buckets, n=n), std=0.4)


@given(ids_of, st.integers(1, 4), st.integers(1, 40))
def test_a_bucket_depends_on_the_n_gram_alone_and_lies_in_range(
    ids: list[int], n: int, num_buckets: int
) -> None:
    embedding = NgramEmbedding(VOCAB, 2, buckets=num_buckets, n=n)
    buckets = embedding.rows(torch.tensor([ids]))[0].tolist()
    assert all(0 <= bucket < num_buckets for bucket in buckets)
    padded = [0] * (n - 1) + ids
    for t, bucket in enumerate(buckets):
        ngram = padded[t : t + n]
        assert embedding.rows(torch.tensor([ngram]))[0, -1] == bucket


@given(ids_of, st.integers(1, 5), st.integers(1, 4))
def test_padding_in_front_changes_no_real_token(ids: list[int], padding: int, n: int) -> None:
    embedding = ngrams(n=n)
    short, long = torch.tensor([ids]), torch.tensor([[0] * padding + ids])
    assert torch.equal(embedding(short), embedding(long)[:, padding:])


def test_an_embedding_is_a_word_plus_its_n_gram() -> None:
    embedding = ngrams()
    ids = torch.tensor([[7, 8, 7, 8]], dtype=torch.int32)
    x = embedding(ids)
    torch.testing.assert_close(
        x - embedding.word(ids), embedding.ngram(embedding.rows(ids)), rtol=0, atol=1e-12
    )
    assert torch.equal(x[0, 1], x[0, 3])  # both end "7 8"
    assert not torch.equal(x[0, 0], x[0, 2])  # "7" comes first, then after 8


@pytest.mark.parametrize("num_buckets", [10, 1000, 1024, 20_000])
def test_different_bigrams_meet_no_more_often_than_by_chance(num_buckets: int) -> None:
    embedding = NgramEmbedding(1, 1, buckets=num_buckets)
    first, second = torch.cartesian_prod(torch.arange(300), torch.arange(300, 600)).unbind(-1)
    one = embedding.rows(torch.stack([first, second], dim=-1))[:, 1]
    other = embedding.rows(torch.stack([second, first], dim=-1))[:, 1]
    pairs = len(one)
    # "a b" meets "b a" in 1 of num_buckets pairs, give or take five standard deviations.
    expected = pairs / num_buckets
    assert abs(int((one == other).sum()) - expected) < 5 * expected**0.5 + 1
    # And all buckets fill alike: chi-squared has mean num_buckets, variance twice that.
    counts = one.bincount(minlength=num_buckets)
    chi_squared = float(((counts - expected) ** 2).sum() / expected)
    assert abs(chi_squared - num_buckets) < 5 * (2 * num_buckets) ** 0.5
