"""What a run reads, which decides its id. Without torch: a sweep is planned before any training."""

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnexp.base import progress
from attnexp.config.schema import DataConfig, RunConfig
from attnexp.data import encode
from attnexp.data.cache import code_digests
from attnexp.data.quality import format_quality
from attnexp.data.text import tokenizer_kind
from attnexp.runs.identity import Identity, identify, read_again

if TYPE_CHECKING:
    from attnexp.data.vectors import Vectors


def load_data(config: DataConfig, resample: int | None = None) -> encode.Dataset:
    """The data, with what should be questioned in them told once.

    The runs of a sweep mostly share their data: the last one read is kept, until its tokenizer is
    edited.
    """
    tokenizer = tokenizer_kind(config.tokenizer).partition(":")[0]
    return _load_data(config, resample, tuple(code_digests(tokenizer).items()))


@functools.lru_cache(maxsize=1)
def _load_data(
    config: DataConfig, resample: int | None, code_of_tokenizer: tuple[tuple[str, str], ...]
) -> encode.Dataset:
    dataset = encode.load(config, resample)
    if questions := format_quality(dataset.quality):
        progress.note(questions)
    return dataset


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """A run with everything it reads, which decides its id."""

    config: RunConfig
    dataset: encode.Dataset
    vectors: "Vectors | None"

    @property
    def fingerprint(self) -> str:
        """Of the content of all that is read."""
        return self.dataset.fingerprint + (self.vectors.fingerprint if self.vectors else "")

    def identify(self) -> Identity:
        """What the run is, by the code as it is on disk now."""
        read_again()
        return identify(self.config, self.fingerprint)


def read_inputs(config: RunConfig) -> Inputs:
    """Read what a run needs. Raises `UserError` where that is not to be had."""
    dataset = load_data(config.data, config.seeds.resample)
    return Inputs(config=config, dataset=dataset, vectors=_vectors(config, dataset))


def _vectors(config: RunConfig, dataset: encode.Dataset) -> "Vectors | None":
    if config.vectors is None:
        return None
    from attnexp.data.vectors import load_vectors

    path, d_model = config.vectors
    return load_vectors(path, dataset.words, d_model)
