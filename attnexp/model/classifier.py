"""The classifier of K: embedding, position, self-attention, pooling, logits.

Shapes: B batch, T tokens, D model width, C classes.

Only `build_model` and `cost` read a config; everything else receives plain keywords.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.pieces import Piece
from attnexp.config.schema import RunConfig
from attnexp.model import seams
from attnexp.model.embedding import WordEmbedding
from attnexp.model.init import Stream, init_layers, init_table, init_weights, named_seed

PAD = 0
"""Id of padding. As in Keras, 1 starts a text and 2 stands for every unknown word."""

FIRST_WORD = 4
"""Id of the most frequent word. Ids 0 to 2 are special, and Keras leaves 3 unused."""

WORDS = f"{WordEmbedding.__module__}:{WordEmbedding.__name__}"
"""Class of the embedding of models whose own piece is no embedding."""

REFERENCE = seams.REFERENCE
"""Name of the path of a model that computes as its code reads."""

FLOAT_BYTES = 4
"""Bytes of a weight."""


class Classifier(nn.Module):
    """ids -> logits: one for two classes, the log-odds of the second; else one for each class."""

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
        position_dropout: float = 0.0,
        scale_embedding: bool = False,
        shuffle_positions: bool = False,
        hide_padding: bool = False,
        pattern: seams.Mask | None = None,
    ) -> None:
        """The pieces, in the order in which a text meets them.

        embedding: ids -> (B, T, D). cls: a vector (D,) to put in front. position: joins positions
        to embeddings, and position_dropout acts on what it returns. mixers come before layers.
        pool: (B, T, width) -> (B, width). dropout acts on the pooled vector. output: (B, width) ->
        (B, 1), or (B, C) for more than two classes. pattern: which keys a query may see.
        """
        super().__init__()
        self.embedding = embedding
        self.cls = cls
        self.position = position
        self.position_dropout = nn.Dropout(position_dropout)
        self.mixers = nn.ModuleList(mixers)
        self.layers = layers
        self.pool = pool
        self.dropout = nn.Dropout(dropout)
        self.output = output
        self.scale_embedding = scale_embedding
        self.shuffle_positions = shuffle_positions
        self.hide_padding = hide_padding
        self.pattern = pattern

    def init_parameters(self, stream: Stream) -> None:
        """The output layers Glorot uniform with bias 0, the summary vector uniform in ±0.05."""
        linear = [name for name, m in self.named_modules() if isinstance(m, nn.Linear)]
        init_layers(self, stream, *(name for name in linear if name.startswith("output")))
        if self.cls is not None:
            init_table(self.cls, stream("cls"))

    def forward(self, ids: Tensor) -> Tensor:
        """ids: (B, T) integers, `PAD` where a text is shorter. Returns logits (B,) or (B, C)."""
        x = self.embedding(ids)
        if self.cls is not None:  # put in front, as a real token
            x = torch.cat([self.cls.expand(len(ids), 1, -1), x], dim=1)
            ids = torch.cat([ids.new_full((len(ids), 1), PAD + 1), ids], dim=1)
        if self.scale_embedding:
            x = x * math.sqrt(x.shape[-1])
        positions = self.positions(ids)
        if self.position is not None:
            x = self.position_dropout(self.position(x, positions))
        key_padding_mask = ids == PAD
        for mixer in self.mixers:
            x = mixer(x, key_padding_mask)
        pooled = self.pooled(x, key_padding_mask, self.allowed(key_padding_mask), positions)
        logits: Tensor = self.output(self.dropout(pooled))
        return logits.squeeze(-1)

    def pooled(
        self, x: Tensor, key_padding_mask: Tensor, allowed: Tensor | None, positions: Tensor
    ) -> Tensor:
        """All layers, then the pooling: (B, T, D) -> (B, width)."""
        for layer in self.layers:
            x = layer(x, key_padding_mask, allowed, positions)
        y: Tensor = self.pool(x, key_padding_mask)
        return y

    def positions(self, ids: Tensor) -> Tensor:
        """Position of each token: (T,), or (B, T) in the shuffled control."""
        if self.shuffle_positions:
            return shuffled_positions(ids)
        return torch.arange(ids.shape[-1], device=ids.device)

    def allowed(self, key_padding_mask: Tensor) -> Tensor | None:
        """Which keys each query may see, (B or 1, 1, T or 1, T), or None for all."""
        allowed = None
        if self.pattern is not None:
            place = torch.arange(key_padding_mask.shape[-1], device=key_padding_mask.device)
            allowed = self.pattern(place[:, None], place[None, :])[None, None]
        if self.hide_padding:
            real = ~key_padding_mask[:, None, None, :]
            allowed = real if allowed is None else allowed & real
        return allowed


def shuffled_positions(ids: Tensor) -> Tensor:
    """Positions that carry no order: ids (B, T) -> (B, T), each row a permutation of 0 to T-1.

    The control for every encoding above. Tokens are ranked by a hash of their id, so a token's
    position depends on the text's bag of words alone: reorder the text and each word takes its
    position along. Norms, widths and parameters stay those of the encoding; only order is gone.
    """
    # Two rounds of multiply and xor-shift on 32 bits. Each is one-to-one, so no two words ever tie
    # (a tie would be broken by order), and ids, which are ranks by frequency, are well scattered.
    scattered = ids.long() + 1  # 0 would stay 0, and padding always come first
    for _ in range(2):
        scattered = (scattered * 0x7FEB352D) & 0xFFFFFFFF
        scattered = scattered ^ (scattered >> 15)
    by_rank = scattered.argsort(dim=-1, stable=True)
    return by_rank.argsort(dim=-1)  # the inverse permutation: the rank of each token


def take_fast_path(model: nn.Module) -> str:
    """Change a model in place to compute the same with less work, where its pieces allow it.

    Weights keep names and values, and results change by rounding alone. Returns the name of the
    path that the model takes from then on: `REFERENCE` where nothing is changed.
    """
    return model.layers.take_fast_path(model) if type(model) is Classifier else REFERENCE


def build_model(config: RunConfig, num_classes: int = 2) -> nn.Module:
    """The model of a config, a network or a baseline: ids (B, T) -> logits.

    Logits are (B,) for two classes and (B, C) for more. Weights depend on the seed of `init` alone.
    Raises `UserError` for a piece that cannot be built, and for a model that this machine cannot
    hold.
    """
    if config.model.fills("Baseline"):
        more_than_two = {"num_classes": num_classes} if num_classes > 2 else {}
        baseline: seams.Baseline = _build(
            config.model, config.data.vocab_size, seed=config.seed_of("init"), **more_than_two
        )
        return baseline
    return build_classifier(config, num_classes)


def build_classifier(config: RunConfig, num_classes: int = 2) -> Classifier:
    """The same for a config whose model is a network."""
    classifier = _assemble(config, num_classes)
    init_weights(classifier, config.seed_of("init"))
    return classifier


def build_on_meta(config: RunConfig, num_classes: int = 2) -> Classifier | None:
    """The network of a config on torch's meta device: shapes alone, which take no memory.

    Returns None where a piece cannot be built there. Raises `UserError` where torch cannot count
    the numbers of a weight, and for a piece that cannot be built at all.
    """
    try:
        with torch.random.fork_rng(devices=[]), torch.device("meta"):
            return _assemble(config, num_classes)
    except UserError:
        raise
    except Exception as error:
        if "overflow" in str(error):
            raise UserError(
                "A model of these widths would take more memory than can be addressed. Give "
                "smaller numbers."
            ) from error
        return None


def num_values(model: nn.Module) -> int:
    """Number of values that a model holds, trained or not."""
    return sum(tensor.numel() for tensor in [*model.parameters(), *model.buffers()])


def _assemble(config: RunConfig, num_classes: int) -> Classifier:
    """The pieces put together, with the weights that their constructors make."""
    model, position, mask = config.model, config.position, config.mask
    build = partial(_build, seed=config.seed_of("init"))
    has_summary = model.pooling.fills("SummaryToken")
    num_tokens = config.data.max_len + has_summary

    joined = None
    width = model.d_model
    if position.fills("JoinedPosition"):
        joined = build(position, num_tokens, width)
        width = joined.d_output
    mixers = []
    for piece in (model.before, model):
        if piece.fills("Mixer"):
            mixers.append(build(piece, width, model.d_model))
            width = mixers[-1].d_output
    layers = seams.Layers()
    if model.fills("Layers"):
        context = seams.LayerContext(
            rotation=partial(build, position) if position.fills("Rotation") else None,
            bias=partial(build, position) if position.fills("ScoreBias") else None,
            mask_mode=mask.mode,
            hide_padded_queries=mask.query,
            num_tokens=num_tokens,
        )
        layers = build(model, width, model.d_model, context)
        width = layers.d_output
    own = model if model.fills("Embedding") else pieces.spec(WORDS)(kind=WORDS)
    embedding = build(own, config.data.vocab_size, model.d_model)
    return Classifier(
        embedding=embedding.requires_grad_(not model.freeze),
        cls=nn.Parameter(torch.empty(model.d_model)) if has_summary else None,
        position=joined,
        mixers=mixers,
        layers=layers,
        pool=build(model.pooling, width),
        output=_output(width, 1 if num_classes == 2 else num_classes, model.hidden, model.dropout),
        dropout=model.dropout,
        position_dropout=position.dropout if joined is not None else 0.0,
        scale_embedding=model.scale_embedding,
        shuffle_positions=bool(position.kind) and position.shuffled,
        hide_padding=mask.padding,
        pattern=build(mask) if mask.kind else None,
    )


def _build(piece: Piece, *surroundings: Any, seed: int, **by_name: Any) -> Any:
    """Import a piece's class, and call it with its surroundings and its settings."""
    assert piece.kind is not None
    settings = by_name | {
        name: partial(_build, value, seed=seed) if isinstance(value, Piece) else value
        for name, value in pieces.settings(piece).items()
    }
    make = pieces.load(piece.kind)
    try:
        if hasattr(make, "init_parameters"):  # its first draws are replaced
            made = make(*surroundings, **settings)
        else:  # its weights follow the seed, and the global stream stays where it is
            with torch.random.fork_rng():
                torch.manual_seed(named_seed(seed, piece.kind))
                made = make(*surroundings, **settings)
    except (ValueError, TypeError) as error:
        raise UserError(f"{piece.kind} cannot be built: {error}.") from error
    if isinstance(made, nn.Module):
        vars(made)[seams.SURROUNDINGS] = surroundings
    return made


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
