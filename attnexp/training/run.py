"""One run: `train_run(config)` trains, tests and leaves its folder behind.

Everything random has a stream of its own, named by the seed (weights, order, split, dropout), so
variants that share a seed see the same batches, in the same order, split the same way.
"""

import functools
import random
import time
import traceback
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from attnexp.base import progress, reads
from attnexp.base.errors import UserError
from attnexp.config.schema import DataConfig, Protocol, RunConfig, foreign_code, to_dict
from attnexp.data import encode
from attnexp.data.vectors import Vectors, load_vectors
from attnexp.model.init import named_seed
from attnexp.model.seams import Baseline
from attnexp.network.build import build_model, try_to_build
from attnexp.network.check import check_model, check_stored, compare_weights, weights_of
from attnexp.network.classifier import Classifier
from attnexp.network.cost import cost_of
from attnexp.network.guard import guard
from attnexp.runs import predictions, store
from attnexp.runs.identity import Identity, identify
from attnexp.runs.labels import default_label, departures
from attnexp.runs.result import SCHEMA, RunResult
from attnexp.training import device, loop
from attnexp.training.loop import Examples
from attnexp.training.metrics import measure
from attnexp.training.optimizer import make_optimizer
from attnexp.training.state import Record, State, best_epoch


class Inputs(NamedTuple):
    """Everything that a run reads."""

    dataset: encode.Dataset
    vectors: Vectors | None
    fingerprint: str  # of the content of all of it


class Splits(NamedTuple):
    """The texts of a run on its device, by what it does with them."""

    train: Examples
    val: Examples
    test: Examples


def read_inputs(config: RunConfig) -> Inputs:
    """Read the inputs of a run. Raises `UserError` if they are missing."""
    dataset = load_data(config.data, config.seeds.resample)
    if config.vectors is None:
        return Inputs(dataset, None, dataset.fingerprint)
    with reads.watching(False):
        vectors = load_vectors(config.vectors, dataset.words, config.model.d_model)
    return Inputs(dataset, vectors, dataset.fingerprint + vectors.fingerprint)


last_read: dict[Any, encode.Dataset] = {}
"""The data set that was read last, by its config: the runs of a sweep
mostly share it, and a sweep hands it to its processes."""


def load_data(config: DataConfig, resample: int | None = None) -> encode.Dataset:
    """Data set of a config, and its problems noted."""
    key = (config, resample)
    if key not in last_read:
        dataset = encode.load_dataset(config, resample)
        problems = [f"{count:,} {problem}" for problem, count in dataset.quality.items()]
        if problems:
            progress.note(f"Warning: {'; '.join(problems)}.")
        last_read.clear()
        last_read[key] = dataset
    return last_read[key]


@functools.lru_cache(maxsize=2)  # the two splits that were used last
def on_device(encoded: encode.Encoded, processor: torch.device) -> Examples:
    """A whole split on a device: 25,000 texts of 80 ids are 8 MB."""
    ids = torch.from_numpy(encoded.ids)
    labels = torch.from_numpy(encoded.labels)
    return Examples(ids.to(processor), labels.to(processor, torch.float32))


def train_run(config: RunConfig, *, again: bool = False) -> tuple[Path, RunResult]:
    """Train what `config` says; return the run's folder and result. A finished run is not repeated
    unless `again`, and keeps its result until the new one is there; a stopped one goes on from its
    last epoch. Raises `UserError`, `Busy` while another process does this run, `RunFailed` for a
    loss that is not finite."""
    code = foreign_code(to_dict(config))
    with reads.watching():
        try_to_build(config)
    if code and (stale := reads.stale_file()):
        raise UserError(f"{stale} changed since this process imported it. Start Python anew.")
    with device.restore_process():
        processor = device.prepare(config.train)
        with reads.watching():
            inputs = read_inputs(config)
        identity = identify(config, inputs.fingerprint)
        with store.lock_place(config.out, identity.run_id) as (path, changed):
            if changed:
                progress.note(f"{changed} changed since this was trained. The new run: {path}")
            if store.has_finished(path) and not again:
                progress.note("This run has finished before. To do it once more: --again.")
                return path, store.load_result(path)
            store.create(path, config)
            num_epochs = config.train.epochs if config.is_network else 1
            provenance = device.describe_provenance(processor)
            if code:
                provenance["commit_of_user"] = device.commit_of(Path.cwd())
            record = Record(folder=path, num_epochs=num_epochs, provenance=provenance, has_user_code=bool(code))
            try:
                result = _train(config, inputs, identity, processor, record)
            except BaseException as error:
                with suppress(OSError):  # the log may be what cannot be written
                    record.log(traceback.format_exc())
                    if isinstance(error, Exception):  # else a user stopped it
                        record.log(store.FAILED)
                raise
            store.save_result(path, result)
            return path, result


