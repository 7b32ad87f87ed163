"""What may stand in attention's place: convolution, recurrence, and n-grams before any layer.

Shapes: B batch, T tokens, D input width. A mixer takes x (B, T, D) and `key_padding_mask` (B, T),
True at padding, and returns (B, T, `d_output`). Like K's attention without a mask, convolution and
recurrence read padding as tokens.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

_ODD = 0x2545F4914F6CDD1D


class Convolution(nn.Module):
    """relu(conv(x)): each token from its `width` nearest, itself in the middle.

    Beyond both ends stand zeros. L layers reach L (width - 1) / 2 tokens to either side (C27);
    width 1 is the position-wise layer of Vaswani et al. 2017, section 3.3, without its second
    matrix (C24). Width 3 costs what three projections cost (C23).

    Raises `ValueError` for an even width, which has no middle.
    """

    def __init__(self, d_input: int, d_output: int, *, width: int = 3) -> None:
        super().__init__()
        if width % 2 == 0:
            raise ValueError(f"a convolution's width must be odd, to have a middle; got {width}")
        self.d_output = d_output
        self.conv = nn.Conv1d(d_input, d_output, width, padding=width // 2)

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, d_output), nowhere negative."""
        y: Tensor = self.conv(x.transpose(-2, -1))
        return y.transpose(-2, -1).relu()


class Recurrent(nn.Module):
    """An LSTM or GRU: each token from all before it, one step at a time (C21, C27).

    With `bidirectional`, half the output reads forwards and half backwards. Padding takes steps
    too, as in Keras without masking. torch gives an LSTM two bias vectors and Keras one; only their
    sum matters, so the second stays at its start, which is 0.

    Raises `ValueError` for an unknown cell, or an odd width to halve.
    """

    def __init__(
        self, d_input: int, d_output: int, *, cell: str = "lstm", bidirectional: bool = False
    ) -> None:
        super().__init__()
        if cell not in ("lstm", "gru"):
            raise ValueError(f"a recurrent cell is lstm or gru; got {cell}")
        if bidirectional and d_output % 2:
            raise ValueError(f"two directions share the width, so it must be even; got {d_output}")
        self.d_output = d_output
        self.rnn = (nn.LSTM if cell == "lstm" else nn.GRU)(
            d_input,
            d_output // 2 if bidirectional else d_output,
            batch_first=True,
            bidirectional=bidirectional,
        )

        if cell == "lstm":
            for name, parameter in self.rnn.named_parameters():
                parameter.requires_grad_(not name.startswith("bias_hh"))

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, d_output): the hidden state after every token."""
        y: Tensor = self.rnn(x)[0]
        return y


class NgramEmbedding(nn.Module):
    """A word's vector plus that of the n-gram it ends (fastText: Joulin et al. 2016, section 2.1).

    Pooled by a mean this is a bag of n-grams: word order without attention or position. N-grams
    are too many for a table, so they share `num_buckets` rows by their hash.
    """

    def __init__(self, vocab_size: int, d_model: int, *, num_buckets: int, n: int = 2) -> None:
        super().__init__()
        self.num_buckets = num_buckets
        self.n = n
        self.word = nn.Embedding(vocab_size, d_model)
        self.ngram = nn.Embedding(num_buckets, d_model)

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) integers -> (B, T, D)."""
        x: Tensor = self.word(ids) + self.ngram(self.buckets(ids))
        return x

    def buckets(self, ids: Tensor) -> Tensor:
        """The row of each token's n-gram, (B, T), below `num_buckets`.

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
        return hashed % self.num_buckets
