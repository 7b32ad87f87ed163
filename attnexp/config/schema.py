"""The typed configuration of one run.

Every key of the YAML files under `conf/` has its type and default here; the defaults are those of
K's script of March 2018 (see README, "How near to K's script"). `compose.py` fills these classes
from YAML and overrides, and `checks.py` says which values go together.

Option names are plain values of `StrEnum`, because OmegaConf checks those and rejects `Literal`.
"""

import dataclasses
import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

# fmt: off
DataName = StrEnum("DataName", ["imdb", "contrast", "files", "hub"])
Side = StrEnum("Side", ["pre", "post"])
Tokenizer = StrEnum("Tokenizer", ["keras", "basic_english"])
ModelKind = StrEnum(
    "ModelKind",
    ["attention", "mean", "fasttext", "cnn", "lstm", "bilstm", "gru", "cnn_attention",
     "lstm_attention", "tfidf"],
)
Score = StrEnum("Score", ["dot", "cosine", "additive", "uniform"])
Norm = StrEnum("Norm", ["none", "pre", "post"])
Pooling = StrEnum("Pooling", ["mean", "masked_mean", "max", "last", "cls", "attention"])
PositionKind = StrEnum(
    "PositionKind", ["none", "sinusoidal", "learned", "rotary", "relative", "alibi"]
)
Layout = StrEnum("Layout", ["split", "interleaved"])
Combine = StrEnum("Combine", ["add", "concat"])
Pattern = StrEnum("Pattern", ["full", "causal", "window", "dilated", "block_sparse"])
MaskMode = StrEnum("MaskMode", ["add", "mul"])
Optimizer = StrEnum("Optimizer", ["adam", "adamw"])
Protocol = StrEnum("Protocol", ["blog", "holdout"])
Device = StrEnum("Device", ["auto", "cpu", "cuda"])
Precision = StrEnum("Precision", ["fp32", "bf16"])
ExecutorKind = StrEnum("ExecutorKind", ["local", "submitit", "slurm", "ray"])
# fmt: on


class OnError(StrEnum):
    """What a failed run of a sweep means for the others: they go on, or no more are started."""

    proceed = "continue"
    stop = "stop"


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
    d_query: int | None = None
    d_key: int | None = None
    d_value: int | None = None
    """Widths of a head's queries, keys and values, where they are not d_head."""
    layers: int = 1
    scale: bool = True
    """Divide the scores by sqrt(d_head)."""
    score: Score = Score.dot
    output_projection: bool = False
    residual: bool = False
    norm: Norm = Norm.none
    feed_forward: int | None = None
    """Hidden width of a feed-forward layer after each attention layer."""
    layer_dropout: float = 0.0
    """Dropout within layers, on what attention and feed-forward give."""
    kernel: int = 3
    """cnn: width of the convolution."""
    buckets: int = 20_000
    """fasttext: number of vectors that pairs of words share."""
    vectors: str | None = None
    """A file of pretrained embeddings in GloVe's text format."""
    freeze: bool = False
    """Leave the embeddings as they are at the start."""
    pooling: Pooling = Pooling.mean
    dropout: float = 0.5
    """On the pooled vector."""
    hidden: int | None = None
    """Width of a ReLU layer between pooling and logit."""


@dataclass(kw_only=True, slots=True)
class PositionConfig:
    """How the model learns where a token stands."""

    kind: PositionKind = PositionKind.none
    layout: Layout = Layout.split
    combine: Combine = Combine.add
    scale: float = 1.0
    """Multiply the table: K's has norm 8 against embeddings of norm 0.33."""
    scale_embedding: bool = False
    """Multiply the embeddings by sqrt(d_model) before positions join."""
    max_distance: int = 16
    """relative: distances beyond share one weight."""
    shuffled: bool = False
    """The control "right norms, wrong places": positions that depend on the bag of words alone."""

    @property
    def is_concatenated(self) -> bool:
        """Whether a table stands in front of the embeddings, which doubles their width."""
        joins = self.kind in (PositionKind.sinusoidal, PositionKind.learned)
        return joins and self.combine is Combine.concat


@dataclass(kw_only=True, slots=True)
class MaskConfig:
    """Which keys a query may see."""

    padding: bool = False
    pattern: Pattern = Pattern.full
    radius: int | None = None
    """window, dilated: how many keys to either side."""
    dilation: int | None = None
    """dilated: the step between these keys."""
    block: int | None = None
    """block_sparse: tokens of a block; besides it, all see the last token and it sees all."""
    restricted: bool = False
    """window: compute only what is seen, in time and memory that grow as tokens x radius."""
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
    eps: float = 1e-7
    """Adam's epsilon: 1e-7 is Keras's since 2.1.3 (January 2018), 1e-8 was until then."""
    protocol: Protocol = Protocol.blog
    """blog: validate on the test set after every epoch. holdout: on a part of train."""
    measure_train: bool = True
    """Measure accuracy on train again after each epoch (one more forward pass over train)."""
    device: Device = Device.auto
    precision: Precision = Precision.fp32
    threads: int | None = None


@dataclass(kw_only=True, slots=True)
class SeedsConfig:
    """Sources of chance, apart: each follows `seed` unless it is given here."""

    init: int | None = None
    """Weights at the start."""
    order: int | None = None
    """What happens while training: order of the reviews, dropout."""
    split: int | None = None
    """Which part of train is held out."""


@dataclass(kw_only=True, slots=True)
class RunConfig:
    """Everything that decides a run."""

    seed: int = 0
    seeds: SeedsConfig = field(default_factory=SeedsConfig)
    out: str = "outputs"
    """Root of all results, relative to where the command is called."""
    data: DataConfig = field(default_factory=DataConfig)
    model: ModelConfig = field(default_factory=ModelConfig)
    position: PositionConfig = field(default_factory=PositionConfig)
    mask: MaskConfig = field(default_factory=MaskConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def seed_of(self, source: str) -> int:
        """The seed of a source of chance: "init", "order" or "split"."""
        own: int | None = getattr(self.seeds, source)
        return self.seed if own is None else own


@dataclass(kw_only=True, slots=True)
class ExecutorConfig:
    """Where the runs of a sweep take place. It changes no result beyond rounding."""

    kind: ExecutorKind = ExecutorKind.local
    workers: int | None = None
    """Runs at a time; null for as many as fit (slurm: all, and the queue decides)."""
    threads: int = 1
    """CPU threads of a run that does not set train.threads itself."""
    gpu: float = 1.0
    """Share of a GPU that a run takes where there is one: 0.5 puts two on each."""
    address: str | None = None
    """ray: an existing cluster; null for $RAY_ADDRESS, or one started here."""
    partition: str | None = None
    """slurm, like account, timeout_min (minutes a run may take) and mem_gb (memory of a run)."""
    account: str | None = None
    timeout_min: int = 120
    mem_gb: int = 8


@dataclass(kw_only=True, slots=True)
class SweepConfig:
    """What belongs to a sweep as a whole."""

    executor: ExecutorConfig = field(default_factory=ExecutorConfig)


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
