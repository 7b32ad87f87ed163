"""Internals of a trained model: its attention and its table of positions.

Only the run's folder is read, not the data set. Shapes: H heads, T tokens, D width.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.compose import NotTrusted, foreign_code
from attnexp.config.options import name_of
from attnexp.config.schema import RunConfig, Side
from attnexp.runs import store
from attnexp.runs.result import Run

if TYPE_CHECKING:
    from torch import nn

SENTENCE = "the cast was superb but the plot was dreadful"
"""Default text: its words are in the embedded corpus and in most film reviews."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """Prediction of a model for a text, with its attention."""

    tokens: list[str]
    """Tokens in reading order, T, without padding and without those cut off."""
    known: list[bool]
    """Whether each token is in the run's vocabulary; to the model all others are the same."""
    num_cut: int
    """Number of words cut off."""
    probabilities: dict[str, float]
    """Probabilities keyed by class, in the order of labels."""
    layers: "list[Attention]"
    """Attention of every layer; empty for a model without."""
    relevance: list[float] | None = None
    """How much each token counts by gradient or erasure, where that was asked for."""

    def attention(self, layer: int = 1, head: int | None = None) -> "Attention":
        """Attention of a layer, or of one of its heads; both are counted from 1.

        Raises `UserError` if the model has no such layer or head.
        """
        if not self.layers:
            raise UserError("The model has no attention, and so no heads or layers to choose.")
        for name, number, most in (
            ("layer", layer, len(self.layers)),
            ("head", head, len(self.layers[0].weights)),
        ):
            if number is not None and not 1 <= number <= most:
                raise UserError(f"There is no {name} {number}: the model has 1 to {most}.")
        seen = self.layers[layer - 1]
        if head is None:
            return seen
        chosen = slice(head - 1, head)
        return replace(seen, weights=seen.weights[chosen], to_padding=seen.to_padding[chosen])

    def counts(self, layer: int = 1, head: int | None = None) -> list[float]:
        """How much each token counts: its relevance where that was asked for, else the attention
        that it receives; empty for a model without. Raises `UserError` as `attention` does."""
        if self.relevance is not None or not self.layers:
            return self.relevance or []
        return self.attention(layer, head).received

    @property
    def label(self) -> str:
        """The most probable class."""
        return max(self.probabilities, key=self.probabilities.__getitem__)

    @property
    def confidence(self) -> float:
        """The probability of `label`."""
        return self.probabilities[self.label]

    @property
    def marked(self) -> list[str]:
        """Tokens, with a question mark after unknown ones."""
        return [f"{t}?" if not k else t for t, k in zip(self.tokens, self.known, strict=True)]

    @property
    def unknown(self) -> list[str]:
        """Unknown tokens, each once."""
        found = zip(self.tokens, self.known, strict=True)
        return list(dict.fromkeys(token for token, known in found if not known))


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention:
    """Attention of one layer."""

    weights: NDArray[np.float32]
    """(H, T queries, T keys). Rows sum to 1 less what goes to padding."""
    to_padding: NDArray[np.float32]
    """Share of each head's attention that goes to padding, on average over queries: (H,)."""
    num_padding: int

    @property
    def mean(self) -> NDArray[np.float32]:
        """Mean of the heads: (T queries, T keys)."""
        mean: NDArray[np.float32] = self.weights.mean(axis=0)
        return mean

    @property
    def received(self) -> list[float]:
        """Attention that each token receives, on average over queries and heads."""
        received: list[float] = self.mean.mean(axis=0).tolist()
        return received

    @property
    def on_padding(self) -> float:
        """Share of attention that goes to padding, on average over queries and heads."""
        return float(self.to_padding.mean())


@dataclass(frozen=True, kw_only=True, slots=True)
class Insight:
    """Reading and position table of a model; `missing` says why one is not there."""

    reading: Reading | None = None
    """Reading of the text, by a model with attention."""
    table: NDArray[np.float32] | None = None
    """Position table as it joins the embeddings, (positions, D)."""
    missing: list[str] = field(default_factory=list)


def has_attention(run: Run) -> bool:
    """Whether the model may have an attention map."""
    return "score" in run.result.config["model"]


def has_table(run: Run) -> bool:
    """Whether the model may have a position table, since its positions join the embeddings."""
    position = run.result.config.get("position")
    kind = position["kind"] if isinstance(position, dict) else position
    try:
        return not foreign_code(run.result.config) and pieces.seam(kind) == "JoinedPosition"
    except UserError:  # a class that is not here
        return False


