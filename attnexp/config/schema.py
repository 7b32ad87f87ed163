"""The typed configuration of one run.

Every key of the YAML files under `conf/` that is no setting of a piece has its type, default,
bounds and meaning here; the defaults are those of K's script of March 2018. The settings of the
pieces stand in the signatures of their classes, and `pieces` reads them there; `compose`
fills these classes from YAML and words, and `checks` says which values go together.

Option names are plain values of `StrEnum`, because OmegaConf checks those and rejects `Literal`.
"""

import difflib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import Field, dataclass, field, fields, is_dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from attnexp.config import pieces
from attnexp.config.options import groups, read
from attnexp.config.pieces import Piece, add_to_path, root, setting

# fmt: off
DataName = StrEnum(
    "DataName",
    ["imdb", "contrast", "files", "hub",
     "trec", "subj", "cr", "mpqa", "sst2", "mr", "ag_news", "yelp_polarity", "emotion", "irony"],
)
Side = StrEnum("Side", ["pre", "post"])
MaskMode = StrEnum("MaskMode", ["add", "mul"])
Optimizer = StrEnum("Optimizer", ["adam", "adamw"])
Protocol = StrEnum("Protocol", ["blog", "holdout"])
Schedule = StrEnum("Schedule", ["constant", "linear", "cosine"])
Device = StrEnum("Device", ["auto", "cpu", "cuda", "mps"])
Precision = StrEnum("Precision", ["fp32", "bf16"])
ExecutorKind = StrEnum("ExecutorKind", ["local", "slurm", "ray"])
# fmt: on

PRESETS = [*DataName][4:]
"""Data sets that have a YAML of their own in `conf/data/`, besides IMDB and contrast."""

TOKENIZERS = {
    "keras": "attnexp.data.text:keras_words",
    "basic_english": "attnexp.data.text:basic_english",
    "characters": "attnexp.data.text:characters",
    "whitespace": "attnexp.data.text:whitespace",
}
"""Names of `data.tokenizer`, each with its function as `module:function`."""


@dataclass(frozen=True, slots=True)
class When:
    """Condition under which a setting acts; otherwise it is neither shown nor accepted."""

    description: str
    holds: Callable[[Any], Any]
    """Test of the whole config."""


IN_NETWORK = When("a model that is a network", lambda run: run.is_network)
IN_ATTENTION = When("a model with attention", lambda run: run.model.fills("Layers"))
IN_ADAMW = When(
    "train.optimizer=adamw", lambda run: run.is_network and run.train.optimizer is Optimizer.adamw
)
IN_HOLDOUT = When("train=holdout", lambda run: run.train.protocol is Protocol.holdout)
IN_CONTRAST = When("data=contrast", lambda run: run.data.name is DataName.contrast)
FROM_PRESET = When("a preset, such as data=trec", lambda run: run.data.name in PRESETS)
FROM_HUB = When("data=hub and presets", lambda run: run.data.name in (DataName.hub, *PRESETS))
FROM_OWN = When(
    "data=files, hub and presets",
    lambda run: run.data.name not in (DataName.imdb, DataName.contrast),
)
ON_RAY = When("executor=ray", lambda sweep: sweep.executor.kind is ExecutorKind.ray)
ON_SLURM = When(
    "executor=slurm",
    lambda sweep: sweep.executor.kind is ExecutorKind.slurm,
)
FROM_FILES = When("any data but contrast", lambda run: run.data.name is not DataName.contrast)


def _reads_padding(run: "RunConfig") -> bool:
    """Whether anything reads what attention puts at padded positions."""
    if not IN_ATTENTION.holds(run):
        return False
    if run.mask.padding and run.mask.fills("Causal") and run.data.pad is Side.pre:
        return False  # they see padding alone, and so are zero already
    if not run.model.fills("Attention"):
        return True  # layers of one's own may read anything
    if getattr(run.model, "layers", 2) > 1 and not run.mask.padding:
        return True
    return not run.model.pooling.fills("RealTokens")


WHERE_READ = When("a model whose pooling, or next layer, reads what is at padding", _reads_padding)
WHERE_HIDDEN = When("a mask that hides something", lambda run: run.mask.kind or run.mask.padding)


