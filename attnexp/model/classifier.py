"""The classifier of K: embedding, position, self-attention, pooling, logits.

Shapes: B batch, T tokens, D model width, C classes.

`build_model`, with `size`, is the only reader of model config; everything else receives plain
keywords.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.base import memory
from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.pieces import Piece
from attnexp.config.schema import RunConfig
from attnexp.model import masks, seams, size
from attnexp.model.block import LayerContext
from attnexp.model.embedding import WordEmbedding
from attnexp.model.init import init_weights, is_ours, named_seed
from attnexp.model.positions import shuffled_positions

PAD = 0
"""Id of padding (Keras's rule; 1 starts a review, 2 stands for every rare word)."""

FIRST_WORD = 4
"""Id of the most frequent word: its rank 1, after the three ids above and one unused (Keras)."""

WORDS = f"{WordEmbedding.__module__}:{WordEmbedding.__name__}"
"""The embedding where the model's own piece stands behind it."""


class Classifier(nn.Module):
    """ids -> logits: of two classes one, the log-odds of the second; of more, one a class."""

    def __init__(
        self,
        *,
        embedding: seams.Embedding,
        cls: nn.Parameter | None = None,
        position: seams.JoinedPosition | None = None,
        mixers: list[seams.Mixer],
        layers: seams.Layers,
        pool: Callable[[Tensor, Tensor], Tensor],
        output: nn.Module,
        dropout: float,
        scale_embedding: bool = False,
        shuffle_positions: bool = False,
        hide_padding: bool = False,
        pattern: seams.Mask | None = None,
    ) -> None:
        """The pieces, in the order in which a review meets them.

        embedding: ids -> (B, T, D). cls: a vector (D,) to put in front. position: joins a table.
        mixers come before layers. pool: the one vector of a review. output: (B, width) -> (B, 1),
        or (B, C) of more than two classes.
        """
        super().__init__()
        self.embedding = embedding
        self.cls = cls
        self.position = position
        self.mixers = nn.ModuleList(mixers)
        self.layers = layers
        self.pool = pool
        self.dropout = nn.Dropout(dropout)
        self.output = output
        self.scale_embedding = scale_embedding
        self.shuffle_positions = shuffle_positions
        self.hide_padding = hide_padding
        self.pattern = pattern

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (B, T) integers, `PAD` where a review is shorter. Returns logits (B,) or (B, C)."""
        x = self.embedding(ids)
        if self.cls is not None:  # stands in front, and is a real token
            x = torch.cat([self.cls.expand(len(ids), 1, -1), x], dim=1)
            ids = torch.cat([ids.new_full((len(ids), 1), PAD + 1), ids], dim=1)
        if self.scale_embedding:
            x = x * math.sqrt(x.shape[-1])
        positions = self.positions(ids)
        if self.position is not None:
            x = self.position(x, positions)
        key_padding_mask = ids == PAD
        for mixer in self.mixers:
            x = mixer(x, key_padding_mask)
        review = self.pooled(x, key_padding_mask, self.allowed(key_padding_mask), positions)
        logits: Tensor = self.output(self.dropout(review))
        return logits.squeeze(-1)

    def pooled(
        self, x: Tensor, key_padding_mask: Tensor, allowed: Tensor | None, positions: Tensor
    ) -> Tensor:
        """Through all layers to the one vector of a review: (B, T, D) -> (B, width)."""
        for layer in self.layers:
            x = layer(x, key_padding_mask, allowed, positions)
        review: Tensor = self.pool(x, key_padding_mask)
        return review

    def positions(self, ids: Tensor) -> Tensor:
        """Where each token stands, (T,), or (B, T) in the shuffled control."""
        if self.shuffle_positions:
            return shuffled_positions(ids)
        return torch.arange(ids.shape[-1], device=ids.device)

    def allowed(self, key_padding_mask: Tensor) -> Tensor | None:
        """Which keys each query may see, (B or 1, 1, T or 1, T), or None for all."""
        allowed = None
        if self.pattern is not None:
            query, key = masks.grid(key_padding_mask.shape[-1], key_padding_mask.device)
            allowed = self.pattern(query, key)[None, None]
        if self.hide_padding:
            real = masks.real_keys(key_padding_mask)
            allowed = real if allowed is None else allowed & real
        return allowed


def build_model(config: RunConfig, num_classes: int = 2) -> nn.Module:
    """The model a config asks for, a network or a baseline: ids (B, T) -> logits, which are (B,) of
    two classes and (B, C) of more.

    Its weights depend on the seed of `init` alone. Raises `UserError` for a piece that cannot be
    built, and for a model that this machine cannot hold.
    """
    if config.model.fills("Baseline"):
        more_than_two = {"num_classes": num_classes} if num_classes > 2 else {}
        baseline: seams.Baseline = _build(
            config.model, config.data.vocab_size, seed=config.seed_of("init"), **more_than_two
        )
        return baseline
    return build_classifier(config, num_classes)


def build_classifier(config: RunConfig, num_classes: int = 2) -> Classifier:
    """As `build_model`, where the model is known to be a network."""
    number = size.num_parameters(config)
    memory.check(size.FLOAT * number, f"A model of {number:,} parameters or more")
    model, position, mask = config.model, config.position, config.mask
    build = partial(_build, seed=config.seed_of("init"))
    has_summary = model.pooling.fills("SummaryToken")

    joined, pattern = None, build(mask) if mask.kind else None
    restricted = mask.fills("RestrictedWindow")
    width = model.d_model
    if position.fills("JoinedPosition"):
        joined = build(position, config.data.max_len + has_summary, width)
        width = joined.d_output
    mixers = []
    for piece in (model.before, model):
        if piece.fills("Mixer"):
            mixers.append(build(piece, width, model.d_model))
            width = mixers[-1].d_output
    layers = seams.Layers()
    if model.fills("Layers"):
        context = LayerContext(
            rotation=partial(build, position) if position.fills("Rotation") else None,
            bias=partial(build, position) if position.fills("ScoreBias") else None,
            mask_mode=mask.mode,
            window=mask.radius if restricted else None,
            hide_padding=mask.padding,
            hide_padded_queries=mask.query,
        )
        layers = build(model, width, model.d_model, context)
        width = layers.d_output
    own = model if model.fills("Embedding") else pieces.spec(WORDS)(kind=WORDS)
    embedding = build(own, config.data.vocab_size, model.d_model)
    classifier = Classifier(
        embedding=embedding.requires_grad_(not model.freeze),
        cls=nn.Parameter(torch.empty(model.d_model)) if has_summary else None,
        position=joined,
        mixers=mixers,
        layers=layers,
        pool=build(model.pooling, width),
        output=_output(width, 1 if num_classes == 2 else num_classes, model.hidden, model.dropout),
        dropout=model.dropout,
        scale_embedding=model.scale_embedding,
        shuffle_positions=bool(position.kind) and position.shuffled,
        hide_padding=mask.padding,
        pattern=None if restricted else pattern,
    )
    init_weights(classifier, config.seed_of("init"))
    return classifier


def _build(piece: Piece, *surroundings: Any, seed: int, **by_name: Any) -> Any:
    """Import a piece's class at last, and call it with its surroundings and its settings."""
    assert piece.kind is not None
    settings = by_name | {
        name: partial(_build, value, seed=seed) if isinstance(value, Piece) else value
        for name, value in pieces.settings(piece).items()
    }
    make = pieces.load(piece.kind)
    try:
        if is_ours(make):
            return make(*surroundings, **settings)
        # Anyone's constructor draws from a stream of its own, and moves none of ours.
        with torch.random.fork_rng():
            torch.manual_seed(named_seed(seed, piece.kind))
            return make(*surroundings, **settings)
    except (ValueError, TypeError) as error:
        raise UserError(f"{piece.kind} cannot be built: {error}.") from error


def set_word_vectors(classifier: Classifier, rows: Tensor, found: Tensor) -> None:
    """Start from pretrained embeddings: rows (V, D) where found (V,), in the vocabulary's order."""
    with torch.no_grad():
        classifier.embedding.words[FIRST_WORD : FIRST_WORD + len(rows)][found] = rows[found]


def _output(width: int, num_logits: int, hidden: int | None, dropout: float) -> nn.Module:
    """The logits, through one ReLU layer where asked for (Keras's transformer example)."""
    if hidden is None:
        return nn.Linear(width, num_logits)
    return nn.Sequential(
        nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, num_logits)
    )
