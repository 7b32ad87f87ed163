"""The seams of the model: what a piece of it is given, and what it must give back.

A piece is a subclass of one of these. What its surroundings know comes as positional arguments, in
the order below; its own settings are keyword-only arguments of its constructor:

    class Decay(ScoreBias):
        def __init__(self, num_heads: int, *, rate: Annotated[float, Gt(0)] = 0.1)

`position=my_package.my_module:Decay position.rate=0.3` trains with it: see docs/extending.md. Its
weights are those that its constructor makes, or its `init_parameters(stream)`: see `init_weights`.

Shapes: B batch, H heads, T tokens, D model width, K head width. `key_padding_mask` is (B, T), True
at padding, as in `torch.nn`. `positions` are whole numbers, (T,) or (B, T).
"""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn


class Embedding(nn.Module):
    """Embeds: ids (B, T) -> (B, T, D). Given vocab_size and d_model."""

    @property
    def words(self) -> Tensor:
        """The vectors of single words, (V, D), which pretrained vectors may fill."""
        raise NotImplementedError(f"{type(self).__name__} has no table of words")


class JoinedPosition(nn.Module):
    """Joins x: (x (B, T, D), positions) -> (B, T, d_output). Given max_len and d_model."""

    d_output: int  # The constructor sets it.

    def table_rows(self) -> Tensor | None:
        """Rows that are joined, (max_len, D), for whoever draws them; None without a table."""
        return None


class Rotation(nn.Module):
    """Rotates q and k: (x (B, H, T, K), positions) -> (B, H, T, K). Given d_head."""


class ScoreBias(nn.Module):
    """Biases the scores: positions -> (H, T queries, T keys) or (B, H, T, T). Given num_heads."""


class Mask:
    """Masks: (query positions, key positions) -> True where the query may see the key."""

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Positions (T, 1) and (1, T) -> boolean (T, T)."""
        raise NotImplementedError


class Mixer(nn.Module):
    """Mixes: (x (B, T, D), key_padding_mask) -> (B, T, d_output). Given d_input and d_model."""

    d_output: int  # The constructor sets it.


class Pooling(nn.Module):
    """Pools: (x (B, T, D), key_padding_mask) -> (B, D). Given d_input."""

    def __init__(self, d_input: int) -> None:
        super().__init__()


class Score(nn.Module):
    """Scores: (q (B, H, T, Kq), k (B, H, T, Kk)) -> (B, H, T queries, T keys). Given num_heads,
    d_query, d_key and d_head."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerContext:
    """What position, mask and data ask of every layer."""

    num_tokens: int  # of every text, a summary token included
    rotation: Callable[[int], Rotation] | None = None  # made for a head width
    bias: Callable[[int], ScoreBias] | None = None  # made for a number of heads
    mask_mode: str = "add"  # how masked keys are hidden: see `scores.attention_weights`
    hide_padded_queries: bool = False  # whether outputs at padded positions are set to zero


class Layers(nn.ModuleList):
    """Attends: layers that are given masks and positions; `attention.Attention` is ours. Given
    d_input, d_model and a `LayerContext`. Each layer takes x (B, T, D), key_padding_mask, allowed
    (boolean, (B or 1, 1, T or 1, T), or None) and positions, and returns (B, T, its own width); the
    last one's width is `d_output`."""

    d_output: int


class Network(nn.Module):
    """Classifies, in place of all other pieces: ids (B, T), 0 at padding -> logits (B, C), or (B,)
    for two classes. Given vocab_size, num_tokens and num_classes."""


class Baseline(nn.Module):
    """Fits: in one go, then ids (B, T) -> logits (B,). Given vocab_size. Of C classes, where they
    are more than two: given num_classes too, and gives logits (B, C)."""

    def fit(self, ids: Tensor, labels: Tensor) -> None:
        """Learn from all training texts: ids (n, T), labels (n,), 0 to C - 1."""
        raise NotImplementedError