@dataclass(kw_only=True, slots=True, unsafe_hash=True)  # hashed to load data once
class DataConfig:
    """Settings of the texts, and of how a text becomes `max_len` token ids."""

    name: DataName = DataName.imdb
    """Name of the data set, chosen as data=NAME."""
    path: str | None = setting(None, when=FROM_FILES)
    """Folder or file to read instead of downloading; with data=hub the name of a data set."""
    hub: str | None = setting(None, when=FROM_PRESET)
    """Name of the preset's data set on the Hugging Face hub."""
    config: str | None = setting(None, when=FROM_HUB)
    """Configuration of a data set that has several."""
    text: str | None = setting(None, when=FROM_OWN)
    """Column of the texts; null finds one with a common name, such as text."""
    label: str | None = setting(None, when=FROM_OWN)
    """Column of the classes; null finds one with a common name, such as label."""
    train_split: str = setting("train", when=FROM_OWN)
    """Split to train on; for files, the name of the file (train.csv) or folder in data.path."""
    test_split: str | None = setting(None, when=FROM_OWN)
    """Split to test on; null is test or, if there is none, a share of train."""
    test_share: float = setting(0.2, "> 0", "< 1", when=FROM_OWN)
    """Share of train drawn as test: stratified by class, always the same, equal texts together."""
    max_len: int = setting(80, ">= 1")
    """Number of tokens of a text."""
    vocab_size: int = setting(20_000, ">= 4")
    """Size of the vocabulary, with pad, start and unknown (ids 0, 1 and 2)."""
    truncate: Side = Side.pre
    """Side on which a longer text is cut: pre keeps its end."""
    pad: Side = Side.pre
    """Side on which a shorter text is padded."""
    tokenizer: str = setting("keras", options=tuple(TOKENIZERS))
    """keras, basic_english, characters (Chinese, Japanese, Korean), whitespace, or your own
    function as module:function."""
    limit_train: int | None = setting(None, ">= 1")
    """Train on this many texts, drawn once (the same for every seed), stratified by class."""
    limit_test: int | None = setting(None, ">= 1")
    """Test on this many texts, drawn in the same way."""
    order_fraction: float | None = setting(None, ">= 0", "<= 1", when=IN_CONTRAST)
    """Share of texts whose label depends on word order alone."""

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled with the folder of the user's tokenizer, for a sweep's other processes."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return _restore, (values, root(self.tokenizer) if ":" in self.tokenizer else "")

    @property
    def title(self) -> str:
        """Name of the data in reports: imdb, or the name of a file, folder or hub data set."""
        if self.name is DataName.files:
            return os.path.basename(self.path or "")
        return self.path or "" if self.name is DataName.hub else str(self.name)


def _restore(values: dict[str, Any], folder: str) -> DataConfig:
    add_to_path(folder)
    return DataConfig(**values)


@dataclass(kw_only=True)
class ModelConfig(Piece):
    """Settings that every network has besides its own."""

    d_model: int = setting(128, ">= 1")
    """Width of the embeddings."""
    vectors: str | None = None
    """File of pretrained embeddings in GloVe's text format."""
    freeze: bool = False
    """Do not train the embeddings."""
    scale_embedding: bool = False
    """Multiply the embeddings by sqrt(d_model) before positions are added."""
    before: Piece = setting(Piece, seam="Mixer", option=None)
    """A mixer between position and the rest."""
    pooling: Piece = setting(Piece, seam="Pooling", option="mean")
    dropout: float = setting(0.5, ">= 0", "< 1")
    """Dropout of the pooled vector."""
    hidden: int | None = setting(None, ">= 1")
    """Width of a ReLU layer between pooling and logit."""


@dataclass(kw_only=True)
class PositionConfig(Piece):
    """Settings that every kind of position has besides its own."""

    shuffled: bool = False
    """Control: positions permuted by each text's bag of words, with the same norms and no order."""


@dataclass(kw_only=True)
class JoinedPositionConfig(PositionConfig):
    """Settings that every position that joins the embeddings has besides its own."""

    dropout: float = setting(0.0, ">= 0", "< 1")
    """Dropout of embeddings and positions together."""


