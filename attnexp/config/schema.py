"""The typed configuration of one run.

Every key has its type, bounds, default and meaning here, but for settings of one class alone, which
stand in its signature. `conf/config.yaml` chooses the default model, and says how far it is K's."""

from collections.abc import Callable, Iterator
from dataclasses import MISSING, Field, field, fields, is_dataclass, replace
from enum import StrEnum
from os.path import abspath, expanduser
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Self

from annotated_types import Ge, Gt, Le, Lt
from pydantic import AfterValidator, StringConstraints
from pydantic.dataclasses import dataclass

from attnexp.base.errors import UserError
from attnexp.config.options import conf_dir
from attnexp.config.pieces import CHECKED, CLASS, Piece, inner_piece, is_ours
from attnexp.config.settings import Tree, flatten

FITS_64_BITS = Lt(2**63)
Count = Annotated[int, Ge(1), FITS_64_BITS]
Natural = Annotated[int, Ge(0), FITS_64_BITS]
Size = Annotated[int, Ge(1), Le(2**30)]  # The product of two fits the sizes of torch.
FITS_FLOAT32 = Le(1e38)
Positive = Annotated[float, Gt(0), FITS_FLOAT32]
NotNegative = Annotated[float, Ge(0), FITS_FLOAT32]
Limit = Count | None  # null for none, or for what the program chooses
Seed = Natural | None
Share = Annotated[float, Ge(0), Le(1)]
Fraction = Annotated[float, Gt(0), Lt(1)]
Dropout = Annotated[float, Ge(0), Lt(1)]
File = Annotated[str, AfterValidator(expanduser), AfterValidator(abspath)]  # links left as they are

if TYPE_CHECKING:  # a checker of types cannot read the folder; code names these four
    DataName = StrEnum("DataName", "imdb contrast files hub")
else:
    DataName = StrEnum("DataName", [path.stem for path in sorted(conf_dir().glob("data/*.yaml"))])
Side = StrEnum("Side", "pre post")
MaskMode = StrEnum("MaskMode", "add mul")
Optimizer = StrEnum("Optimizer", "adam adamw")
ADAM_BETAS = (0.9, 0.999)  # decay rates of both, as in Keras; a change raises `runs.result.SCHEMA`
Protocol = StrEnum("Protocol", "blog holdout")
Schedule = StrEnum("Schedule", "constant linear cosine")
Device = StrEnum("Device", "auto cpu cuda mps")
Precision = StrEnum("Precision", "fp32 bf16")
ExecutorKind = StrEnum("ExecutorKind", "local slurm ray")

PRESETS = [name for name in DataName if name not in ("imdb", "contrast", "files", "hub")]
"""Data sets whose files say where they lie on the hub."""
CODE = (".kind", "data.tokenizer")  # ends of keys that may name a class or function
TOKENIZERS = ["keras", "basic_english", "characters", "whitespace"]  # functions of `data.text`
Tokenizer = Annotated[str, StringConstraints(pattern=f"^({'|'.join(TOKENIZERS)}|{CLASS.pattern})$")]


def _seams() -> ModuleType:
    """The base classes of pieces. They import torch, for which readers of results need not wait."""
    from attnexp.model import seams

    return seams


class When(NamedTuple):
    """Condition under which a setting acts; otherwise it is hidden, and must have its default."""

    description: str
    holds: Callable[[Any], Any]  # of the whole config


def setting(default: Any, meaning: str = "", when: When | None = None) -> Any:
    """A field that acts when `when` holds. default: a value, or a class, called for each config."""
    metadata = {"meaning": meaning, "when": when}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


NETWORK = When("a model that is a network", lambda run: run.is_network)
PIECEWISE = When("a model that is a network of pieces", lambda r: isinstance(r.model, ModelConfig))
ATTENTION = When("a model with attention", lambda run: run.model.fills(_seams().Layers))
JOINED = When("a position table", lambda run: run.position.fills(_seams().JoinedPosition))
HIDES = When("a mask that hides something", lambda run: run.mask.kind or run.mask.padding)
ADAMW = When("train.optimizer=adamw", lambda run: run.train.optimizer == "adamw")
HOLDOUT = When("train=holdout", lambda run: run.train.protocol == "holdout")
CONTRAST = When("data=contrast", lambda run: run.data.name == "contrast")
READ = When("any data but contrast", lambda run: run.data.name != "contrast")
FILES = When("data=files", lambda run: run.data.name == "files")
PRESET = When("a preset, such as data=trec", lambda run: run.data.name in PRESETS)
TABLE = When("data=files, hub and presets", lambda run: run.data.name not in ("imdb", "contrast"))
SPLIT = When("train=holdout, your or hub data", lambda run: HOLDOUT.holds(run) and TABLE.holds(run))
PART = When("train=holdout, no data.val_split", lambda r: HOLDOUT.holds(r) and not r.data.val_split)
SLURM = When("executor=slurm", lambda executor: executor.kind == "slurm")


