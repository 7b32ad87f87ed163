"""The classifier of K: embedding, position, self-attention, pooling, logit.

Shapes: B batch, T tokens, D model width.

`build_model` is the only reader of model config; everything else receives plain keywords.
"""

import hashlib
import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from attnexp.config import Combine, Pattern, Pooling, PositionKind, RunConfig
from attnexp.model import masks, pooling
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.positions import SinusoidalPosition

PAD = 0
"""Id of padding (Keras's rule; 1 starts a review, 2 stands for every rare word)."""


class Classifier(nn.Module):
    """ids -> logit of the positive class."""

    def __init__(
        self,
        *,
        embedding: nn.Embedding,
        position: nn.Module,
        layers: list[MultiHeadSelfAttention],
        pool: Callable[[Tensor, Tensor], Tensor],
        output: nn.Linear,
        dropout: float,
        residual: bool = False,
        scale_embedding: bool = False,
        hide_padding: bool = False,
        hide_padded_queries: bool = False,
        pattern: masks.Predicate | None = None,
    ) -> None:
        super().__init__()
        self.embedding = embedding
        self.position = position
        self.layers = nn.ModuleList(layers)
        self.pool = pool
        self.dropout = nn.Dropout(dropout)
        self.output = output
        self.residual = residual
        self.scale_embedding = scale_embedding
        self.hide_padding = hide_padding
        self.hide_padded_queries = hide_padded_queries
        self.pattern = pattern

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (B, T) integers, `PAD` where a review is shorter. Returns (B,) logits."""
        key_padding_mask = ids == PAD
        allowed = self.allowed(key_padding_mask)
        x = self.embedding(ids)
        if self.scale_embedding:
            x = x * math.sqrt(x.shape[-1])
        x = self.position(x)
        for attention in self.layers:
            y = attention(x, allowed)
            if self.hide_padded_queries:
                y = y.masked_fill(key_padding_mask[..., None], 0.0)
            x = x + y if self.residual else y
        logit: Tensor = self.output(self.dropout(self.pool(x, key_padding_mask)))
        return logit.squeeze(-1)

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
    """The model a config asks for, with weights that depend on `config.seed` alone."""
    model, position, mask = config.model, config.position, config.mask
    width = model.d_model

    match position.kind:
        case PositionKind.none:
            join: nn.Module = nn.Identity()
        case PositionKind.sinusoidal:
            join = SinusoidalPosition(
                config.data.max_len,
                model.d_model,
                layout=position.layout,
                combine=position.combine,
            )
            width *= 2 if position.combine is Combine.concat else 1

    match mask.pattern:
        case Pattern.full:
            pattern = None
        case Pattern.causal:
            pattern = masks.causal
        case Pattern.window:
            assert mask.radius is not None  # config.check saw to it
            pattern = partial(masks.window, radius=mask.radius)

    match model.pooling:
        case Pooling.mean:
            pool = pooling.mean
        case Pooling.masked_mean:
            pool = pooling.masked_mean

    layers = []
    for _ in range(model.layers):
        layer = MultiHeadSelfAttention(
            width,
            num_heads=model.heads,
            d_head=model.d_head,
            d_output=model.d_model if model.output_projection else None,
            scale=model.scale,
            score=model.score,
            mask_mode=mask.mode,
        )
        layers.append(layer)
        width = layer.d_output

    classifier = Classifier(
        embedding=nn.Embedding(config.data.vocab_size, model.d_model),
        position=join,
        layers=layers,
        pool=pool,
        output=nn.Linear(width, 1),
        dropout=model.dropout,
        residual=model.residual,
        scale_embedding=position.scale_embedding,
        hide_padding=mask.padding,
        hide_padded_queries=mask.query,
        pattern=pattern,
    )
    init_weights(classifier, config.seed)
    return classifier


def init_weights(model: nn.Module, seed: int) -> None:
    """Keras's initialisation: embeddings uniform in ±0.05, matrices Glorot uniform, biases 0.

    Each parameter draws from a generator of its own, seeded by `seed` and the parameter's name.
    So two variants with the same seed start from the same weights wherever they share a piece,
    and a comparison between them is paired.
    """
    for name, parameter in model.named_parameters():
        generator = torch.Generator().manual_seed(named_seed(seed, name))
        if name.startswith("embedding"):
            nn.init.uniform_(parameter, -0.05, 0.05, generator=generator)
        elif parameter.ndim == 1:
            nn.init.zeros_(parameter)
        else:
            nn.init.xavier_uniform_(parameter, generator=generator)


def named_seed(seed: int, name: str) -> int:
    """A seed for one random stream of a run, independent of every other stream's."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:7])