@dataclass(kw_only=True)
class MaskConfig(Piece):
    """Settings of masks besides the pattern, which is the piece."""

    padding: bool = False
    """Hide padding from every query."""
    mode: MaskMode = setting(MaskMode.add, when=WHERE_HIDDEN)
    """add: a large negative number before softmax. mul: zero after it, not renormalised."""
    query: bool = setting(False, when=WHERE_READ)
    """Also zero the outputs at padded positions."""


PLACES: dict[str, dict[str | None, type[Piece]]] = {
    "model": {
        "Layers": ModelConfig,
        "Mixer": ModelConfig,
        "Embedding": ModelConfig,
        "Baseline": Piece,
    },
    "position": {
        "JoinedPosition": JoinedPositionConfig,
        "Rotation": PositionConfig,
        "ScoreBias": PositionConfig,
        None: Piece,
    },
    "mask": {"Mask": MaskConfig, None: MaskConfig},
}
"""Which seams a piece may fill in a section, and what comes with it. None is no piece."""


@dataclass(kw_only=True, slots=True)
class TrainConfig:
    """Settings of the training loop."""

    protocol: Protocol = Protocol.blog
    """blog: validate on the test set after every epoch. holdout: on a part of train."""
    holdout: float = setting(0.1, "> 0", "< 1", when=IN_HOLDOUT)
    """Share of train set aside for choosing the epoch."""
    epochs: int = setting(5, ">= 1", when=IN_NETWORK)
    """Number of passes over the training texts."""
    batch_size: int = setting(32, ">= 1", when=IN_NETWORK)
    """Number of texts in a step."""
    optimizer: Optimizer = setting(Optimizer.adam, when=IN_NETWORK)
    """adam is Keras's; adamw also decays weights."""
    lr: float = setting(1e-3, "> 0", when=IN_NETWORK)
    """Learning rate."""
    warmup: int = setting(0, ">= 0", when=IN_NETWORK)
    """Number of steps over which the learning rate rises linearly from 0."""
    schedule: Schedule = setting(Schedule.constant, when=IN_NETWORK)
    """Learning rate after the warm-up: constant, or linear or cosine down to 0 at the last step."""
    weight_decay: float = setting(0.01, ">= 0", when=IN_ADAMW)
    """Decoupled weight decay of AdamW."""
    clip: float | None = setting(None, "> 0", when=IN_NETWORK)
    """Maximum norm of the gradient of all parameters together."""
    eps: float = setting(1e-7, "> 0", when=IN_NETWORK)
    """Adam's epsilon: 1e-7 is Keras's since 2.1.3 (January 2018), 1e-8 was until then."""
    measure_train: bool = False
    """Measure accuracy on train again after each epoch (one more forward pass over train)."""
    fast: bool = setting(True, when=IN_NETWORK)
    """Use the fast path if the model allows it; false uses the reference implementation."""
    device: Device = Device.auto
    """auto: CUDA if there is a device, else the CPU. mps: Apple's GPU."""
    precision: Precision = setting(Precision.fp32, when=IN_NETWORK)
    """bf16: matrix products in 16 bits; weights stay fp32."""
    threads: int | None = setting(None, ">= 1", "<= 1024")
    """Number of CPU threads; null is one in a sweep and torch's default elsewhere."""


@dataclass(kw_only=True, slots=True)
class SeedsConfig:
    """Sources of chance: each but `resample` follows `seed` unless it is given here."""

    init: int | None = setting(None, ">= 0", when=IN_NETWORK)
    """Seed of the initial weights."""
    order: int | None = setting(None, ">= 0", when=IN_NETWORK)
    """Seed of the order of the texts and of dropout."""
    split: int | None = setting(None, ">= 0", when=IN_HOLDOUT)
    """Seed of the part of train that is held out."""
    resample: int | None = setting(None, ">= 0")
    """Seed by which train and test are drawn anew from their union; null keeps them as they are."""


