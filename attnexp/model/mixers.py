"""Everything around attention: embeddings before it, mixers in its place, poolings after it.

Shapes: B batch, T tokens, V vocabulary, D width. `key_padding_mask` is (B, T), True at padding.
"""

import math
from typing import Annotated

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnexp.model.init import Stream, init_layers, init_table
from attnexp.model.scores import attention_weights
from attnexp.model.seams import Embedding, Even, Mixer, Pooling

# Embeddings: ids (B, T) -> (B, T, D)


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
        buckets: Annotated[int, ">= 1", "Number of vectors that n-grams share."] = 20_000,
        n: Annotated[int, ">= 1", "Words of an n-gram."] = 2,
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
            hashed = (hashed + earlier) * 0x2545F4914F6CDD1D  # odd; wraps around at 2^64
            # Fold the upper half down. A product alone is linear in the ids: under an unlucky
            # number of buckets "a b" and "b a" would then meet far too often.
            hashed = hashed ^ ((hashed >> 32) & 0xFFFFFFFF)
        return hashed % self.buckets


# Mixers: (B, T, D) -> (B, T, d_output). Like K's attention without a mask, they read padding as
# tokens.


class Convolution(Mixer):
    """relu(conv(x)): each token from its `kernel` nearest, itself in the middle.

    Beyond both ends stand zeros. L layers reach L (width - 1) / 2 tokens to either side (C27);
    kernel 1 is the position-wise layer of Vaswani et al. 2017, section 3.3, without its second
    matrix (C24). Kernel 3 costs what three projections cost (C23).

    Raises `ValueError` for an even kernel, which has no middle.
    """

    def __init__(
        self,
        d_input: int,
        d_model: int,
        *,
        kernel: Annotated[int, ">= 1", "odd", "Tokens from which one is computed."] = 3,
    ) -> None:
        super().__init__()
        if kernel % 2 == 0:
            raise ValueError(f"a convolution's kernel must be odd, to have a middle; got {kernel}")
        self.d_output = d_model
        self.conv = nn.Conv1d(d_input, d_model, kernel, padding=kernel // 2)

    def init_parameters(self, stream: Stream) -> None:
        """Glorot uniform, bias 0."""
        init_layers(self, stream, "conv")

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, d_output), nowhere negative."""
        y: Tensor = self.conv(x.transpose(-2, -1))
        return y.transpose(-2, -1).relu()


class Recurrent(Mixer):
    """Each token from all before it, one step at a time (C21, C27); padding takes steps too.

    torch gives an LSTM two bias vectors and Keras one; only their sum matters, so the second stays
    at its start, which is 0.
    """

    cell: type[nn.LSTM | nn.GRU]
    directions = 1

    def __init__(self, d_input: int, d_model: int) -> None:
        super().__init__()
        if d_model % self.directions:
            raise ValueError(f"two directions share d_model, so it must be even; got {d_model}")
        self.d_output = d_model
        is_bidirectional = self.directions == 2
        width = d_model // self.directions
        self.rnn = self.cell(d_input, width, batch_first=True, bidirectional=is_bidirectional)
        for name, parameter in self.rnn.named_parameters():
            parameter.requires_grad_(self.cell is not nn.LSTM or not name.startswith("bias_hh"))

    def init_parameters(self, stream: Stream) -> None:
        """Input matrices Glorot uniform, recurrent ones orthogonal, biases 0, forget gates 1."""
        init_layers(self, stream, "rnn")

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, d_output): the hidden state after every token."""
        y: Tensor = self.rnn(x)[0]
        return y


class LSTM(Recurrent):
    """Keras's, but without dropout between time steps."""

    cell = nn.LSTM


class BiLSTM(LSTM):
    """Two LSTMs of half the width, one in either direction. Raises `ValueError` for an odd one."""

    directions = 2

    def __init__(self, d_input: int, d_model: Even) -> None:
        super().__init__(d_input, d_model)


class GRU(Recurrent):
    """torch's, whose reset gate acts after the recurrent product."""

    cell = nn.GRU


# Poolings: (B, T, D) -> (B, D)


class Mean(Pooling):
    """Over all T positions, padding included, as K's GlobalAveragePooling1D does."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        return x.mean(dim=-2)


class RealTokens(Pooling):
    """A pooling to which padding is nothing. A text of padding alone gives zeros."""


class MaskedMean(RealTokens):
    """Over real tokens only."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        real = ~key_padding_mask[..., None]
        return (x * real).sum(dim=-2) / real.sum(dim=-2).clamp(min=1)


class Maximum(RealTokens):
    """The largest of each column over real tokens."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        highest = x.masked_fill(key_padding_mask[..., None], -math.inf).amax(dim=-2)
        return highest.masked_fill(key_padding_mask.all(dim=-1, keepdim=True), 0.0)


class Last(RealTokens):
    """The last real token, as an LSTM is read."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        place = torch.arange(x.shape[-2], device=x.device)
        index = (place * ~key_padding_mask).amax(dim=-1)
        chosen = x.take_along_dim(index[..., None, None], dim=-2).squeeze(-2)
        return chosen.masked_fill(key_padding_mask.all(dim=-1, keepdim=True), 0.0)


class SummaryToken(RealTokens):
    """A learned token that the classifier puts in front of all others (Devlin et al. 2019)."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D): position 0."""
        return x[..., 0, :]


class AttentionPooling(RealTokens):
    """softmax(x u / sqrt(D)) x over real tokens, for one learned query u.

    The word attention of Yang et al. 2016, section 2.2, without its hidden layer. u starts at
    zero, which is the masked mean.
    """

    def __init__(self, d_input: int) -> None:
        super().__init__(d_input)
        self.query = nn.Parameter(torch.zeros(d_input))

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, D)."""
        weights = self.weights(x, key_padding_mask)
        return (weights[..., None, :] @ x).squeeze(-2)

    def weights(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """How much each token counts: (B, T)."""
        scores = x @ (self.query / math.sqrt(x.shape[-1]))
        return attention_weights(scores, ~key_padding_mask)
