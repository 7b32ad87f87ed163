"""Embeddings before attention, mixers in its place, poolings after it.

Shapes: B batch, T tokens, V vocabulary, D width. `key_padding_mask` is (B, T), True at padding."""

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from annotated_types import Ge
from torch import Tensor, nn
from typing_extensions import Doc

from attnexp.model.init import KerasInit, Stream, init_table
from attnexp.model.seams import Embedding, Mixer, Pooling

Kernel = Annotated[int, Ge(1), Doc("Kernel size.")]


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
    Pooled by a mean this is a bag of n-grams. There are many: they share `buckets` rows by hash."""

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
        """The row of each token's n-gram, (B, T), as if padding stood before the first token."""
        ids = ids.long()
        num_tokens = ids.shape[-1]
        hashed = torch.zeros_like(ids)
        for back in reversed(range(self.n)):
            earlier = F.pad(ids, (back, 0))[..., :num_tokens]
            hashed = (hashed + earlier) * 0x2545F4914F6CDD1D  # odd; wraps around at 2^64
            # A product alone is linear in the ids, and "a b" would meet "b a": fold it down.
            upper_half = (hashed >> 32) & 0xFFFFFFFF
            hashed = hashed ^ upper_half
        return hashed % self.buckets


class Convolution(Mixer, KerasInit):
    """relu(conv(x)): each token from its `kernel` nearest, itself in the middle, zeros at the ends.
    L layers reach L (kernel - 1) / 2 tokens to either side (C27). Kernel 1 is one matrix for every
    position (C24); kernel 3 costs what three projections do (C23). Raises `ValueError` if even."""

    def __init__(self, d_input: int, d_model: int, *, kernel: Kernel = 3) -> None:
        super().__init__()
        if kernel % 2 == 0:
            raise ValueError(f"a convolution's kernel must be odd, to have a middle; got {kernel}")
        self.d_output = d_model
        self.conv = nn.Conv1d(d_input, d_model, kernel, padding=kernel // 2)

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, d_output), nowhere negative."""
        y = self.conv(x.transpose(-2, -1))  # Channels come before tokens.
        return F.relu(y.transpose(-2, -1))


class LSTM(Mixer, KerasInit):
    """Each token from all before it, one step at a time (C21, C27); one bias, as in Keras."""

    def __init__(self, d_input: int, d_model: int) -> None:
        super().__init__()
        self.d_output = d_model
        self.rnn = nn.LSTM(d_input, d_model, batch_first=True)
        self.rnn.bias_hh_l0.requires_grad_(False)  # torch's second, which starts at 0

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, d_output): the hidden state after every token."""
        y: Tensor = self.rnn(x)[0]
        return y


class Mean(Pooling):
    """Mean over all T positions, padding included, as K's GlobalAveragePooling1D does."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        return x.mean(dim=-2)


class MaskedMean(Pooling):
    """Mean over real tokens."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        real = ~key_padding_mask.unsqueeze(-1)
        num_real = real.sum(dim=-2).clamp(min=1)
        total = (x * real).sum(dim=-2)
        return total / num_real


class Maximum(Pooling):
    """The largest of each column over real tokens."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        is_padding = key_padding_mask.unsqueeze(-1)
        x = x.masked_fill(is_padding, -math.inf)
        highest = x.amax(dim=-2)
        is_empty = key_padding_mask.all(dim=-1, keepdim=True)
        return highest.masked_fill(is_empty, 0.0)


class Last(Pooling):
    """The last real token, as an LSTM is read."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        position = torch.arange(x.shape[-2], device=x.device)
        real_positions = position * ~key_padding_mask
        last = real_positions.amax(dim=-1)
        index = last[..., None, None]
        chosen = x.take_along_dim(index, dim=-2)
        is_empty = key_padding_mask.all(dim=-1, keepdim=True)
        return chosen.squeeze(-2).masked_fill(is_empty, 0.0)


class SummaryToken(Pooling):
    """A learned token that the classifier puts in front of all others (Devlin et al. 2019)."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D): position 0."""
        return x[..., 0, :]
