"""The classifier of K: embedding, position, self-attention, pooling, logits.

Shapes: B batch, T tokens, D model width, C classes.

Only this file reads a config; every piece receives plain arguments.
"""

import copy
import math
from dataclasses import fields, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.pieces import Piece
from attnexp.config.schema import RunConfig, SeedsConfig
from attnexp.model import seams
from attnexp.model.attention import Attention
from attnexp.model.init import Stream, init_layers, init_table, init_weights, named_seed
from attnexp.model.mixers import Last, MaskedMean, Mean, SummaryToken
from attnexp.model.positions import shuffled_positions
from attnexp.model.scores import DotProduct, Window, grid, real_keys
from attnexp.model.window import SMALLEST_BLOCK

PAD = 0
"""Id of padding. As in Keras, 1 starts a text and 2 stands for every unknown word."""

FIRST_WORD = 4
"""Id of the most frequent word. Ids 0 to 2 are special, and Keras leaves 3 unused."""

_built = set[str]()  # configs, their seeds aside, of models that could be built

REFERENCE = "reference"
"""Name of the path of a model that computes as its code reads: see `take_fast_path`."""


class Classifier(nn.Module):
    """ids -> logits: one for two classes, the log-odds of the second; else one for each class."""

    pools_early = False
    """Whether the last layer computes only what the pooling keeps of it: see `take_fast_path`."""

    def __init__(self, config: RunConfig, num_classes: int = 2) -> None:
        """The pieces, in the order in which a text meets them."""
        super().__init__()
        model, position, mask = config.model, config.position, config.mask
        build = partial(build_piece, seed=config.seed_of("init"))
        has_summary = model.pooling.fills("SummaryToken")
        num_tokens, width = config.data.max_len + has_summary, model.d_model

        words = Piece(kind="attnexp.model.mixers:WordEmbedding")
        own = model if model.fills("Embedding") else words
        self.embedding: seams.Embedding = build(own, config.data.vocab_size, width)
        self.embedding.requires_grad_(not model.freeze)
        self.scale_embedding: bool = model.scale_embedding
        self.cls = nn.Parameter(torch.zeros(width)) if has_summary else None

        self.shuffle_positions: bool = bool(position.kind) and position.shuffled
        self.position: seams.JoinedPosition | None = None
        if position.fills("JoinedPosition"):
            self.position = build(position, num_tokens, width)
            self.position_dropout = nn.Dropout(position.dropout)
            width = self.position.d_output

        self.mixers = nn.ModuleList()
        for piece in (model.before, model):
            if piece.fills("Mixer"):
                self.mixers.append(build(piece, width, model.d_model))
                width = self.mixers[-1].d_output

        self.pattern: seams.Mask | None = build(mask) if mask.kind else None
        self.hide_padding = mask.padding
        self.layers = seams.Layers()
        if model.fills("Layers"):
            context = seams.LayerContext(
                rotation=partial(build, position) if position.fills("Rotation") else None,
                bias=partial(build, position) if position.fills("ScoreBias") else None,
                mask_mode=mask.mode,
                hide_padded_queries=mask.query,
                num_tokens=num_tokens,
            )
            self.layers = build(model, width, model.d_model, context)
            width = self.layers.d_output
        elif position.fills("Rotation", "ScoreBias"):
            raise UserError(f"position={position.name} acts on attention, and this model has none.")

        self.pool: seams.Pooling = build(model.pooling, width)
        self.dropout = nn.Dropout(model.dropout)
        num_logits = 1 if num_classes == 2 else num_classes
        self.output: nn.Module = nn.Linear(model.hidden or width, num_logits)
        if model.hidden:  # as in Keras's transformer example
            first = nn.Linear(width, model.hidden)
            self.output = nn.Sequential(first, nn.ReLU(), nn.Dropout(model.dropout), self.output)

    def init_parameters(self, stream: Stream) -> None:
        """The output layers Glorot uniform with bias 0, the summary vector uniform in ±0.05."""
        linear = [name for name, m in self.named_modules() if isinstance(m, nn.Linear)]
        init_layers(self, stream, *(name for name in linear if name.startswith("output")))
        if self.cls is not None:
            init_table(self.cls, stream("cls"))

    @torch.no_grad()
    def set_word_vectors(self, rows: Tensor, found: Tensor) -> None:
        """Start from pretrained embeddings: rows (V, D) where found (V,), in vocabulary order."""
        self.embedding.words[FIRST_WORD : FIRST_WORD + len(rows)][found] = rows[found]

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (B, T) integers, `PAD` where a text is shorter. Returns logits (B,) or (B, C)."""
        x = self.embedding(ids)
        if self.cls is not None:  # put in front, as a real token
            x = torch.cat([self.cls.expand(len(ids), 1, -1), x], dim=1)
            ids = torch.cat([ids.new_full((len(ids), 1), PAD + 1), ids], dim=1)
        if self.scale_embedding:
            x = x * math.sqrt(x.shape[-1])
        count = torch.arange(ids.shape[-1], device=ids.device)
        positions = shuffled_positions(ids) if self.shuffle_positions else count
        if self.position is not None:
            x = self.position_dropout(self.position(x, positions))
        key_padding_mask = ids == PAD
        for mixer in self.mixers:
            x = mixer(x, key_padding_mask)
        allowed = self.allowed(key_padding_mask)
        layers = [*self.layers]
        last: Any = layers.pop() if self.pools_early else None
        for layer in layers:
            x = layer(x, key_padding_mask, allowed, positions)
        if last is None:
            pooled = self.pool(x, key_padding_mask)
        else:
            pooled = last.pooled(self.pool, x, key_padding_mask, allowed, positions)
        return torch.squeeze(self.output(self.dropout(pooled)), -1)

    def allowed(self, key_padding_mask: Tensor) -> Tensor | None:
        """Which keys each query may see, (B or 1, 1, T or 1, T), or None for all."""
        real = real_keys(key_padding_mask) if self.hide_padding else None
        if self.pattern is None:
            return real
        seen = self.pattern(*grid(key_padding_mask.shape[-1], key_padding_mask.device))[None, None]
        return seen if real is None else seen & real


def build_model(config: RunConfig, num_classes: int = 2) -> nn.Module:
    """The model of a config, a network or a baseline: ids (B, T) -> logits, (B,) or (B, C).

    Weights depend on the seed of `init` alone. Raises `UserError` for a piece that cannot be built.
    """
    seed = config.seed_of("init")
    if config.model.fills("Baseline"):
        more = {"num_classes": num_classes} if num_classes > 2 else {}
        model: nn.Module = build_piece(config.model, config.data.vocab_size, seed=seed, **more)
        return model
    classifier = Classifier(config, num_classes)
    init_weights(classifier, seed)
    return classifier


def try_to_build(config: RunConfig) -> None:
    """Build the model once, with few words. Raises `UserError` if that fails."""
    data = replace(config.data, vocab_size=min(config.data.vocab_size, 1000))
    alike = replace(config, seed=0, seeds=SeedsConfig(), data=data)
    try:
        with torch.random.fork_rng(devices=[]):
            if repr(alike) not in _built:
                build_model(alike)
        _built.add(repr(alike))
    except (RuntimeError, AttributeError) as error:  # torch's; a `d_output` that is not set
        raise UserError(f"The model cannot be built: {str(error).splitlines()[0]}") from error


def build_piece(piece: Piece, *surroundings: Any, seed: int, **by_name: Any) -> Any:
    """Import a piece's class, and call it with its surroundings and its settings."""
    assert piece.kind is not None
    shared = {f.name for f in fields(piece.frame or type(piece))}
    own = by_name | {f.name: getattr(piece, f.name) for f in fields(piece) if f.name not in shared}
    for name, value in own.items():
        if isinstance(value, Piece):
            own[name] = partial(build_piece, value, seed=seed)
    make = pieces.load(piece.kind)
    try:
        if piece.kind.startswith("attnexp."):  # `init_weights` replaces its first draws
            made = make(*surroundings, **own)
        else:  # its weights follow the seed, and the global stream stays where it is
            with torch.random.fork_rng():
                torch.manual_seed(named_seed(seed, piece.kind))
                made = make(*surroundings, **own)
    except UserError:  # of a piece within it
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError) as error:
        raise UserError(f"{piece.kind} cannot be built: {error}.") from error
    if isinstance(made, nn.Module):
        made.surroundings = surroundings  # type: ignore[assignment]  # read by `check`
        for name, weight in made.named_parameters():
            kind = "lazy" if nn.parameter.is_lazy(weight) else str(weight.dtype)
            if not kind.startswith(("torch.float", "torch.bfloat")):
                raise UserError(
                    f"{piece.kind} cannot be built: its parameter '{name}' is {kind}, and a weight "
                    f"holds real numbers in a shape that the constructor knows."
                )
    return made


