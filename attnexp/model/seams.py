"""The seams of the model: what a piece of it is given, and what it must give back.

A piece is a subclass of one of these. The model passes the positional arguments that each docstring
below lists; the piece's own settings are keyword-only arguments of its constructor:

    class Decay(ScoreBias):
        def __init__(self, num_heads: int, *, rate: Annotated[float, Gt(0)] = 0.1)

`position=my_package.my_module:Decay position.rate=0.3` trains with it: see docs/extending.md. Its
weights are those that its constructor makes, or its `init_parameters(stream)`: see `init_weights`.

Shapes: B batch, H heads, T tokens, D model width, Dh head width. `key_padding_mask` is (B, T), True
at padding, as in `torch.nn`. `positions` are whole numbers, (T,) or (B, T)."""

from collections.abc import Callable
from dataclasses import dataclass

from torch import Tensor, nn


class Embedding(nn.Module):
    """Embeds words. __init__(vocab_size, d_model); forward(ids (B, T)) -> (B, T, D)."""

    d_output: int  # D, set by the classifier

    @property
    def words(self) -> Tensor:
        """The vectors of single words, (V, D), which pretrained vectors may fill."""
        raise NotImplementedError(f"{type(self).__name__} has no table of words")


class JoinedPosition(nn.Module):
    """Joins positions to embeddings. __init__(max_len, d_model), which sets `d_output`;
    forward(x (B, T, D), positions) -> (B, T, d_output)."""

    d_output: int

    def table_rows(self) -> Tensor | None:
        """Vectors of positions 0 to max_len - 1, (max_len, D); None if they are no table."""
        return None


class Rotation(nn.Module):
    """Rotates q or k. __init__(d_head); forward(x (B, H, T, Dh), positions) -> (B, H, T, Dh)."""


class ScoreBias(nn.Module):
    """Adds to scores. __init__(num_heads); forward(positions) -> ([B,] H, T queries, T keys)."""


class Mask:
    """Says which keys a query may see. __init__()."""

    def __call__(self, query: Tensor, key: Tensor) -> Tensor:
        """Positions (T, 1) and (1, T) -> boolean (T, T), True where the query may see the key."""
        raise NotImplementedError


class Mixer(nn.Module):
    """Mixes tokens. __init__(d_input, d_model), which sets `d_output`;
    forward(x (B, T, d_input), key_padding_mask) -> (B, T, d_output)."""

    d_output: int


class Pooling(nn.Module):
    """Pools tokens. __init__(d_input); forward(x (B, T, D), key_padding_mask) -> (B, D)."""

    def __init__(self, d_input: int) -> None:
        super().__init__()


class Score(nn.Module):
    """Scores how well queries match keys. __init__(num_heads, d_query, d_key, d_head);
    forward(q (B, H, T, d_query), k (B, H, T, d_key)) -> (B, H, T queries, T keys)."""


@dataclass(frozen=True, kw_only=True, slots=True)
class LayerContext:
    """What position, mask and data ask of every layer."""

    num_tokens: int  # T, the summary token included
    rotation: Callable[[int], Rotation] | None = None  # from d_head to a rotation
    bias: Callable[[int], ScoreBias] | None = None  # from num_heads to a bias
    mask_mode: str = "add"  # how masked keys are hidden: see `scores.attention_weights`
    hide_padded_queries: bool = False  # whether outputs at padded positions are set to zero


class Layers(nn.ModuleList):
    """Layers of attention, such as `attention.Attention`. __init__(d_input, d_model, LayerContext),
    which sets `d_output`. Each layer: forward(x, key_padding_mask, allowed, positions) -> (B, T,
    its own width). allowed: keys that a query may see, (B or 1, 1, T or 1, T), or None for all."""

    d_output: int


class Network(nn.Module):
    """Takes the place of all other pieces. __init__(vocab_size, num_tokens, num_classes);
    forward(ids (B, T), 0 at padding) -> logits (B, C), or (B,) for two classes."""


class Baseline(nn.Module):
    """Is fitted in one go, not trained. For two classes: __init__(vocab_size); forward(ids (B, T))
    -> logits (B,). For more: __init__(vocab_size, num_classes); forward(ids) -> logits (B, C)."""

    def fit(self, ids: Tensor, labels: Tensor) -> None:
        """Learn from all training texts: ids (n, T), labels (n,), 0 to C - 1."""
        raise NotImplementedError