@dataclass(kw_only=True, slots=True, unsafe_hash=True, config=CHECKED)  # hashed to load data once
class DataConfig:
    """Settings of the texts, and of how a text becomes `max_len` token ids."""

    name: DataName = setting(DataName.imdb, "Data set, chosen as data=NAME.")
    path: str | None = setting(None, "Folder or file to read; with data=hub a name there.", READ)
    hub: str | None = setting(None, "Name of the preset's data set on the hub.", PRESET)
    config: str | None = setting(None, "Configuration of a data set that has several.", TABLE)
    header: bool = setting(True, "false: a csv names no columns; they count from 0.", FILES)
    quotes: bool = setting(True, "false: quotes in a csv are part of its texts.", FILES)
    text: str | None = setting(None, "Column of the texts; null for one with a common name.", TABLE)
    label: str | None = setting(None, "Column of the classes; null likewise.", TABLE)
    train_split: str = setting("train", "Split to train on, or the file or folder of it.", TABLE)
    test_split: str | None = setting(None, "Split to test on; null is test, or drawn.", TABLE)
    val_split: str | None = setting(None, "Split to validate on; null: of train.", SPLIT)
    test_share: Fraction = setting(0.2, "Share of train drawn as test, stratified by class.", TABLE)
    max_len: Size = setting(80, "Number of tokens of a text.")
    vocab_size: Annotated[Size, Ge(4)] = setting(20_000, "At most, with pad, start and unknown.")
    truncate: Side = setting(Side.pre, "Side on which a longer text is cut: pre keeps its end.")
    pad: Side = setting(Side.pre, "Side on which a shorter text is padded.")
    tokenizer: Tokenizer = setting("keras", f"{', '.join(TOKENIZERS)}, or your module:function.")
    limit_train: Limit = setting(None, "Train on this many texts, the same for every seed.")
    limit_test: Limit = setting(None, "Test on this many texts, drawn in the same way.")
    order_fraction: Share | None = setting(None, "Share of texts decided by order.", CONTRAST)

    @property
    def title(self) -> str:
        """Name of the data in reports: its own, or that of a file, folder or hub data set."""
        if self.name is DataName.hub:
            return self.path or ""
        if self.path and self.name in ("files", "imdb"):
            return Path(self.path).name
        return str(self.name)


@dataclass(kw_only=True, config=CHECKED)
class ModelConfig(Piece):
    """Settings that every network of pieces has besides its own."""

    d_model: Size = setting(128, "Width of the embeddings.")
    vectors: File | None = setting(None, "File of pretrained embeddings in GloVe's text format.")
    freeze: bool = setting(False, "Do not train the embeddings.")
    scale_embedding: bool = setting(False, "Multiply the embeddings by sqrt(d_model).")
    before: Piece = inner_piece(None, "Mixer before the rest.", lambda: _seams().Mixer)
    pooling: Piece = inner_piece(
        "attnexp.model.mixers:Mean", "One vector for a text.", lambda: _seams().Pooling
    )
    dropout: Dropout = setting(0.5, "Dropout of the pooled vector.")
    hidden: Size | None = setting(None, "Width of a ReLU layer between pooling and logit.")


@dataclass(kw_only=True, config=CHECKED)
class PositionConfig(Piece):
    """Settings that every kind of position has besides its own."""

    shuffled: bool = setting(False, "Control: permuted by each text's bag of words.")
    dropout: Dropout = setting(0.0, "Dropout of embeddings and positions together.", JOINED)


@dataclass(kw_only=True, config=CHECKED)
class MaskConfig(Piece):
    """Settings of masks besides the pattern, which is the piece."""

    padding: bool = setting(False, "Hide padding from every query.")
    mode: MaskMode = setting(MaskMode.add, "add: before softmax. mul: zero after it.", HIDES)
    query: bool = setting(False, "Also zero the outputs at padded positions.")


@dataclass(kw_only=True, slots=True, config=CHECKED)
class TrainConfig:
    """Settings of the training loop."""

    protocol: Protocol = setting(Protocol.blog, "blog validates on test; holdout on part of train.")
    holdout: Fraction = setting(0.1, "Share of train set aside for choosing the epoch.", PART)
    patience: Limit = setting(None, "Stop after so many epochs without a better.", HOLDOUT)
    epochs: Count = setting(5, "Number of passes over the training texts.", NETWORK)
    batch_size: Count = setting(32, "Number of texts in a step.", NETWORK)
    loss: Piece | None = setting(None, "Your own, as module:function or module:Class.", NETWORK)
    optimizer: Optimizer = setting(Optimizer.adam, "adam is Keras's; adamw decays.", NETWORK)
    lr: Positive = setting(1e-3, "Learning rate.", NETWORK)
    warmup: Natural = setting(0, "Steps over which the learning rate rises from 0.", NETWORK)
    schedule: Schedule = setting(Schedule.constant, "Learning rate after the warm-up.", NETWORK)
    weight_decay: NotNegative = setting(0.01, "Decoupled, of AdamW.", ADAMW)
    clip: Positive | None = setting(None, "Largest norm of the whole gradient.", NETWORK)
    eps: Positive = setting(1e-7, "Adam's epsilon; Keras's was 1e-8 before 2.1.3.", NETWORK)
    measure_train: bool = setting(False, "Measure accuracy on train after each epoch, too.")
    fast: bool = setting(True, "Use the fast path; false is the reference.", NETWORK)
    device: Device = setting(Device.auto, "auto: CUDA where there is one, else the CPU.")
    precision: Precision = setting(Precision.fp32, "bf16: matrix products in 16 bits.", NETWORK)
    threads: Limit = setting(None, "CPU threads; null is one in a sweep, else torch's.")


