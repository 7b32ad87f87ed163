"""What a run reads: its data set, and the splits of it on a device."""

import functools
from typing import NamedTuple

import numpy as np
import torch

from attnexp.config.schema import Protocol, RunConfig
from attnexp.config.settings import Tree
from attnexp.data import encode
from attnexp.data.vectors import Vectors, load_vectors
from attnexp.model.init import named_seed
from attnexp.training.loop import Examples


class Inputs(NamedTuple):
    """Everything that a run reads."""

    dataset: encode.Dataset
    vectors: Vectors | None
    fingerprint: str  # of all files: DATA or DATA-VECTORS


class Splits(NamedTuple):
    """The texts of a run on its device, by what it does with them."""

    train: Examples
    val: Examples
    test: Examples


def read_inputs(config: RunConfig) -> Inputs:
    """Read the inputs of a run. Raises `UserError` if they are missing."""
    dataset = encode.load_once(config.data, config.seeds.resample)
    if config.vectors is None:
        return Inputs(dataset, None, dataset.fingerprint)
    vectors = load_vectors(config.vectors, dataset.words, config.model.d_model)
    return Inputs(dataset, vectors, f"{dataset.fingerprint}-{vectors.fingerprint}")


@functools.lru_cache(maxsize=3)  # The runs of a sweep mostly share train, val and test.
def on_device(encoded: encode.Encoded, device: torch.device) -> Examples:
    """A whole split on a device: 25,000 texts of 80 ids are 8 MB."""
    ids = torch.from_numpy(encoded.ids)
    labels = torch.from_numpy(encoded.labels)
    return Examples(ids.to(device), labels.to(device, torch.float32))


def make_splits(config: RunConfig, dataset: encode.Dataset, device: torch.device) -> Splits:
    """The splits of a run on its device. Under `protocol: blog` the test set validates; under
    `holdout` the validation split that the data set is asked for, or else a part of train."""
    train = on_device(dataset.train, device)
    test = on_device(dataset.test, device)
    if config.train.protocol is Protocol.blog:
        return Splits(train, val=test, test=test)
    if dataset.val is not None:
        return Splits(train, on_device(dataset.val, device), test)
    num_val = round(len(train) * config.train.holdout)
    num_val = min(max(1, num_val), len(train) - 1)  # Each part has a text at least.
    seed = named_seed(config.seed_of("split"), "split")
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(train), generator=generator).to(device)
    val_rows, train_rows = rows.tensor_split([num_val])
    return Splits(train[train_rows], train[val_rows], test)


def describe_data(config: RunConfig, inputs: Inputs, splits: Splits) -> Tree:
    """The facts of the data that a result keeps."""
    dataset = inputs.dataset
    _, class_sizes = np.unique(splits.test.truth, return_counts=True)
    return {
        "name": config.data.title,
        "source": dataset.source,
        "read": dataset.files,
        "fingerprint": dataset.fingerprint,
        "n_train": len(splits.train),
        "n_val": len(splits.val),
        "n_test": len(splits.test),
        "classes": list(dataset.classes),
        "vocab_size": dataset.vocab_size,
        "largest_class": float(class_sizes.max() / len(splits.test)),
        "quality": dataset.quality,
        "vectors": getattr(inputs.vectors, "fingerprint", None),
        "vectors_coverage": getattr(inputs.vectors, "coverage", None),
    }
