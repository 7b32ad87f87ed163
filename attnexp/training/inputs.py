"""Inputs of a run, which decide its id."""

import functools
from typing import NamedTuple

from attnexp.base import progress
from attnexp.config.schema import DataConfig, RunConfig
from attnexp.data import encode
from attnexp.data.corpus import format_quality
from attnexp.data.vectors import Vectors, load_vectors


class Inputs(NamedTuple):
    """Everything that a run reads."""

    dataset: encode.Dataset
    vectors: Vectors | None

    @property
    def fingerprint(self) -> str:
        """Fingerprint of the content of all of it."""
        return self.dataset.fingerprint + (self.vectors.fingerprint if self.vectors else "")


@functools.lru_cache(maxsize=1)  # the runs of a sweep mostly share their data
def load_data(config: DataConfig, resample: int | None = None) -> encode.Dataset:
    """Data set of a config; problems found in it are noted once."""
    dataset = encode.load(config, resample)
    if questions := format_quality(dataset.quality):
        progress.note(questions)
    return dataset


def read_inputs(config: RunConfig) -> Inputs:
    """Read the inputs of a run. Raises `UserError` if they are missing."""
    dataset, vectors = load_data(config.data, config.seeds.resample), None
    if config.vectors is not None:
        path, d_model = config.vectors
        vectors = load_vectors(path, dataset.words, d_model)
    return Inputs(dataset, vectors)