@dataclass(kw_only=True, slots=True)
class RunConfig:
    """Everything that decides a run."""

    seed: int = setting(0, ">= 0")
    """Seed of the weights, the order of texts, the split and dropout."""
    seeds: SeedsConfig = setting(SeedsConfig)
    out: str = "outputs"
    """Root of all results, relative to where the command is called."""
    data: DataConfig = setting(DataConfig)
    model: Piece = setting(Piece)
    position: Piece = setting(Piece, when=IN_NETWORK)
    mask: MaskConfig = setting(MaskConfig, when=IN_ATTENTION)
    train: TrainConfig = setting(TrainConfig)

    @property
    def is_network(self) -> bool:
        """Whether the model is a network, rather than a baseline that is fitted."""
        return isinstance(self.model, ModelConfig)

    @property
    def vectors(self) -> tuple[str, int] | None:
        """File of pretrained embeddings and their width; None without."""
        path: str | None = getattr(self.model, "vectors", None)  # a baseline takes none
        return None if path is None else (path, self.model.d_model)

    @property
    def num_epochs(self) -> int:
        """Number of epochs; 1 for a baseline, which is fitted in one go."""
        return self.train.epochs if self.is_network else 1

    def seed_of(self, source: str) -> int:
        """The seed of a source of chance: "init", "order" or "split"."""
        own: int | None = getattr(self.seeds, source)
        return self.seed if own is None else own


@dataclass(kw_only=True, slots=True)
class ExecutorConfig:
    """Executor of a sweep: the place of its runs. It changes no result beyond rounding."""

    kind: ExecutorKind = ExecutorKind.local
    workers: int | None = setting(None, ">= 1")
    """Runs at a time; null for as many as fit (slurm: all, and the queue decides)."""
    threads: int = setting(1, ">= 1", "<= 1024")
    """CPU threads of a run that does not set train.threads itself."""
    gpu: float = setting(1.0, "> 0", "<= 1")
    """Share of a GPU that a run takes where there is one: 0.5 puts two on each."""
    address: str | None = setting(None, when=ON_RAY)
    """ray: an existing cluster; null for $RAY_ADDRESS, or one started here."""
    partition: str | None = setting(None, when=ON_SLURM)
    """slurm, like account, timeout_min (minutes a run may take) and mem_gb (memory of a run)."""
    account: str | None = setting(None, when=ON_SLURM)
    timeout_min: int = setting(120, ">= 1", when=ON_SLURM)
    mem_gb: int = setting(8, ">= 1", when=ON_SLURM)
    slurm: dict[str, Any] = field(default_factory=dict, metadata={"when": ON_SLURM})
    """slurm: anything else that sbatch takes, such as {qos: long}."""


@dataclass(kw_only=True, slots=True)
class SweepConfig:
    """Settings of a sweep as a whole."""

    executor: ExecutorConfig = setting(ExecutorConfig)


def walk(config: Any, prefix: str = "") -> Iterator[tuple[str, Any, Field[Any]]]:
    """Every key of a config as (key, what holds it, field): a section, then what is in it."""
    for f in fields(config):
        yield prefix + f.name, config, f
        value = getattr(config, f.name)
        if is_dataclass(value):
            yield from walk(value, f"{prefix}{f.name}.")


def to_dict(config: Any) -> dict[str, Any]:
    """Settings of a config that have an effect, as plain containers and scalars."""

    def plain(value: Any) -> Any:
        if is_dataclass(value):
            return {f.name: plain(getattr(value, f.name)) for f in fields(value) if acts(f)}
        return str(value) if isinstance(value, StrEnum) else value

    def acts(f: Field[Any]) -> bool:
        return "when" not in f.metadata or f.metadata["when"].holds(config)

    result: dict[str, Any] = plain(config)
    return result


def flatten(tree: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """`{"a": {"b": 1}}` as `{"a.b": 1}`: the keys a user writes on the command line."""
    flat: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?`, or nothing when no known name is near."""
    near = difflib.get_close_matches(given, list(known), n=1, cutoff=0.6)
    return f" Did you mean '{near[0]}'?" if near else ""


def keys_of_option(group: str, option: str) -> dict[str, Field[Any]]:
    """Settings of the piece that an option of `conf/` chooses, by key."""
    kind = read(group, option)["kind"]
    frame: Any = PLACES.get(group, {}).get(pieces.seam(kind), Piece)
    return {f"{group}.{f.name}": f for f in fields(pieces.spec(kind, frame))}


@lru_cache
def owners() -> dict[str, list[str]]:
    """Settings of all pieces, each with the choices that have it."""
    found: dict[str, list[str]] = {}
    for group, options in groups().items():
        if group.split(".")[0] in PLACES:
            for option in options:
                for key in keys_of_option(group, option):
                    found.setdefault(key, []).append(f"{group}={option}")
    return found
