"""The typed configuration of one run, and the checks made before any data is loaded.

Every key of the YAML files under `conf/` has its type and default here; the defaults are those of
K's script (see README, "Sources"). `compose.py` fills these classes from YAML and overrides.

Option names are plain values of `StrEnum`, because OmegaConf checks those and rejects `Literal`.
"""

import dataclasses
import difflib
import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from attnexp.errors import UserError

# fmt: off
DataName = StrEnum("DataName", ["imdb", "contrast", "files", "hub"])
Side = StrEnum("Side", ["pre", "post"])
Tokenizer = StrEnum("Tokenizer", ["keras", "basic_english"])
ModelKind = StrEnum("ModelKind", ["attention"])
Score = StrEnum("Score", ["dot", "uniform"])
Pooling = StrEnum("Pooling", ["mean", "masked_mean"])
PositionKind = StrEnum("PositionKind", ["none", "sinusoidal"])
Layout = StrEnum("Layout", ["split", "interleaved"])
Combine = StrEnum("Combine", ["add", "concat"])
Pattern = StrEnum("Pattern", ["full", "causal", "window"])
MaskMode = StrEnum("MaskMode", ["add", "mul"])
Optimizer = StrEnum("Optimizer", ["adam", "adamw"])
Protocol = StrEnum("Protocol", ["blog", "holdout"])
Device = StrEnum("Device", ["auto", "cpu", "cuda"])
Precision = StrEnum("Precision", ["fp32", "bf16"])
# fmt: on


@dataclass(kw_only=True, slots=True, unsafe_hash=True)  # hashed to load data once
class DataConfig:
    """Which reviews, and how a review becomes `max_len` token ids."""

    name: DataName = DataName.imdb
    path: str | None = None
    """imdb, files: a folder or file to read instead of downloading. hub: a data set's name."""
    max_len: int = 80
    vocab_size: int = 20_000
    """Ids below this number are in use; rarer words share the out-of-vocabulary id 2."""
    truncate: Side = Side.pre
    pad: Side = Side.pre
    tokenizer: Tokenizer = Tokenizer.keras
    limit_train: int | None = None
    """Train on this many reviews, drawn once (the same for every seed), balanced by label."""
    limit_test: int | None = None
    holdout: float = 0.0
    """Share of train set aside for choosing the epoch; only with `train.protocol=holdout`."""
    order_fraction: float | None = None
    """contrast: share of reviews whose label depends on word order alone."""


@dataclass(kw_only=True, slots=True)
class ModelConfig:
    """The layers between the token ids and the logit."""

    kind: ModelKind = ModelKind.attention
    d_model: int = 128
    heads: int = 8
    d_head: int = 16
    layers: int = 1
    dropout: float = 0.5
    scale: bool = True
    """Divide the scores by sqrt(d_head)."""
    score: Score = Score.dot
    output_projection: bool = False
    residual: bool = False
    pooling: Pooling = Pooling.mean


@dataclass(kw_only=True, slots=True)
class PositionConfig:
    """How the model learns where a token stands."""

    kind: PositionKind = PositionKind.none
    layout: Layout = Layout.split
    combine: Combine = Combine.add
    scale_embedding: bool = False
    """Multiply the embeddings by sqrt(d_model) before positions join."""


@dataclass(kw_only=True, slots=True)
class MaskConfig:
    """Which keys a query may see."""

    padding: bool = False
    pattern: Pattern = Pattern.full
    radius: int | None = None
    mode: MaskMode = MaskMode.add
    """add: a large negative number before softmax. mul: zero after it, not renormalised."""
    query: bool = False
    """Also zero the outputs at padded positions."""


@dataclass(kw_only=True, slots=True)
class TrainConfig:
    """The training loop."""

    epochs: int = 5
    batch_size: int = 32
    optimizer: Optimizer = Optimizer.adam
    lr: float = 1e-3
    protocol: Protocol = Protocol.blog
    """blog: validate on the test set after every epoch. holdout: on a part of train."""
    measure_train: bool = True
    """Measure accuracy on train again after each epoch (one more forward pass over train)."""
    device: Device = Device.auto
    precision: Precision = Precision.fp32
    threads: int | None = None


@dataclass(kw_only=True, slots=True)
class RunConfig:
    """Everything that decides a run."""

    seed: int = 0
    out: str = "outputs"
    """Root of all results, relative to where the command is called."""
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    position: PositionConfig = field(default_factory=PositionConfig)
    mask: MaskConfig = field(default_factory=MaskConfig)
    train: TrainConfig = field(default_factory=TrainConfig)


