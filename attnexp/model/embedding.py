"""Embeddings: from the ids of words to vectors, the only layer that K's model cannot do without.

Shapes: B batch, T tokens, V vocabulary, D model width.
"""

from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Ge
from torch import Tensor, nn
from typing_extensions import Doc

from attnexp.model.init import Stream, init_table
from attnexp.model.seams import Embedding

_ODD = 0x2545F4914F6CDD1D


class WordEmbedding(nn.Embedding, Embedding):
    """A vector for each word."""

    def init_parameters(self, stream: Stream) -> None:
        """Uniform in ±0.05."""
        init_table(self.weight, stream("weight"))

    @property
    def words(self) -> Tensor:
        """(V, D)."""
        return self.weight


class NgramEmbedding(Embedding):
    """A word's vector plus that of the n-gram it ends (fastText: Joulin et al. 2016, section 2.1).

    Pooled by a mean this is a bag of n-grams: word order without attention or position. N-grams
    are too many for a table, so they share `buckets` rows by their hash.
    """

    def __init__(
        self,
        vocab_size: int,
        d_model: int,
        *,
        buckets: Annotated[int, Ge(1), Doc("Number of vectors that n-grams share.")] = 20_000,
        n: Annotated[int, Ge(1), Doc("Words of an n-gram.")] = 2,
    ) -> None:
        super().__init__()
        self.buckets = buckets
        self.n = n
        self.word = nn.Embedding(vocab_size, d_model)
        self.ngram = nn.Embedding(buckets, d_model)

    def init_parameters(self, stream: Stream) -> None:
        """Uniform in ±0.05. Words start from the vectors that `WordEmbedding` gives them."""
        init_table(self.word.weight, stream("weight"))
        init_table(self.ngram.weight, stream("ngram.weight"))

    @property
    def words(self) -> Tensor:
        """(V, D)."""
        return self.word.weight

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) integers -> (B, T, D)."""
        x: Tensor = self.word(ids) + self.ngram(self.rows(ids))
        return x

    def rows(self, ids: Tensor) -> Tensor:
        """The row of each token's n-gram, (B, T), below `buckets`.

        What stands before the first token is padding, so padding in front changes no real token.
        """
        ids = ids.long()
        hashed = torch.zeros_like(ids)
        for back in reversed(range(self.n)):
            earlier = F.pad(ids, (back, 0))[..., : ids.shape[-1]]
            hashed = (hashed + earlier) * _ODD  # wraps around at 2^64
            # Fold the upper half down. A product alone is linear in the ids: under an unlucky
            # number of buckets "a b" and "b a" would then meet far too often.
            hashed = hashed ^ ((hashed >> 32) & 0xFFFFFFFF)
        return hashed % self.buckets
