"""What one trained model does, looked at from inside: its attention, its table of positions.

Of a run's folder alone; the data set need not be there. Shapes: H heads, T tokens, D width.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

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
    from torch import nn

SENTENCE = "the cast was superb but the plot was dreadful"
"""In the words of the embedded corpus, and in nearly every vocabulary of film reviews."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Reading:
    """What a model makes of a text."""

    tokens: list[str]
    """T of them, in reading order, without padding and without what was cut away."""
    known: list[bool]
    """Whether the run's vocabulary holds them. The others are, to the model, one and the same."""
    num_cut: int
    """Words that did not fit."""
    probabilities: dict[str, float]
    """By class, in the order of labels."""
    attention: "Attention | None"
    """None where the model has none."""
    relevance: list[float] | None = None
    """How much each token counts by gradient or erasure, where that was asked for."""

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
        """The tokens, unknown ones with a question mark."""
        return [f"{t}?" if not k else t for t, k in zip(self.tokens, self.known, strict=True)]

    @property
    def unknown(self) -> list[str]:
        """Each once."""
        found = zip(self.tokens, self.known, strict=True)
        return list(dict.fromkeys(token for token, known in found if not known))


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention:
    """Who looks at whom in the first layer."""

    weights: NDArray[np.float32]
    """(H, T queries, T keys). Rows sum to 1 less what goes to padding."""
    on_padding: float
    """The share of attention that goes to padding, on average over queries and heads."""
    num_padding: int
    num_layers: int

    def received(self, head: int | None = None) -> NDArray[np.float32]:
        """(T,): what each token receives, on average over queries and, if not of one, heads."""
        weights = self.weights if head is None else self.weights[head : head + 1]
        received: NDArray[np.float32] = weights.mean(axis=(0, 1))
        return received


@dataclass(frozen=True, kw_only=True, slots=True)
class Insight:
    """What there is to see; where something is missing, a sentence in `missing` says why."""

    reading: Reading | None = None
    """Of the text, by a model with attention."""
    table: NDArray[np.float32] | None = None
    """(positions, D), as it is joined to the embeddings."""
    missing: list[str] = field(default_factory=list)


def has_attention(run: Run) -> bool:
    """Whether there may be a map to show."""
    return "score" in run.result.config["model"]


def has_table(run: Run) -> bool:
    """Whether positions may have a table to show, since they join the embeddings."""
    position = run.result.config.get("position")
    kind = position["kind"] if isinstance(position, dict) else position
    try:
        return bool(kind) and pieces.seam(kind) == "JoinedPosition"
    except UserError:  # a class that is not here
        return False


def look(run: Run, text: str = SENTENCE, *, trust_code: bool = False) -> Insight:
    """Load the model and let it read. What cannot be shown raises nothing: it is `missing`.

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


def reader(
    run: Run, why: str = "attention", *, trust_code: bool = False
) -> Callable[[str], Reading]:
    """The run's model, which then reads one text after the other.

    why: of `relevance.WHY`, what to say of tokens beside attention. Raises `UserError` where the
    folder holds no weights or no words, and `NotTrusted` where the model is not attnexp's, without
    `trust_code`.
    """
    config, model = _load(run, trust_code)
    return partial(_read, run.result.classes, _vocabulary(run), config, model, why=why)


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
    classes: list[str],
    words: list[str],
    config: RunConfig,
    model: "nn.Module",
    text: str,
    why: str = "attention",
) -> Reading:
    import torch

    from attnexp.data.encode import tokenizer_of
    from attnexp.data.text import PAD, UNKNOWN, rank_with, to_ids
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
    attention = None
    if maps:
        assert isinstance(model, Classifier)
        if model.cls is not None:
            tokens, known = ["⟨cls⟩", *tokens], [True, *known]
            real = np.concatenate([[True], real])
            found = found and [0.0, *found]
        weights = maps[0][0].numpy()[
            :, real
        ]  # padding looks around too, at nothing that matters here
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


def _table(model: "nn.Module") -> NDArray[np.float32] | None:
    position = getattr(model, "position", None)
    rows = position.table_rows() if position is not None else None
    return None if rows is None else rows.detach().numpy()