def to_dict(config: Any) -> dict[str, Any]:
    """A config as plain containers and scalars, fit for JSON and YAML."""

    def plain(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: plain(item) for key, item in value.items()}
        return str(value) if isinstance(value, StrEnum) else value

    result: dict[str, Any] = plain(dataclasses.asdict(config))
    return result


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`: the keys a user writes on the command line."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or nothing when no known name is near."""
    near = difflib.get_close_matches(given, list(known), n=1, cutoff=0.6)
    return f" Did you mean '{near[0]}'?" if near else ""


def check(config: RunConfig) -> None:
    """Raise `UserError` for a value out of range or two values that exclude each other."""
    data, model, position, mask, train = (
        config.data,
        config.model,
        config.position,
        config.mask,
        config.train,
    )
    _at_least(config, 0, "seed")
    _at_least(
        config,
        1,
        *("data.max_len", "data.limit_train", "data.limit_test"),
        *("model.d_model", "model.heads", "model.d_head", "model.layers"),
        *("train.batch_size", "train.epochs", "train.threads"),
    )
    _at_least(config, 4, "data.vocab_size")  # ids 0, 1 and 2 are pad, start, unknown
    _at_least(config, 0, "mask.radius")
    _share(config, "data.holdout", "data.order_fraction", "model.dropout")
    for key in ("data.holdout", "model.dropout"):
        if _value(config, key) == 1.0:
            raise UserError(f"{key}=1.0 leaves nothing. Give a number below 1, such as 0.5.")
    if not 0 < train.lr < math.inf:
        raise UserError(f"train.lr must be a number above 0; got {train.lr}.")

    if position.kind is PositionKind.sinusoidal and model.d_model % 2:
        raise UserError(
            f"position.kind=sinusoidal pairs sines with cosines, so model.d_model must be even; "
            f"got model.d_model={model.d_model}. Use {model.d_model + 1}, or position=none."
        )
    width = model.heads * model.d_head
    d_input = model.d_model
    if position.kind is not PositionKind.none and position.combine is Combine.concat:
        d_input *= 2
    d_output = model.d_model if model.output_projection else width
    if model.residual and d_input != d_output:
        raise UserError(
            f"model.residual=true adds a layer's input to its output, but the input is {d_input} "
            f"wide and the output {d_output} (model.heads={model.heads} x "
            f"model.d_head={model.d_head}, model.d_model={model.d_model}, "
            f"position.combine={position.combine}). Make the widths equal."
        )
    if (mask.pattern is Pattern.window) != (mask.radius is not None):
        raise UserError(
            f"mask.pattern=window and mask.radius go together; got mask.pattern={mask.pattern}, "
            f"mask.radius={mask.radius}. Give both (mask=window mask.radius=5) or neither."
        )
    if (train.protocol is Protocol.holdout) != (data.holdout > 0):
        raise UserError(
            f"train.protocol=holdout and data.holdout go together; got "
            f"train.protocol={train.protocol}, data.holdout={data.holdout}. `train=holdout` sets "
            f"both (a tenth of train)."
        )
    if (data.name is DataName.contrast) != (data.order_fraction is not None):
        raise UserError(
            f"data.order_fraction belongs to data=contrast; got data.name={data.name}, "
            f"data.order_fraction={data.order_fraction}. `data=contrast` sets both."
        )
    if data.name is DataName.contrast and data.path is not None:
        raise UserError(
            f"data=contrast is generated and reads no file; got data.path={data.path}. Drop "
            f"data.path, or use data=files."
        )
    if data.name in (DataName.files, DataName.hub) and data.path is None:
        wanted = "a folder or file" if data.name is DataName.files else "a data set's name"
        raise UserError(f"data={data.name} needs data.path: {wanted}. None was given.")


def _value(config: RunConfig, key: str) -> Any:
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _at_least(config: RunConfig, minimum: int, *keys: str) -> None:
    for key in keys:
        value = _value(config, key)
        if value is not None and value < minimum:
            raise UserError(f"{key} must be at least {minimum}; got {value}.")


def _share(config: RunConfig, *keys: str) -> None:
    for key in keys:
        value = _value(config, key)
        if value is not None and not 0 <= value <= 1:
            raise UserError(f"{key} is a share and must lie between 0 and 1; got {value}.")
