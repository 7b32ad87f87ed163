"""The classifier of K: embedding, position, self-attention, pooling, logits.

Shapes: B batch, T tokens, D model width, C classes. Pieces receive plain arguments, no config."""

import math
from enum import StrEnum
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.config.pieces import Piece
from attnexp.config.schema import RunConfig
from attnexp.data.text import FIRST_WORD, PAD, START
from attnexp.model import seams
from attnexp.model.init import Stream, init_layer, init_table
from attnexp.model.mixers import SummaryToken, WordEmbedding
from attnexp.model.positions import shuffled_positions
from attnexp.model.scores import grid
from attnexp.network.build_piece import build_piece
from attnexp.network.pooled import pool_layer, pool_words


class FastPath(StrEnum):
    """How a network computes. Results of two paths differ by rounding alone. Heads of dot products
    have `fast_attention` on any path but `reference`; `pool_texts` takes the two last."""

    reference = "reference"  # as its pieces are written
    window = "window"  # attention within a window (`window_attention`), where that saves work
    fused = "fused"  # torch's attention, which never writes the (T, T) map (Dao et al. 2022)
    pooled = "pooled"  # a last layer of attention alone makes what pooling keeps (`pool_layer`)
    words = "words"  # the pooled model by hand (`pool_words`), on the CPU in fp32


class Classifier(nn.Module):
    """ids -> logits: one for two classes, the log-odds of the second; else one for each class."""

    fast_path = FastPath.reference  # until `take_fast_path`

    def __init__(self, config: RunConfig, num_classes: int = 2) -> None:
        """The pieces, in the order in which a text meets them, each for vectors of the width that
        the one before it gives. `config.model` is one of them, too: an Embedding (model=mean), a
        Mixer (model=lstm) or Layers (model=attention)."""
        super().__init__()
        model = config.model
        position = config.position
        build = partial(build_piece, seed=config.seed_of("init"))
        has_summary = model.pooling.fills(SummaryToken)
        num_tokens = config.data.max_len + int(has_summary)
        width = model.d_model
        make_embedding = partial(build, model) if model.fills(seams.Embedding) else WordEmbedding
        self.embedding: seams.Embedding = make_embedding(config.data.vocab_size, width)
        self.embedding.d_output = width
        self.embedding.requires_grad_(not model.freeze)
        self.scale_embedding: bool = model.scale_embedding
        self.cls = nn.Parameter(torch.zeros(width)) if has_summary else None

        self.shuffle_positions: bool = getattr(position, "shuffled", False)  # none has no settings
        self.position: seams.JoinedPosition | None = None
        if position.fills(seams.JoinedPosition):
            self.position = build(position, num_tokens, width)
            self.position_dropout = nn.Dropout(position.dropout)
            width = self.position.d_output

        self.mixers = nn.ModuleList()
        for piece in (model.before, model):
            if piece.fills(seams.Mixer):
                self.mixers.append(build(piece, width, model.d_model))
                width = self.mixers[-1].d_output

        self.mask: seams.Mask | None = build(config.mask) if config.mask.kind else None
        self.hide_padding = config.mask.padding
        self.layers = seams.Layers()
        if model.fills(seams.Layers):
            context = _context(config, num_tokens)
            self.layers = build(model, width, model.d_model, context)
            width = self.layers.d_output

        self.pool: seams.Pooling = build(model.pooling, width)
        self.dropout = nn.Dropout(model.dropout)
        self.output = _output_layers(model, width, num_classes)

    def init_parameters(self, stream: Stream) -> None:
        """The output layers Glorot uniform with bias 0, the summary vector uniform in ±0.05."""
        for name, layer in self.output.named_modules(prefix="output"):
            if isinstance(layer, nn.Linear):
                init_layer(layer, stream, name)
        if self.cls is not None:
            init_table(self.cls, stream("cls"))

    @torch.no_grad()
    def set_word_vectors(self, rows: Tensor, is_known: Tensor) -> None:
        """Start from pretrained embeddings: rows (V, D) where known (V,), in vocabulary order."""
        after_last = FIRST_WORD + len(rows)
        words = self.embedding.words[FIRST_WORD:after_last]
        words[is_known] = rows[is_known]

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (B, T) integers, `PAD` where a text is shorter. Returns logits (B,) or (B, C)."""
        pooled = self.dropout(self.pool_texts(ids))
        logits: Tensor = self.output(pooled)
        return logits.squeeze(-1)

    def pool_texts(self, ids: Tensor) -> Tensor:
        """One vector for each text: ids (B, T) -> (B, width of the pooled vectors)."""
        if self.fast_path is FastPath.words:
            return pool_words(self, ids, ids == PAD)
        x = self.embedding(ids)
        if self.cls is not None:  # put in front, as a real token
            summary = self.cls.expand(len(ids), 1, -1)
            x = torch.cat([summary, x], dim=1)
            ids = nn.functional.pad(ids, (1, 0), value=START)
        if self.scale_embedding:
            x = x * math.sqrt(x.shape[-1])
        positions = torch.arange(ids.shape[-1], device=ids.device)
        if self.shuffle_positions:
            positions = shuffled_positions(ids)
        if self.position is not None:
            x = self.position_dropout(self.position(x, positions))
        key_padding_mask = ids == PAD
        for mixer in self.mixers:
            x = mixer(x, key_padding_mask)
        allowed = self.allowed_keys(key_padding_mask)
        layers: list[Any] = [*self.layers]
        last = layers.pop() if self.fast_path is FastPath.pooled else None
        for layer in layers:
            x = layer(x, key_padding_mask, allowed, positions)
        if last is not None:
            return pool_layer(last, self.pool, x, key_padding_mask, allowed, positions)
        pooled: Tensor = self.pool(x, key_padding_mask)
        return pooled

    def allowed_keys(self, key_padding_mask: Tensor) -> Tensor | None:
        """Which keys each query may see, (B or 1, 1, T or 1, T), or None for all."""
        not_padding = ~key_padding_mask[:, None, None, :] if self.hide_padding else None
        if self.mask is None or self.fast_path is FastPath.window:
            return not_padding  # `window_attention` has the window.
        num_tokens = key_padding_mask.shape[-1]
        query, key = grid(num_tokens, key_padding_mask.device)
        in_mask = self.mask(query, key)[None, None]
        if not_padding is None:
            return in_mask
        return in_mask & not_padding


def _context(config: RunConfig, num_tokens: int) -> seams.LayerContext:
    position = config.position
    make = partial(build_piece, position, seed=config.seed_of("init"))
    return seams.LayerContext(
        rotation=make if position.fills(seams.Rotation) else None,
        bias=make if position.fills(seams.ScoreBias) else None,
        mask_mode=config.mask.mode,
        hide_padded_queries=config.mask.query,
        num_tokens=num_tokens,
    )


def _output_layers(model: Piece, width: int, num_classes: int) -> nn.Module:
    num_logits = 1 if num_classes == 2 else num_classes
    last = nn.Linear(model.hidden or width, num_logits)
    if not model.hidden:
        return last
    first = nn.Linear(width, model.hidden)  # as in Keras's transformer example
    return nn.Sequential(first, nn.ReLU(), nn.Dropout(model.dropout), last)