def _train(
    config: RunConfig, inputs: Inputs, identity: Identity, processor: torch.device, record: Record
) -> RunResult:
    """Train and test; write everything but the result."""
    splits = make_splits(config, inputs.dataset, processor)
    num_classes = len(inputs.dataset.classes)
    torch.manual_seed(named_seed(config.seed_of("order"), "dropout"))  # what dropout draws from
    code = foreign_code(to_dict(config))
    with reads.watching(), guard(code):
        model, twin = _make_models(config, inputs, record)
        model.to(processor)
        if code and not isinstance(model, Baseline):  # which learns first
            check_model(model, splits.train.ids[:3], num_classes)
        cost = cost_of(model, config.data.max_len)
        if isinstance(model, Baseline):
            _fit_baseline(model, config, splits, record)
        else:
            _train_network(model, config, splits, record)
        test_logits = record.predicted[predictions.FINAL]  # of the validation set, blog's test set
        if config.train.protocol is Protocol.holdout:
            model.load_state_dict(record.best_weights)
            test_logits = loop.predict(model, splits.test, config.train.precision)
            record.predicted[predictions.TEST] = test_logits
        _write_files(model, inputs.dataset, splits, record)
        read_files = record.read_files() if code else {}
        store.save_code(record.folder, reads.python_files(read_files))
        if code:
            check_stored(model, twin.to(processor), splits.test.ids[:3], num_classes)
    return RunResult(
        schema=SCHEMA,
        run_id=record.folder.name,
        code=identity.code,
        seed=config.seed,
        label=default_label(to_dict(config)),
        departures=departures(to_dict(config)),
        config=to_dict(config),
        data=describe_data(config, inputs, splits),
        **cost,
        epochs=record.epochs,
        own_best=record.epochs[best_epoch(record.epochs)],
        final=record.epochs[-1],
        test=measure(test_logits, splits.test.truth),
        wall_seconds=time.perf_counter() - record.started,
        provenance=record.provenance,
        read_files=read_files,
    )


def make_splits(config: RunConfig, dataset: encode.Dataset, processor: torch.device) -> Splits:
    """The splits of a run on its device. Under `protocol: blog` the test set validates; under
    `holdout` the validation split of the data set, where it is asked for, else a part of train."""
    train = on_device(dataset.train, processor)
    test = on_device(dataset.test, processor)
    if config.train.protocol is Protocol.blog:
        return Splits(train, val=test, test=test)
    if dataset.val is not None:
        val = on_device(dataset.val, processor)
        return Splits(train, val, test)
    num_val = round(len(train) * config.train.holdout)
    num_val = min(max(1, num_val), len(train) - 1)  # each has a text at least
    seed = named_seed(config.seed_of("split"), "split")
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randperm(len(train), generator=generator).to(processor)
    val_rows, train_rows = rows.tensor_split([num_val])
    return Splits(train[train_rows], train[val_rows], test)


def describe_data(config: RunConfig, inputs: Inputs, splits: Splits) -> dict[str, Any]:
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


