"""Internals of a trained model: its attention and its table of positions.

Only the run's folder is read, not the data set. Shapes: H heads, T tokens, D width.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.options import name_of
from attnexp.config.schema import RunConfig, Side
from attnexp.config.trust import NotTrusted, require_trust
from attnexp.runs import store
from attnexp.runs.result import Run

if TYPE_CHECKING:
    from torch import Tensor, nn

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
    attention: "Attention | None"
    """Attention; None for a model without."""

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
    """Attention of the first layer."""

    weights: NDArray[np.float32]
    """(H, T queries, T keys). Rows sum to 1 less what goes to padding."""
    on_padding: float
    """The share of attention that goes to padding, on average over queries and heads."""
    num_padding: int
    num_layers: int

    def received(self, head: int | None = None) -> NDArray[np.float32]:
        """Attention that each token receives, (T,): mean over queries and, unless one head is
        named, counted from 1, over heads."""
        weights = self.weights if head is None else self.weights[head - 1 : head]
        received: NDArray[np.float32] = weights.mean(axis=(0, 1))
        return received


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
        return bool(kind) and pieces.seam(kind) == "JoinedPosition"
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
    table = _table(model)
    if table is None:
        missing.append(f"There is no table of positions with position={config.position.name}.")
    return Insight(reading=reading, table=table, missing=missing)


def reader(run: Run, *, trust_code: bool = False) -> Callable[[str], Reading]:
    """Function that reads a text with the run's model.

    Raises `UserError` where the folder holds no weights or no words, and `NotTrusted` where the
    model is not attnexp's, without `trust_code`.
    """
    config, model = _load(run, trust_code)
    return partial(_read, run.result.classes, _vocabulary(run), config, model)


def _load(run: Run, trust_code: bool) -> "tuple[RunConfig, nn.Module]":
    from attnexp.config.compose import overlay
    from attnexp.model.classifier import build_model
    from attnexp.runs.arrays import load_weights

    config = overlay(run.result.config, [])
    require_trust(run.result.config, trust_code)
    model = build_model(config, len(run.result.classes))
    load_weights(run, model)
    return config, model.eval()


def _read(
    classes: list[str], words: list[str], config: RunConfig, model: "nn.Module", text: str
) -> Reading:
    import torch

    from attnexp.data.encode import tokenizer_of
    from attnexp.data.text import PAD, UNKNOWN, rank_with, to_ids
    from attnexp.model.classifier import Classifier

    tokenize = tokenizer_of(config.data)
    (ids,) = to_ids(rank_with(words, [text], tokenize), config.data)
    real = ids != PAD
    kept = int(real.sum())
    said = ["⟨start⟩", *tokenize(text)]
    tokens = said[-kept:] if config.data.truncate is Side.pre else said[:kept]
    known = (ids[real] != UNKNOWN).tolist()
    logits, weights = _forward(model, torch.from_numpy(ids).long()[None])
    if logits.ndim == 1:  # of two classes: softmax over (0, x) is sigmoid of x
        logits = torch.stack([torch.zeros_like(logits), logits], dim=-1)
    (probabilities,) = logits.double().softmax(-1).tolist()
    attention = None
    if weights is not None:
        assert isinstance(model, Classifier)
        if model.cls is not None:
            tokens, known = ["⟨cls⟩", *tokens], [True, *known]
            real = np.concatenate([[True], real])
        weights = weights[:, real]  # padding looks around too, at nothing that matters here
        attention = Attention(
            weights=weights[:, :, real],
            on_padding=float(weights[:, :, ~real].sum(axis=-1).mean()),
            num_padding=int((~real).sum()),
            num_layers=len(model.layers),
        )
    return Reading(
        tokens=tokens,
        known=known,
        num_cut=len(said) - kept,
        probabilities=dict(zip(classes, probabilities, strict=True)),
        attention=attention,
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


def _forward(model: "nn.Module", ids: "Tensor") -> "tuple[Tensor, NDArray[np.float32] | None]":
    """ids (1, T) -> logits (1,) or (1, C), and the first layer's map (H, T, T)."""
    import torch

    from attnexp.model.attention import MultiHeadSelfAttention
    from attnexp.model.classifier import Classifier

    layer = model.layers[0] if isinstance(model, Classifier) and model.layers else None
    attention = getattr(layer, "attention", None)
    with torch.no_grad():
        if not isinstance(attention, MultiHeadSelfAttention):
            return model(ids), None
        seen: list[tuple[Any, ...]] = []
        handle = attention.register_forward_pre_hook(lambda _, inputs: seen.append(inputs))
        logits = model(ids)
        handle.remove()
        weights = attention.weights(*seen[0])[0]
    return logits, weights.numpy()


def _table(model: "nn.Module") -> NDArray[np.float32] | None:
    position = getattr(model, "position", None)
    rows = position.table_rows() if position is not None else None
    return None if rows is None else rows.detach().numpy()