@dataclass(kw_only=True, slots=True, config=CHECKED)
class SeedsConfig:
    """Sources of chance: each but `resample` follows `seed` unless it is given here."""

    init: Seed = setting(None, "Seed of the initial weights.", NETWORK)
    order: Seed = setting(None, "Seed of the order of texts, and of dropout.", NETWORK)
    split: Seed = setting(None, "Seed of the part that is held out.", PART)
    resample: Seed = setting(None, "Draw train and test anew by this seed.")


def is_seed(key: str) -> bool:
    """Whether a setting is a source of chance: runs that differ in it alone are one variant."""
    return key == "seed" or key.startswith("seeds.")


@dataclass(kw_only=True, slots=True, config=CHECKED)
class RunConfig:
    """Everything that decides a run."""

    seed: Natural = setting(0, "Seed of weights, order of texts, split and dropout.")
    seeds: SeedsConfig = setting(SeedsConfig)
    out: Annotated[str, AfterValidator(expanduser)] = setting("outputs", "Root of all results.")
    data: DataConfig = setting(DataConfig)
    model: Piece = setting(Piece)
    position: Piece = setting(Piece, when=PIECEWISE)
    mask: MaskConfig = setting(MaskConfig, when=ATTENTION)
    train: TrainConfig = setting(TrainConfig)

    @property
    def is_network(self) -> bool:
        """Whether the model is a network, rather than a baseline that is fitted."""
        return not self.model.fills(_seams().Baseline)

    @property
    def vectors(self) -> str | None:
        """File of pretrained embeddings, which networks of pieces alone take."""
        return self.model.vectors if isinstance(self.model, ModelConfig) else None

    @property
    def user_code(self) -> list[str]:
        """Classes and functions that are not attnexp's: see `foreign_code`."""
        return foreign_code(to_dict(self))

    def seed_of(self, source: str) -> int:
        """The seed of a source of chance: "init", "order" or "split"."""
        seed: int | None = getattr(self.seeds, source)
        return self.seed if seed is None else seed

    def sized(self, vocab_size: int) -> Self:
        """The config of a model of so many words, which may be fewer than `data.vocab_size`."""
        return replace(self, data=replace(self.data, vocab_size=vocab_size))


@dataclass(kw_only=True, slots=True, config=CHECKED)
class ExecutorConfig:
    """Executor of a sweep: the place of its runs. It changes no result beyond rounding."""

    kind: ExecutorKind = ExecutorKind.local
    workers: Limit = setting(None, "Runs at a time; null for as many as fit.")
    gpu: Annotated[float, Gt(0), Le(1)] = setting(1.0, "Share of a GPU that a run takes.")
    slurm: dict[str, Any] = setting(dict, "Options of sbatch: {time: 120, mem: 8GB}.", SLURM)


def walk(config: Any, prefix: str = "") -> Iterator[tuple[str, Any, Field[Any]]]:
    """Every key of a config as (key, what holds it, field): a section, then what is in it."""
    for f in fields(config):
        key = f"{prefix}{f.name}"
        yield key, config, f
        value = getattr(config, f.name)
        if is_dataclass(value):
            yield from walk(value, f"{key}.")


def refuse_idle(config: Any, prefix: str = "") -> None:
    """Raise `UserError` for a setting that has no effect and another value than its default."""
    for key, section, f in walk(config, prefix):
        when = f.metadata.get("when")
        if when is None or when.holds(config):
            continue
        default = f.default if f.default_factory is MISSING else f.default_factory()
        if getattr(section, f.name) != default:
            raise UserError(f"{key} would do nothing: it is for {when.description}.")


def meanings(config: Any) -> dict[str, str]:
    """What each key of a config means."""
    return {key: f.metadata.get("meaning", "") for key, _, f in walk(config)}


def to_dict(config: Any) -> Tree:
    """Settings of a config that have an effect, as plain containers and scalars."""
    if not is_dataclass(config):
        raise TypeError(f"{config!r} is no config; compose('position=rotary') gives one.")

    def acting_settings(section: Any) -> Tree:
        settings: Tree = {}
        for f in fields(section):
            value = getattr(section, f.name)
            if is_dataclass(value):
                value = acting_settings(value)
            elif isinstance(value, StrEnum):
                value = str(value)
            when = f.metadata.get("when")
            if when is None or when.holds(config):
                settings[f.name] = value
        return settings

    return acting_settings(config)


def foreign_code(config: Tree) -> list[str]:
    """Pieces, tokenizer and loss that are not attnexp's in a config of `to_dict`: `module:name`."""
    texts = [str(value) for key, value in flatten(config).items() if key.endswith(CODE)]
    return [text for text in texts if CLASS.fullmatch(text) and not is_ours(text)]
