"""One run: `train_run(config)` trains, tests and leaves its folder behind.

Everything random has a stream of its own, named by the seed (weights, order, split, dropout), so
variants that share a seed see the same batches, in the same order, split the same way.
"""

import functools
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from attnexp.base import progress
from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import DataConfig, Protocol, RunConfig, TrainConfig, to_dict
from attnexp.data import encode
from attnexp.data.vectors import Vectors, load_vectors
from attnexp.model.init import named_seed
from attnexp.model.seams import Baseline
from attnexp.network.build import build_model
from attnexp.network.check import check_pieces, check_rebuilt, explain
from attnexp.network.classifier import Classifier
from attnexp.network.cost import cost_of
from attnexp.network.fast import REFERENCE, take_fast_path
from attnexp.runs import predictions, store
from attnexp.runs.identity import Identity, default_label, departures, identify
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


def read_inputs(config: RunConfig) -> Inputs:
    """Read the inputs of a run. Raises `UserError` if they are missing."""
    dataset = load_data(config.data, config.seeds.resample)
    if (path := getattr(config.model, "vectors", None)) is None:  # a baseline takes none
        return Inputs(dataset, None, dataset.fingerprint)
    vectors = load_vectors(path, dataset.words, config.model.d_model)
    return Inputs(dataset, vectors, dataset.fingerprint + vectors.fingerprint)


@functools.lru_cache(maxsize=1)  # the runs of a sweep mostly share their data
def load_data(config: DataConfig, resample: int | None = None) -> encode.Dataset:
    """Data set of a config; problems found in it are noted once."""
    dataset = encode.load(config, resample)
    if found := [f"{count:,} {what}" for what, count in dataset.quality.items()]:
        progress.note(f"Warning: {'; '.join(found)}.")
    return dataset


@functools.lru_cache(maxsize=2)  # likewise the two splits that were used last
def on_device(encoded: encode.Encoded, where: torch.device) -> Examples:
    """A whole split on a device: 25,000 texts of 80 ids are 8 MB."""
    ids, labels = torch.from_numpy(encoded.ids), torch.from_numpy(encoded.labels)
    return Examples(ids.to(where), labels.to(where, torch.float32))


def train_run(config: RunConfig, *, again: bool = False) -> tuple[Path, RunResult]:
    """Train what `config` says; return the run's folder and result.

    A run that has finished before is not repeated, unless `again`; then its result stays until the
    new one is there. One that was stopped goes on from its last epoch.

    Raises `UserError`, `Busy` while another process does this run, `RunFailed` for a loss of NaN.
    """
    with device.keeping_threads():
        where = device.prepare(config.train)
        inputs = read_inputs(config)
        identity = identify(config, inputs.fingerprint)
        path = store.run_dir(config.out, identity.run_id)
        with store.lock(path):
            if store.has_finished(path) and not again:
                progress.note("This run has finished before. To do it once more: --again.")
                return path, store.load(path)
            store.create(path, config)
            num_epochs = config.train.epochs if config.is_network else 1
            record = Record(folder=path, num_epochs=num_epochs, provenance=device.provenance(where))
            try:
                result = _train(config, inputs, identity, where, record)
            except BaseException:
                with suppress(OSError):  # the log may be what cannot be written
                    record.log(traceback.format_exc())
                raise
            store.save(path, result)
            return path, result


