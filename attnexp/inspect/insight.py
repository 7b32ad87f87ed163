"""What a trained model makes of a text: its prediction and its attention, and how these are shown.

Only the run's folder is read, not the data set. Shapes: B batch, H heads, T tokens, D width.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from rich.text import Text
from torch import Tensor, nn

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config.compose import overlay
from attnexp.config.schema import RunConfig, Side
from attnexp.data.text import PAD, UNKNOWN, rank_with, to_ids, tokenizer_of
from attnexp.inspect.interventions import attentions, together
from attnexp.network.build import build_model
from attnexp.runs import store
from attnexp.runs.result import Run
from attnexp.training.evaluate import load_weights

FULL = (240, 130, 20)  # RGB background of a token with the full colour
SATURATED = 4.0  # attention, in multiples of uniform attention, that has the full colour
START, SUMMARY = "⟨start⟩", "⟨cls⟩"  # in front of a text, the second with `model.pooling=cls`


def shade(weights: NDArray[Any], num_keys: int | None = None) -> NDArray[np.float64]:
    """Depth of colour, 0 to 1, of attention weights (..., keys), on one scale for all texts: that
    of uniform attention, 1 / num_keys, is 0.25, and that of four times as much or more is 1.
    num_keys: as in `Attention`; the number of weights if None."""
    return np.asarray((weights * (num_keys or weights.shape[-1]) / SATURATED).clip(0, 1))


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention:
    """Attention of one layer."""

    weights: NDArray[np.float32]  # (H, T queries, T keys); what goes to padding is left out
    num_keys: int  # tokens that are attended to: T, and padding where it gets any attention

    @property
    def mean(self) -> NDArray[np.float32]:
        """Mean of the heads: (T queries, T keys)."""
        return np.asarray(self.weights.mean(axis=0))


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """Prediction of a model for a text, with its attention."""

    tokens: list[str]  # T, in reading order, without padding and without those cut off
    known: list[bool]  # whether each is in the run's vocabulary; all others are one to the model
    num_cut: int  # words cut off
    probabilities: dict[str, float]  # by class, in the order of labels
    layers: list[Attention]  # empty for a model without attention
    table: NDArray[np.float32] | None  # positions as they join the embeddings, (positions, D)

    @property
    def label(self) -> str | None:
        """The most probable class; None where no word is known, so that the text says nothing."""
        known = {t for t, k in zip(self.tokens, self.known, strict=True) if k} - {START, SUMMARY}
        return max(self.probabilities, key=self.probabilities.__getitem__) if known else None

    @property
    def marked(self) -> list[str]:
        """Tokens, with a question mark after unknown ones."""
        return [f"{t}?" if not k else t for t, k in zip(self.tokens, self.known, strict=True)]

    def attention(self, layer: int = 1, head: int | None = None) -> Attention:
        """Attention of a layer, or of one of its heads; both are counted from 1. Raises `UserError`
        if the model has no such layer or head."""
        sizes = [len(one.weights) for one in self.layers]
        if not 1 <= layer <= len(sizes) or head not in (None, *range(1, sizes[0] + 1)):
            has = f"{len(sizes)} layers of {sizes[0]} heads" if sizes else "no attention"
            raise UserError(f"There is no layer {layer} with head {head}: the model has {has}.")
        seen = self.layers[layer - 1]
        return seen if head is None else replace(seen, weights=seen.weights[head - 1 : head])

    def shades(self, layer: int = 1, head: int | None = None) -> NDArray[np.float64]:
        """Depth of colour of each token, (T,): the attention that it receives, on average over
        queries; empty for a model without attention."""
        if not self.layers and head is None:
            return np.zeros(0)
        seen = self.attention(layer, head)
        return shade(seen.mean.mean(axis=0), seen.num_keys)


def reader(run: Run, *, trust_code: bool = False) -> Callable[[str], Reading]:
    """Function that reads a text with the run's model.

    Raises `UserError` where the folder holds no weights or no words, or a model that is not
    attnexp's, without `trust_code`.
    """
    config = overlay(run.result.config, [], trust_code=trust_code)
    model = build_model(config, len(run.result.classes))
    load_weights(run, model)
    if not (words := store.load_vocabulary(run)):
        raise UserError(f"{run.path} was trained on ranks without words, and reads no sentence.")
    return partial(_read, run, config, model.eval(), words)


def _read(run: Run, config: RunConfig, model: nn.Module, words: list[str], text: str) -> Reading:
    tokenize = tokenizer_of(config.data)
    (ids,) = to_ids(rank_with(words, [text], tokenize), config.data)
    real, said = ids != PAD, [START, *tokenize(text)]
    num_cut = len(said) - int(real.sum())
    tokens = said[num_cut:] if config.data.truncate is Side.pre else said[: len(said) - num_cut]
    known = (ids[real] != UNKNOWN).tolist()
    logits, maps = forward(model, torch.from_numpy(ids).long()[None])
    if logits.ndim == 1:  # of two classes: softmax over (0, x) is sigmoid of x
        logits = torch.stack([torch.zeros_like(logits), logits], dim=-1)
    (probabilities,) = logits.double().softmax(-1).tolist()
    if maps and maps[0].shape[-1] > len(ids):  # a summary token in front
        tokens, known, real = [SUMMARY, *tokens], [True, *known], np.append(True, real)
    layers = []
    for weights in (of_layer[0].numpy()[:, real] for of_layer in maps):  # padding looks around too
        num_keys = len(real) if weights[:, :, ~real].any() else len(tokens)
        layers.append(Attention(weights=weights[:, :, real], num_keys=num_keys))
    position = getattr(model, "position", None)
    table = None if position is None else position.table_rows()
    return Reading(
        tokens=tokens,
        known=known,
        num_cut=num_cut - (START not in tokens),  # the start is no word
        probabilities=dict(zip(run.result.classes, probabilities, strict=True)),
        layers=layers,
        table=None if table is None else table.detach().numpy(),
    )


@torch.no_grad()
def forward(model: nn.Module, ids: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Logits, and the attention map of every layer: (B, H, T queries, T keys); a summary token in
    front counts as one of T."""
    layers, seen = attentions(model), list[Any]()
    hooks = (part.register_forward_pre_hook(lambda _, given: seen.append(given)) for part in layers)
    with together(hooks):
        logits = model(ids)
    return logits, [layer.weights(*given) for layer, given in zip(layers, seen, strict=True)]