def look(run: Run, text: str = SENTENCE, *, trust_code: bool = False) -> Insight:
    """Load a run's model and let it read a text. Whatever cannot be shown is `missing`.

    Raises `NotTrusted` where the model is not attnexp's, without `trust_code`.
    """
    if not has_attention(run):
        kind = name_of(run.result.config["model"]["kind"])
        return Insight(missing=[f"model={kind} has no attention."])
    try:
        config, model = _load(run, trust_code)
    except NotTrusted:
        raise
    except UserError as error:
        return Insight(missing=[str(error)])
    missing = []
    reading = None
    try:
        reading = _read(run.result.classes, _vocabulary(run), config, model, text)
    except UserError as error:
        missing.append(f"There is no attention map: {error}")
    position = getattr(model, "position", None)
    rows = None if position is None else position.table_rows()
    if rows is None:
        missing.append(f"There is no table of positions with position={config.position.name}.")
    table = None if rows is None else rows.detach().numpy()
    return Insight(reading=reading, table=table, missing=missing)


def reader(run: Run, *, trust_code: bool = False) -> Callable[..., Reading]:
    """Function that reads a text with the run's model: `read(text, why="attention")`.

    why: of `relevance.WHY`, what to say of tokens beside attention; `read` raises `UserError` where
    the model does not have it. Raises `UserError` where the folder holds no weights or no words,
    and `NotTrusted` where the model is not attnexp's, without `trust_code`.
    """
    config, model = _load(run, trust_code)
    return partial(_read, run.result.classes, _vocabulary(run), config, model)


def _load(run: Run, trust_code: bool) -> "tuple[RunConfig, nn.Module]":
    from attnexp.config.compose import overlay
    from attnexp.model.classifier import build_model
    from attnexp.runs.arrays import load_weights

    config = overlay(run.result.config, [], trust_code=trust_code)
    model = build_model(config, len(run.result.classes))
    load_weights(run, model)
    return config, model.eval()


def _read(
    classes: list[str],
    words: list[str],
    config: RunConfig,
    model: "nn.Module",
    text: str,
    why: str = "attention",
) -> Reading:
    import torch

    from attnexp.data.text import PAD, UNKNOWN, rank_with, to_ids, tokenizer_of
    from attnexp.inspect.relevance import WHY, forward
    from attnexp.model.classifier import Classifier

    tokenize = tokenizer_of(config.data)
    (ids,) = to_ids(rank_with(words, [text], tokenize), config.data)
    real = ids != PAD
    kept = int(real.sum())
    said = ["⟨start⟩", *tokenize(text)]
    tokens = said[-kept:] if config.data.truncate is Side.pre else said[:kept]
    known = (ids[real] != UNKNOWN).tolist()
    batch = torch.from_numpy(ids).long()[None]
    logits, maps = forward(model, batch)
    found = None
    if why != "attention":
        try:
            found = WHY[why](model, batch)[0, torch.from_numpy(real)].tolist()
        except ValueError as error:
            raise UserError(f"There is no --why {why} here: {error}.") from error
    if logits.ndim == 1:  # of two classes: softmax over (0, x) is sigmoid of x
        logits = torch.stack([torch.zeros_like(logits), logits], dim=-1)
    (probabilities,) = logits.double().softmax(-1).tolist()
    layers = list[Attention]()
    if maps:
        assert isinstance(model, Classifier)
        if model.cls is not None:
            tokens, known = ["⟨cls⟩", *tokens], [True, *known]
            real = np.concatenate([[True], real])
            found = found and [0.0, *found]
        # padding looks around too, at nothing that matters here
        layers = [
            Attention(
                weights=weights[:, :, real],
                to_padding=weights[:, :, ~real].sum(axis=-1).mean(axis=-1),
                num_padding=int((~real).sum()),
            )
            for weights in (of_layer[0].numpy()[:, real] for of_layer in maps)
        ]
    return Reading(
        tokens=tokens,
        known=known,
        num_cut=len(said) - kept,
        probabilities=dict(zip(classes, probabilities, strict=True)),
        layers=layers,
        relevance=found,
    )


def _vocabulary(run: Run) -> list[str]:
    """The words of a run. Raises `UserError` where there are none."""
    words = store.load_vocabulary(run)
    if not words:
        raise UserError(
            f"{run.path} was trained on word ranks without their words (Keras's imdb.npz), and "
            f"there is no sentence that it could read."
        )
    return words
