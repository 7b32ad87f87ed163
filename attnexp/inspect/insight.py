"""What a trained model makes of a text: its prediction and its attention.

Only the run's folder is read, not the data set. Shapes: B batch, H heads, T tokens, D width."""

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from attnexp.base.errors import UserError
from attnexp.config.schema import Precision, RunConfig
from attnexp.data.text import PAD, UNKNOWN, kept_part, rank_with, to_ids, tokenizer_of
from attnexp.inspect.evaluate import load_config, load_weights
from attnexp.inspect.interventions import apply_hook, find_parts
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.seams import JoinedPosition
from attnexp.network.build import build_model
from attnexp.runs import store
from attnexp.runs.find import load_run
from attnexp.training.loop import Examples, predict

START = "⟨start⟩"  # shown in front of a text
SUMMARY = "⟨cls⟩"  # shown in front of the start with `model.pooling=cls`


@dataclass(frozen=True, kw_only=True, slots=True)
class Attention:
    """Attention of one layer."""

    weights: NDArray[np.float32]  # (H, T queries, T keys); what goes to padding is left out
    to_padding: NDArray[np.float32]  # (H, T queries), the sum of what goes to padding

    @property
    def mean(self) -> NDArray[np.float32]:
        """Mean of the heads: (T queries, T keys)."""
        return np.asarray(self.weights.mean(axis=0))

    @property
    def received(self) -> NDArray[np.float32]:
        """What each token receives, on average over heads and queries: (T,)."""
        return np.asarray(self.mean.mean(axis=0))

    @property
    def padding_share(self) -> float:
        """Share of all weight that goes to padding, 0 to 1."""
        to_padding = self.to_padding.sum(dtype=np.float64)
        to_tokens = self.weights.sum(dtype=np.float64)
        return float(to_padding / (to_padding + to_tokens))


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
    def label(self) -> str:
        """The most probable class."""
        return max(self.probabilities, key=self.probabilities.__getitem__)

    @property
    def marked(self) -> list[str]:
        """Tokens, with a question mark after unknown ones."""
        pairs = zip(self.tokens, self.known, strict=True)
        return [token if is_known else f"{token}?" for token, is_known in pairs]

    def attention(self, head: int | None = None) -> Attention:
        """Attention of the first layer, or of a head of it, from 1. Raises `UserError` if none."""
        if not self.layers:
            raise UserError("The model has no attention.")
        attention = self.layers[0]
        if head is None:
            return attention
        num_heads = len(attention.weights)
        if not 1 <= head <= num_heads:
            raise UserError(f"There is no head {head}: heads count from 1 to {num_heads}.")
        chosen = [head - 1]
        return Attention(weights=attention.weights[chosen], to_padding=attention.to_padding[chosen])


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainedModel:
    """Model of a finished run, on the CPU, with all that it takes to read texts."""

    model: nn.Module  # in eval mode: ids (B, T) -> logits, (B,) or (B, C)
    classes: list[str]  # C names, in the order of their labels
    vocabulary: list[str]  # most frequent first
    config: RunConfig

    def encode(self, texts: Sequence[str]) -> Tensor:
        """Ids of texts as the model takes them: (n, T). Raises `UserError` for other things."""
        if isinstance(texts, str) or not all(isinstance(text, str) for text in texts):
            raise UserError("encode and predict_proba take a list of texts, as [text].")
        data = self.config.data
        ranks = rank_with(self.vocabulary, texts, tokenizer_of(data))
        return torch.from_numpy(to_ids(ranks, data)).long()

    def predict_proba(self, texts: Sequence[str]) -> NDArray[np.float64]:
        """Probabilities of the classes of each text: (n, C). Raises as `encode`."""
        ids = self.encode(texts)
        unused_labels = torch.zeros(len(ids))
        logits = predict(self.model, Examples(ids, unused_labels), Precision.fp32)
        return to_probabilities(torch.from_numpy(logits)).numpy()

    def read(self, text: str) -> Reading:
        """The prediction for a text, with its attention."""
        batch = self.encode([text])
        logits, maps, is_real = forward(self.model, batch)
        probabilities = to_probabilities(logits)[0].tolist()

        words = tokenizer_of(self.config.data)(text)
        kept = kept_part(self.config.data)
        tokens = [START, *words][kept]
        is_word = [False, *[True] * len(words)]  # The start is no word.
        known = (batch[batch != PAD] != UNKNOWN).tolist()
        if is_real.shape[1] > batch.shape[1]:  # The model has put a summary token in front.
            tokens = [SUMMARY, *tokens]
            known = [True, *known]
        layers = []
        is_token = is_real[0]  # (T,)
        for weights in maps:  # (1, H, T queries, T keys)
            of_tokens = weights[0][:, is_token]  # (H, tokens, T keys), without rows of padding
            to_padding = of_tokens[..., ~is_token].sum(dim=-1)  # (H, tokens)
            to_tokens = of_tokens[..., is_token]  # (H, tokens, tokens)
            layers.append(Attention(weights=to_tokens.numpy(), to_padding=to_padding.numpy()))
        position = getattr(self.model, "position", None)
        rows = position.table_rows() if isinstance(position, JoinedPosition) else None
        return Reading(
            tokens=tokens,
            known=known,
            num_cut=len(words) - sum(is_word[kept]),
            probabilities=dict(zip(self.classes, probabilities, strict=True)),
            layers=layers,
            table=None if rows is None else rows.detach().numpy(),
        )


def load_model(
    path: str | PathLike[str], *, trust_code: bool = False, any_code: bool = False
) -> TrainedModel:
    """The model of a finished run, by its folder or id. The options are those of `attnexp predict`.
    Raises `UserError` without weights, for code that is not trusted, and for code that changed."""
    run = load_run(Path(path))
    config = load_config(run, trust_code=trust_code, any_code=any_code)
    classes = run.result.classes
    model = build_model(config, len(classes)).eval()
    load_weights(run, model)
    vocabulary = store.load_vocabulary(run)
    return TrainedModel(model=model, classes=classes, vocabulary=vocabulary, config=config)


def to_probabilities(logits: Tensor) -> Tensor:
    """Probabilities (n, C) of logits (n,) or (n, C)."""
    if logits.ndim == 1:  # of two classes: softmax over (0, x) is sigmoid of x
        zeros = torch.zeros_like(logits)
        logits = torch.stack([zeros, logits], dim=-1)
    return logits.double().softmax(dim=-1)


@torch.no_grad()
def forward(model: nn.Module, ids: Tensor) -> tuple[Tensor, list[Tensor], Tensor]:
    """Logits; the attention of every layer, (B, H, T queries, T keys); and which tokens are no
    padding, (B, T). Where there is attention, T includes a summary token that the model puts in
    front. Maps are computed before their layer runs, so that the layer may take a fast path."""
    maps = []

    def record(layer: Any, args: tuple[Any, ...]) -> None:
        maps.append(layer.weights(*args))

    with apply_hook(record, find_parts(model, MultiHeadSelfAttention), before=True):
        logits = model(ids)
    is_real = ids != PAD
    if maps:
        num_in_front = maps[0].shape[-1] - ids.shape[1]
        is_real = F.pad(is_real, (num_in_front, 0), value=True)
    return logits, maps, is_real
