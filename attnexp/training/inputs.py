"""Inputs of a run, which decide its id. Imports no torch: a sweep is planned without it."""

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from attnexp.base import progress
from attnexp.config.schema import DataConfig, RunConfig
from attnexp.data import encode
from attnexp.data.corpus import format_quality
from attnexp.runs.identity import Identity, identify

if TYPE_CHECKING:
    from attnexp.data.vectors import Vectors


@functools.lru_cache(maxsize=1)
def load_data(config: DataConfig, resample: int | None = None) -> encode.Dataset:
    """Data set of a config; problems found in it are noted once.

    The runs of a sweep mostly share their data: the last one read is kept.
    """
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
        """Identity of the run."""
        return identify(self.config, self.fingerprint)


def read_inputs(config: RunConfig) -> Inputs:
    """Read the inputs of a run. Raises `UserError` if they are missing."""
    dataset, vectors = load_data(config.data, config.seeds.resample), None
    if config.vectors is not None:
        from attnexp.data.vectors import load_vectors

        path, d_model = config.vectors
        vectors = load_vectors(path, dataset.words, d_model)
    return Inputs(config=config, dataset=dataset, vectors=vectors)