def _train(
    config: RunConfig, inputs: Inputs, identity: Identity, where: torch.device, record: Record
) -> RunResult:
    """Train and test; write everything but the result."""
    dataset, vectors, _ = inputs
    test = on_device(dataset.test, where)
    own_val = None if dataset.val is None else on_device(dataset.val, where)
    train, val = split(config, on_device(dataset.train, where), test, own_val)
    torch.manual_seed(named_seed(config.seed_of("order"), "dropout"))  # what dropout draws from
    model = build_model(config, len(dataset.classes)).to(where)
    if vectors is not None:
        assert isinstance(model, Classifier)  # a baseline takes no vectors
        record.note(f"vectors: {vectors.coverage:.1%} of {len(vectors.found):,} words found")
        model.set_word_vectors(vectors.rows, vectors.found)
    try:
        if isinstance(model, Baseline):
            _fit_baseline(model, config.train, train, val, record)
        else:
            _train_network(model, config, train, val, record)
    except Exception as error:
        if isinstance(error, UserError | RunFailed) or not (named := explain(error, model)):
            raise
        raise named from error
    predicted = record.predicted
    label = np.min_scalar_type(len(dataset.classes) - 1)
    predicted[predictions.VAL_LABELS] = val.truth.astype(label)
    logits = predicted[predictions.FINAL]
    if config.train.protocol is Protocol.holdout:  # else the test set validates
        model.load_state_dict(record.best_weights)
        logits = predicted[predictions.TEST] = loop.predict(model, test, config.train.precision)
        predicted[predictions.TEST_LABELS] = test.truth.astype(label)
    check_rebuilt(model, config, len(dataset.classes), test.ids[:3])
    weights = {name: tensor.cpu().numpy() for name, tensor in model.state_dict().items()}
    predictions.save(record.folder / predictions.WEIGHTS, weights)
    predictions.save(record.folder / predictions.FILE, predicted)
    words = "".join(f"{word}\n" for word in dataset.words)
    (record.folder / store.VOCABULARY).write_text(words, encoding="utf-8", newline="\n")
    return RunResult(
        schema=SCHEMA,
        run_id=identity.run_id,
        code=identity.code,
        seed=config.seed,
        label=default_label(to_dict(config)),
        departures=departures(to_dict(config)),
        config=to_dict(config),
        data={
            "name": config.data.title,
            "source": dataset.source,
            "fingerprint": dataset.fingerprint,
            "n_train": len(train),
            "n_val": len(val),
            "n_test": len(test),
            "classes": list(dataset.classes),
            "largest_class": float(np.unique(test.truth, return_counts=True)[1].max() / len(test)),
            "quality": dataset.quality,
            "vectors_coverage": vectors and vectors.coverage,
        },
        **cost_of(config, len(dataset.classes)),
        epochs=record.epochs,
        best=record.epochs[best_epoch(record.epochs)],
        final=record.epochs[-1],
        test=measure(logits, test.truth),
        wall_seconds=time.perf_counter() - record.started,
        provenance=record.provenance,
    )


def split(
    config: RunConfig, train: Examples, test: Examples, own: Examples | None = None
) -> tuple[Examples, Examples]:
    """Train and validation. Under `protocol: blog` the test set validates; under `holdout` the
    validation split that the data set has of its own, where it is asked for, else a part of train.
    """
    if config.train.protocol is Protocol.blog:
        return train, test
    if own is not None:
        return train, own
    generator = torch.Generator().manual_seed(named_seed(config.seed_of("split"), "split"))
    rows = torch.randperm(len(train), generator=generator).to(train.ids.device)
    num_val = min(max(1, round(len(train) * config.train.holdout)), len(train) - 1)
    return train[rows[num_val:]], train[rows[:num_val]]


def _train_network(
    model: nn.Module, config: RunConfig, train: Examples, val: Examples, record: Record
) -> None:
    """Train all epochs, from the checkpoint on where there is one."""
    options = config.train
    path = take_fast_path(model, options.precision) if options.fast else REFERENCE
    record.provenance["path"] = path
    check_pieces(model, train.ids[:3])
    shuffle = torch.Generator().manual_seed(named_seed(config.seed_of("order"), "order"))
    state = State(model=model, optimizer=make_optimizer(model, options), shuffle=shuffle)
    record.resume(state)
    patience = options.patience or options.epochs
    try:
        while len(record.epochs) < min(options.epochs, best_epoch(record.epochs) + 1 + patience):
            if state.epoch == len(record.epochs):
                loop.train_epoch(state, train, options)
                record.save(state)  # before the evaluation, which may fail or be stopped
            row, logits = loop.measure_epoch(model, train, val, options, state.epoch, state.running)
            record.add(row, logits, val.truth, model)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the same command goes on from {state}.") from None


def _fit_baseline(
    model: Baseline, config: TrainConfig, train: Examples, val: Examples, record: Record
) -> None:
    """Fit in one go, as an only epoch; its running mean is that of the fitted model on train."""
    started = time.perf_counter()
    model.fit(train.ids, train.labels)
    fitted = measure(loop.predict(model, train, config.precision), train.truth)
    running = fitted.loss, fitted.accuracy, time.perf_counter() - started
    row, logits = loop.measure_epoch(model, train, val, config, 1, running)
    record.add(row, logits, val.truth, model)