def _make_models(
    config: RunConfig, inputs: Inputs, record: Record
) -> tuple[nn.Module, nn.Module]:
    """The untrained model, with its pretrained vectors where it has some, and told how many; and
    another of the same seed. Raises `UserError` where the two differ."""
    dataset, vectors, _ = inputs
    num_classes = len(dataset.classes)
    with torch.random.fork_rng(devices=[]):
        model = build_model(config.sized(dataset.vocab_size), num_classes)
        twin = model
        if foreign_code(to_dict(config)):
            twin = build_model(config.sized(dataset.vocab_size), num_classes)
            compare_weights(model, twin)
    # The same with `data.vocab_size` words is built for its draws alone, so that those of dropout,
    # which follow, do not depend on how many words the data have.
    build_model(config, num_classes)
    if vectors is not None:
        assert isinstance(model, Classifier)  # others take no vectors
        record.note(f"vectors: {vectors.coverage:.1%} of {len(vectors.in_file):,} words found")
        model.set_word_vectors(vectors.rows, vectors.in_file)
    return model, twin


def _train_network(model: nn.Module, config: RunConfig, splits: Splits, record: Record) -> None:
    """Train all epochs, from the checkpoint on where there is one."""
    options = config.train
    train, val, _ = splits
    record.provenance |= device.choose_path(model, options)
    seed = named_seed(config.seed_of("order"), "order")
    shuffle = torch.Generator().manual_seed(seed)
    optimizer = make_optimizer(model, options)
    state = State(model=model, optimizer=optimizer, shuffle=shuffle)
    with reads.watching(False):
        record.resume(state)
    try:
        while len(record.epochs) < options.epochs:
            num_since_best = len(record.epochs) - 1 - best_epoch(record.epochs)
            if options.patience and num_since_best >= options.patience:
                break
            if state.epoch == len(record.epochs):  # else it was stopped in an evaluation
                _seed_other_draws(config, state.epoch)
                loop.train_epoch(state, train, options)
                record.save(state)  # before the evaluation, which may fail or be stopped
            row, logits = loop.measure_epoch(model, train, val, options, state.epoch, state.running)
            record.add(row, logits, val.truth, model)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the same command goes on from {state}.") from None


def _fit_baseline(
    model: Baseline, config: RunConfig, splits: Splits, record: Record
) -> None:
    """Fit in one go, as an only epoch; its running mean is that of the fitted model on train."""
    train, val, _ = splits
    options = config.train
    started = time.perf_counter()
    _fit(model, config, train)
    train_logits = loop.predict(model, train, options.precision)
    fitted = measure(train_logits, train.truth)
    seconds = time.perf_counter() - started
    running = fitted.loss, fitted.accuracy, seconds
    row, logits = loop.measure_epoch(model, train, val, options, 1, running)
    record.add(row, logits, val.truth, model)


def _fit(model: Baseline, config: RunConfig, train: Examples) -> None:
    with torch.random.fork_rng():
        _seed_other_draws(config, epoch=0)
        model.fit(train.ids.clone(), train.labels.clone())  # which it may change in place


def _seed_other_draws(config: RunConfig, epoch: int) -> None:
    """Seed what the user's code draws from beside torch, anew in each epoch, for a stopped run."""
    if foreign_code(to_dict(config)):  # else these streams belong to whoever called
        seed = named_seed(config.seed_of("order"), f"user's code, epoch {epoch}")
        np.random.seed(seed % 2**32)
        random.seed(seed)


def _write_files(model: nn.Module, dataset: encode.Dataset, splits: Splits, record: Record) -> None:
    """Write weights, predictions with the true labels, and the vocabulary."""
    arrays = record.predicted
    label_type = np.min_scalar_type(len(dataset.classes) - 1)
    arrays[predictions.VAL_LABELS] = splits.val.truth.astype(label_type)
    if predictions.TEST in arrays:  # else the test set validates
        arrays[predictions.TEST_LABELS] = splits.test.truth.astype(label_type)
    weights_file = record.folder / predictions.WEIGHTS
    predictions.save_arrays(weights_file, weights_of(model))
    predictions_file = record.folder / predictions.FILE
    predictions.save_arrays(predictions_file, arrays)
    vocabulary_file = record.folder / store.VOCABULARY
    lines = [f"{word}\n" for word in dataset.words]
    vocabulary_file.write_bytes("".join(lines).encode())
    files = [weights_file, predictions_file, vocabulary_file]
    record.provenance["checksums"] = {file.name: zlib.crc32(file.read_bytes()) for file in files}
