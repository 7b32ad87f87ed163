"""What one trained model does, looked at from inside: its attention, its table of positions.

Of a run's folder alone; the data set need not be there. Shapes: H heads, T tokens, D width.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from attnexp.config.options import name_of
from attnexp.config.schema import flatten
from attnexp.errors import UserError
from attnexp.runs import store
from attnexp.runs.result import Run

if TYPE_CHECKING:
    from torch import Tensor

    from attnexp.config.schema import RunConfig
    from attnexp.model.classifier import Classifier

SENTENCE = "the cast was superb but the plot was dreadful"
"""In the words of the embedded corpus, and in nearly every vocabulary of film reviews."""

TABLES = ("sinusoidal", "learned")
"""Positions that are one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention:
    """Who looks at whom in the first layer, while the model reads `SENTENCE`."""

    tokens: list[str]
    """T of them, in reading order, without padding."""
    unknown: list[str]
    """Words that the run's vocabulary does not hold: to the model, one and the same."""
    weights: NDArray[np.float32]
    """(H, T queries, T keys). Rows sum to 1 less what goes to padding."""
    on_padding: float
    """The share of attention that goes to padding, on average over queries and heads."""
    num_padding: int
    num_layers: int
    positive: float
    """The model's probability that the sentence is positive."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Insight:
    """What there is to see; where something is missing, a sentence in `missing` says why."""

    attention: Attention | None
    table: NDArray[np.float32] | None
    """(positions, D), as it is joined to the embeddings."""
    missing: list[str]


def has_attention(run: Run) -> bool:
    """Whether there may be a map to show."""
    return "score" in run.result.config["model"]


def has_table(run: Run) -> bool:
    """Whether positions are a table."""
    return (
        "position" in run.result.config and name_of(run.result.config["position"]["kind"]) in TABLES
    )


def is_ours(run: Run) -> bool:
    """Whether looking imports nobody else's code."""
    kinds = [value for key, value in flatten(run.result.config).items() if key.endswith(".kind")]
    return all(kind is None or kind.startswith("attnexp.") for kind in kinds)


def look(run: Run) -> Insight:
    """Load the model and let it read. What cannot be shown raises nothing: it is `missing`."""
    if not has_attention(run):
        kind = name_of(run.result.config["model"]["kind"])
        return Insight(attention=None, table=None, missing=[f"model={kind} has no attention."])
    try:
        config, model = _load(run)
    except UserError as error:
        return Insight(attention=None, table=None, missing=[str(error)])
    missing = []
    attention = table = None
    try:
        attention = _attention(run, config, model)
    except UserError as error:
        missing.append(str(error))
    if has_table(run):
        table = _table(model)
    else:
        missing.append(f"There is no table of positions with position={config.position.name}.")
    return Insight(attention=attention, table=table, missing=missing)


def _load(run: Run) -> "tuple[RunConfig, Classifier]":
    from attnexp.config.compose import overlay
    from attnexp.model.classifier import build_classifier
    from attnexp.runs.weights import load_weights

    config = overlay(run.result.config, [])
    model = build_classifier(config)
    load_weights(run, model)
    return config, model.eval()


def _attention(run: Run, config: "RunConfig", model: "Classifier") -> Attention:
    import torch

    from attnexp.config.schema import Side
    from attnexp.data.text import PAD, UNKNOWN, rank_with, to_ids, tokenizer

    words = _vocabulary(run)
    tokenize = tokenizer(config.data.tokenizer)
    (ids,) = to_ids(rank_with(words, [SENTENCE], tokenize), config.data)
    real = ids != PAD
    kept = int(real.sum())
    said = ["⟨start⟩", *tokenize(SENTENCE)]
    said = said[-kept:] if config.data.truncate is Side.pre else said[:kept]
    unknown = [word for word, i in zip(said, ids[real], strict=True) if i == UNKNOWN]
    tokens = [f"{word}?" if word in unknown else word for word in said]
    weights, positive = _read(model, torch.from_numpy(ids).long()[None])
    if model.cls is not None:
        tokens, real = ["⟨cls⟩", *tokens], np.concatenate([[True], real])
    weights = weights[:, real]  # padding looks around too, at nothing that matters here
    return Attention(
        tokens=tokens,
        unknown=list(dict.fromkeys(unknown)),
        weights=weights[:, :, real],
        on_padding=float(weights[:, :, ~real].sum(axis=-1).mean()),
        num_padding=int((~real).sum()),
        num_layers=len(model.layers),
        positive=positive,
    )


def _vocabulary(run: Run) -> list[str]:
    """The words of a run. Raises `UserError` where there are none."""
    try:
        words = store.load_vocabulary(run)
    except UserError as error:
        raise UserError(f"There is no attention map: {error}") from error
    if not words:
        raise UserError(
            "There is no attention map: the run was trained on word ranks without their words "
            "(Keras's imdb.npz), and there is no sentence that it could read."
        )
    return words


def _read(model: "Classifier", ids: "Tensor") -> tuple[NDArray[np.float32], float]:
    """ids (1, T) -> the first layer's map (H, T, T), and the probability of the positive class."""
    import torch

    from attnexp.model import masks
    from attnexp.model.block import Block

    layer = model.layers[0]
    assert isinstance(layer, Block)
    attention = layer.attention
    seen: list[tuple[Any, ...]] = []
    handle = attention.register_forward_pre_hook(lambda _, inputs: seen.append(inputs))
    with torch.no_grad():
        positive = float(model(ids).sigmoid())
        handle.remove()
        x, allowed, positions, real_keys = seen[0]
        if attention.window is not None:  # never makes its map; here it is small
            query, key = masks.grid(x.shape[1], x.device)
            allowed = masks.Window(radius=attention.window)(query, key)[None, None]
            if real_keys is not None:
                allowed = allowed & real_keys[:, None, None]
        weights = attention.weights(x, allowed, positions)[0]
    return weights.numpy(), positive


def _table(model: "Classifier") -> NDArray[np.float32]:
    from attnexp.model.positions import LearnedPosition, SinusoidalPosition

    position = model.position
    if isinstance(position, LearnedPosition):
        return (position.scale * position.weight).detach().numpy()
    assert isinstance(position, SinusoidalPosition)
    return position.table.numpy()
