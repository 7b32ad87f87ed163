"""The classifier of K: embedding, position, self-attention, pooling, logit.

Shapes: B batch, T tokens, D model width.

`build_model` is the only reader of model config; everything else receives plain keywords.
"""

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from attnexp.config.schema import (
    MaskConfig,
    ModelConfig,
    ModelKind,
    Pattern,
    Pooling,
    PositionConfig,
    PositionKind,
    RunConfig,
)
from attnexp.model import masks, pooling
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.biases import AlibiBias, RelativeBias
from attnexp.model.block import Block
from attnexp.model.init import init_weights
from attnexp.model.mixers import Convolution, NgramEmbedding, Recurrent
from attnexp.model.positions import LearnedPosition, SinusoidalPosition, shuffled_positions
from attnexp.model.rotary import RotaryPosition

PAD = 0
"""Id of padding (Keras's rule; 1 starts a review, 2 stands for every rare word)."""

FIRST_WORD = 4
"""Id of the most frequent word: its rank 1, after the three ids above and one unused (Keras)."""

Pool = Callable[[Tensor, Tensor], Tensor]


class Classifier(nn.Module):
    """ids -> logit of the positive class."""

    def __init__(
        self,
        *,
        embedding: nn.Module,
        cls: nn.Parameter | None = None,
        position: nn.Module | None = None,
        mixers: list[nn.Module],
        layers: list[Block],
        pool: Pool,
        output: nn.Module,
        dropout: float,
        scale_embedding: bool = False,
        shuffle_positions: bool = False,
        hide_padding: bool = False,
        pattern: masks.Predicate | None = None,
    ) -> None:
        """The pieces, in the order in which a review meets them.

        embedding: ids -> (B, T, D). cls: a vector (D,) to put in front. position: joins a table.
        mixers come before layers. pool: see `pooling`. output: (B, width) -> (B, 1).
        """
        super().__init__()
        self.embedding = embedding
        self.cls = cls
        self.position = position
        self.mixers = nn.ModuleList(mixers)
        self.layers = nn.ModuleList(layers)
        self.pool = pool
        self.dropout = nn.Dropout(dropout)
        self.output = output
        self.scale_embedding = scale_embedding
        self.shuffle_positions = shuffle_positions
        self.hide_padding = hide_padding
        self.pattern = pattern

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (B, T) integers, `PAD` where a review is shorter. Returns (B,) logits."""
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
        allowed = self.allowed(key_padding_mask)
        for layer in self.layers:
            x = layer(x, key_padding_mask, allowed, positions)
        logit: Tensor = self.output(self.dropout(self.pool(x, key_padding_mask)))
        return logit.squeeze(-1)

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


def build_model(config: RunConfig) -> Classifier:
    """The model a config asks for, with weights that depend on the seed of `init` alone."""
    model = config.model
    width = model.d_model * (2 if config.position.is_concatenated else 1)
    mixers = _mixers(model, width)
    if mixers:
        width = model.d_model
    layers = []
    if model.kind in (ModelKind.attention, ModelKind.cnn_attention, ModelKind.lstm_attention):
        for _ in range(model.layers):
            layers.append(_layer(width, model, config.position, config.mask))
            width = layers[-1].attention.d_output
    classifier = Classifier(
        embedding=_embedding(model, config.data.vocab_size),
        cls=nn.Parameter(torch.empty(model.d_model)) if model.pooling is Pooling.cls else None,
        position=_position(config),
        mixers=mixers,
        layers=layers,
        pool=_pool(model.pooling, width),
        output=_output(width, model.hidden, model.dropout),
        dropout=model.dropout,
        scale_embedding=config.position.scale_embedding,
        shuffle_positions=config.position.shuffled,
        hide_padding=config.mask.padding,
        pattern=None if config.mask.restricted else _pattern(config.mask),
    )
    init_weights(classifier, config.seed_of("init"))
    return classifier


def set_word_vectors(classifier: Classifier, rows: Tensor, found: Tensor) -> None:
    """Start from pretrained embeddings: rows (V, D) where found (V,), in the vocabulary's order."""
    embedding = classifier.embedding
    table = (embedding.word if isinstance(embedding, NgramEmbedding) else embedding).weight
    assert isinstance(table, Tensor)
    with torch.no_grad():
        table[FIRST_WORD : FIRST_WORD + len(rows)][found] = rows[found]