def take_fast_path(model: nn.Module) -> str:
    """Tell a model to compute the same with less work; return the name of the path it then takes.

    Results change by rounding alone. Subclasses of ours, which may compute otherwise, take no part.
    `window` (`window_attention`) where it saves work; else `pooled` (`Block.pooled`) where the last
    layer is bare attention and the pooling linear, and `fused` (torch's attention, which never
    writes the (T, T) map; Dao et al. 2022) for the other layers.
    """
    if type(getattr(model, "layers", None)) is not Attention:
        return REFERENCE
    classifier: Any = model
    layers, last, pattern = classifier.layers, classifier.layers[-1], classifier.pattern
    attention = last.attention  # the other layers differ from it in width alone
    plain = type(attention.score) is DotProduct and attention.bias is None
    can_fuse = plain and attention.mask_mode == "add" and attention.dropout.p == 0
    radius = pattern.radius if type(pattern) is Window else layers.num_tokens
    if can_fuse and max(radius, SMALLEST_BLOCK) + 2 * radius < layers.num_tokens:
        classifier.pattern = None
        for block in layers:
            block.attention.window = radius
        return "window"
    bare = last.feed_forward is None and not last.residual and last.norm == "none"
    is_linear = type(classifier.pool) in (Mean, MaskedMean, Last, SummaryToken)
    classifier.pools_early = is_linear and bare and last.dropout.p == 0
    for block in layers:
        block.attention.fused = can_fuse
    return "pooled" if classifier.pools_early else "fused" if can_fuse else REFERENCE


def cost_of(config: RunConfig, num_classes: int = 2) -> dict[str, int]:
    """Trainable parameters, and FLOPs (2 for a multiply and an add) of a forward pass over one text
    on the reference path. Leaves the random state as it is."""
    ids = torch.ones(1, config.data.max_len, dtype=torch.int32)
    counter = FlopCounterMode(display=False)
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        model = build_model(config, num_classes).eval()
        try:  # without values, where torch looks into an LSTM
            with counter:
                copy.deepcopy(model).to("meta")(ids.to("meta"))
        except (NotImplementedError, RuntimeError):  # some operation needs them
            with counter:
                model(ids)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {"parameters": trained, "flops_per_example": int(counter.get_total_flops())}