def lines(text: str | None, stdin: BinaryIO) -> Iterator[str]:
    """The text, or else each line of stdin, without empty ones. Raises `UserError` for none."""
    if text is None and stdin.isatty():
        progress.note("Type a text and press Enter. Ctrl-D ends.")
    given = stdin if text is None else [text.encode(errors="surrogateescape")]
    line = ""
    for line in filter(None, (one.decode("utf-8-sig", "replace").strip() for one in given)):
        yield line
    if not line:
        raise UserError("There is no text to read. Give one that holds a word.")


def to_json(reading: Reading, head: int | None) -> dict[str, Any]:
    """The reading as plain containers; attention is what each token receives from all queries."""
    is_there = reading.layers or head
    return {
        "label": reading.label,
        "probabilities": reading.label and reading.probabilities,
        "tokens": reading.tokens,
        "known": reading.known,
        "attention": reading.attention(head=head).mean.mean(axis=0).tolist() if is_there else None,
        "words_cut": reading.num_cut,
    }


def to_text(reading: Reading, head: int | None) -> Text:
    """A line with the most probable classes, and the tokens: the more they count, the darker."""
    ranked = sorted(reading.probabilities.items(), key=lambda item: -item[1])
    said = ", ".join(f"{name} {p:.4f}" for name, p in ranked[:-1][:5])  # the last one follows
    line = Text(f"{said if reading.label else 'none of these words is known'} ")
    line.stylize("bold", 0, len(reading.label or line))
    for token, depth in zip_longest(reading.marked, reading.shades(head=head)):
        line.append(" ").append(token, "" if depth is None else f"black on {colour(depth)}")
    if reading.num_cut:
        num_words = f"{reading.num_cut} words beyond what training saw (data.max_len)"
        line.append(f" (without {num_words})", "dim")
    return line


def colour(depth: float) -> str:
    """Background of black text, `rgb(r,g,b)`: white for a depth of 0, orange for 1."""
    return f"rgb({','.join(str(round(255 + depth * (full - 255))) for full in FULL)})"
