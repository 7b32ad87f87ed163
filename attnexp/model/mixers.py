"""What may stand in attention's place, or before it: convolution and recurrence.

Shapes: B batch, T tokens, D input width. A mixer takes x (B, T, D) and `key_padding_mask` (B, T),
True at padding, and returns (B, T, `d_output`). Like K's attention without a mask, convolution and
recurrence read padding as tokens.
"""

from typing import Annotated, Literal

from annotated_types import Ge
from torch import Tensor, nn
from typing_extensions import Doc

from attnexp.model.init import Stream, init_layers
from attnexp.model.seams import Even, Mixer


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
        kernel: Annotated[int, Ge(1), Doc("Tokens from which one is computed.")] = 3,
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
    """An LSTM or GRU: each token from all before it, one step at a time (C21, C27).

    With `bidirectional`, half the output reads forwards and half backwards. Padding takes steps
    too, as in Keras without masking. torch gives an LSTM two bias vectors and Keras one; only their
    sum matters, so the second stays at its start, which is 0.

    Raises `ValueError` for an odd width to halve.
    """

    def __init__(
        self,
        d_input: int,
        d_model: int,
        *,
        cell: Literal["lstm", "gru"] = "lstm",
        bidirectional: bool = False,
    ) -> None:
        super().__init__()
        if bidirectional and d_model % 2:
            raise ValueError(f"two directions share the width, so it must be even; got {d_model}")
        self.d_output = d_model
        self.rnn = (nn.LSTM if cell == "lstm" else nn.GRU)(
            d_input,
            d_model // 2 if bidirectional else d_model,
            batch_first=True,
            bidirectional=bidirectional,
        )
        if cell == "lstm":
            for name, parameter in self.rnn.named_parameters():
                parameter.requires_grad_(not name.startswith("bias_hh"))

    def init_parameters(self, stream: Stream) -> None:
        """Input matrices Glorot uniform, recurrent ones orthogonal, biases 0, forget gates 1."""
        init_layers(self, stream, "rnn")

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, d_output): the hidden state after every token."""
        y: Tensor = self.rnn(x)[0]
        return y


class LSTM(Recurrent):
    """Keras's, but without dropout between time steps."""

    def __init__(self, d_input: int, d_model: int) -> None:
        super().__init__(d_input, d_model, cell="lstm")


class BiLSTM(Recurrent):
    """Two LSTMs of half the width, one in either direction."""

    def __init__(self, d_input: int, d_model: Even) -> None:
        super().__init__(d_input, d_model, cell="lstm", bidirectional=True)


class GRU(Recurrent):
    """torch's, whose reset gate acts after the recurrent product."""

    def __init__(self, d_input: int, d_model: int) -> None:
        super().__init__(d_input, d_model, cell="gru")