def _embedding(model: ModelConfig, vocab_size: int) -> nn.Module:
    embedding: nn.Module
    if model.kind is ModelKind.fasttext:
        embedding = NgramEmbedding(vocab_size, model.d_model, num_buckets=model.buckets)
    else:
        embedding = nn.Embedding(vocab_size, model.d_model)
    return embedding.requires_grad_(not model.freeze)


def _position(config: RunConfig) -> nn.Module | None:
    """What joins x; rotary, relative and alibi act within attention (`_layer`)."""
    position = config.position
    num_positions = config.data.max_len + (config.model.pooling is Pooling.cls)
    match position.kind:
        case PositionKind.sinusoidal:
            return SinusoidalPosition(
                num_positions,
                config.model.d_model,
                layout=position.layout,
                combine=position.combine,
                scale=position.scale,
            )
        case PositionKind.learned:
            return LearnedPosition(
                num_positions,
                config.model.d_model,
                combine=position.combine,
                scale=position.scale,
            )
        case PositionKind.none | PositionKind.rotary | PositionKind.relative | PositionKind.alibi:
            return None


def _mixers(model: ModelConfig, d_input: int) -> list[nn.Module]:
    d_output = model.d_model
    match model.kind:
        case ModelKind.attention | ModelKind.mean | ModelKind.fasttext:
            return []
        case ModelKind.cnn | ModelKind.cnn_attention:
            return [Convolution(d_input, d_output, width=model.kernel)]
        case ModelKind.lstm | ModelKind.lstm_attention:
            return [Recurrent(d_input, d_output, cell="lstm")]
        case ModelKind.bilstm:
            return [Recurrent(d_input, d_output, cell="lstm", bidirectional=True)]
        case ModelKind.gru:
            return [Recurrent(d_input, d_output, cell="gru")]
        case ModelKind.tfidf:
            raise ValueError("tfidf is no neural model: see baseline.py")


def _layer(d_input: int, model: ModelConfig, position: PositionConfig, mask: MaskConfig) -> Block:
    rotary: nn.Module | None = None
    bias: nn.Module | None = None
    match position.kind:
        case PositionKind.rotary:
            rotary = RotaryPosition(model.d_query or model.d_head, layout=position.layout)
        case PositionKind.relative:
            bias = RelativeBias(model.heads, max_distance=position.max_distance)
        case PositionKind.alibi:
            bias = AlibiBias(model.heads)
        case PositionKind.none | PositionKind.sinusoidal | PositionKind.learned:
            pass
    attention = MultiHeadSelfAttention(
        d_input,
        num_heads=model.heads,
        d_head=model.d_head,
        d_query=model.d_query,
        d_key=model.d_key,
        d_value=model.d_value,
        d_output=model.d_model if model.output_projection else None,
        scale=model.scale,
        score=model.score,
        mask_mode=mask.mode,
        rotary=rotary,
        bias=bias,
        window=mask.radius if mask.restricted else None,
    )
    return Block(
        attention,
        d_input=d_input,
        d_feed_forward=model.feed_forward,
        residual=model.residual,
        norm=model.norm,
        dropout=model.layer_dropout,
        hide_padding=mask.padding,
        hide_padded_queries=mask.query,
    )


def _pattern(mask: MaskConfig) -> masks.Predicate | None:
    match mask.pattern:
        case Pattern.full:
            return None
        case Pattern.causal:
            return masks.causal
        case Pattern.window:
            assert mask.radius is not None  # checks.py saw to it
            return partial(masks.window, radius=mask.radius)
        case Pattern.dilated:
            assert mask.radius is not None
            assert mask.dilation is not None
            return partial(masks.dilated, radius=mask.radius, dilation=mask.dilation)
        case Pattern.block_sparse:
            assert mask.block is not None
            return partial(masks.block_sparse, block=mask.block)


def _pool(kind: Pooling, width: int) -> Pool:
    match kind:
        case Pooling.mean:
            return pooling.mean
        case Pooling.masked_mean:
            return pooling.masked_mean
        case Pooling.max:
            return pooling.maximum
        case Pooling.last:
            return pooling.last
        case Pooling.cls:
            return pooling.first
        case Pooling.attention:
            return pooling.AttentionPooling(width)


def _output(width: int, hidden: int | None, dropout: float) -> nn.Module:
    """The logit, through one ReLU layer where asked for (Keras's transformer example)."""
    if hidden is None:
        return nn.Linear(width, 1)
    return nn.Sequential(
        nn.Linear(width, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, 1)
    )
