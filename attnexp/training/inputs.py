"""Inputs of a run, which decide its id. Imports no torch: a sweep is planned without it."""

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
    """Data set of a config; problems found in it are noted once.

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
    """Config of a run with everything that it reads."""

    config: RunConfig
    dataset: encode.Dataset
    vectors: "Vectors | None"

    @property
    def fingerprint(self) -> str:
        """Fingerprint of everything that the run reads."""
        return self.dataset.fingerprint + (self.vectors.fingerprint if self.vectors else "")

    def identify(self) -> Identity:
        """Identity of the run, by the code on disk now."""
        read_again()
        return identify(self.config, self.fingerprint)


def read_inputs(config: RunConfig) -> Inputs:
    """Read the inputs of a run. Raises `UserError` if they are missing."""
    dataset, vectors = load_data(config.data, config.seeds.resample), None
    if config.vectors is not None:
        from attnexp.data.vectors import load_vectors

        path, d_model = config.vectors
        vectors = load_vectors(path, dataset.words, d_model)
    return Inputs(config=config, dataset=dataset, vectors=vectors)
