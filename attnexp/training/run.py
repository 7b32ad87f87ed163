"""One run: `train_run(config)` trains, tests and leaves its folder behind.

Everything random has a stream of its own, named by the seed (weights, order, split, dropout), so
variants that share a seed see the same batches, in the same order, split the same way.
"""

import functools
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from attnexp.base import progress, reads
from attnexp.base.errors import UserError
from attnexp.config.schema import (
    PIECES,
    DataConfig,
    Protocol,
    RunConfig,
    flatten,
    foreign_code,
    to_dict,
)
from attnexp.data import encode
from attnexp.data.sources import stamp_files
from attnexp.data.vectors import Vectors, load_vectors
from attnexp.model.init import named_seed
from attnexp.model.seams import Baseline
from attnexp.network.build import build_model, try_to_build
from attnexp.network.check import check_stored, compare_weights
from attnexp.network.classifier import Classifier
from attnexp.network.cost import count_parameters
from attnexp.network.guard import guard
from attnexp.network.make import seed_beside_torch
from attnexp.runs import predictions, store
from attnexp.runs.identity import Identity, identify
from attnexp.runs.labels import default_label, departures
from attnexp.runs.result import SCHEMA, RunResult
from attnexp.training import device, loop
from attnexp.training.loop import Examples
from attnexp.training.metrics import measure
from attnexp.training.optimizer import make_optimizer
from attnexp.training.state import (
    History,
    RunLog,
    State,
    best_epoch,
    resume,
    save_checkpoint,
)


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
    vectors = load_vectors(config.vectors, dataset.words, config.model.d_model)
    return Inputs(dataset, vectors, dataset.fingerprint + vectors.fingerprint)


last_read: dict[Any, encode.Dataset] = {}
"""The data set that was read last, by its config and the stamps of its files: the runs of a sweep
mostly share it, and a sweep hands it to its processes."""


def load_data(config: DataConfig, resample: int | None = None) -> encode.Dataset:
    """Data set of a config, read anew when a file of it has changed, and its problems noted."""
    key = (config, resample, stamp_files(config))
    if key not in last_read:
        dataset = encode.load_dataset(config, resample)
        problems = [f"{count:,} {problem}" for problem, count in dataset.quality.items()]
        if problems:
            progress.note(f"Warning: {'; '.join(problems)}.")
        last_read.clear()
        last_read[key] = dataset
    return last_read[key]


@functools.lru_cache(maxsize=2)  # It keeps the two splits that were used last.
def on_device(encoded: encode.Encoded, processor: torch.device) -> Examples:
    """A whole split on a device: 25,000 texts of 80 ids are 8 MB."""
    ids = torch.from_numpy(encoded.ids)
    labels = torch.from_numpy(encoded.labels)
    return Examples(ids.to(processor), labels.to(processor, torch.float32))


def train_run(config: RunConfig, *, again: bool = False) -> tuple[Path, RunResult]:
    """Train what `config` says; return the run's folder and result. A finished run is not repeated
    unless `again`, and keeps its result until the new one is there; a stopped one goes on from its
    last epoch.

    It shares the process of the caller, whose random streams, threads and grad mode it leaves as
    they were: what a user's module changes in torch, or keeps, stays for the next run.

    Raises `UserError`, `Busy` while another process does this run, `RunFailed` for a loss that is
    not finite.
    """
    reads.begin_run()
    with device.restore_process():
        try_to_build(config)
        stale = reads.describe_stale(_modules_of_user(config))
        if stale:
            raise UserError(f"{stale} since it was imported. Restart the kernel.")
        processor = device.prepare(config.train)
        inputs = read_inputs(config)
        identity = identify(config, inputs.fingerprint)
        with store.lock_run(config.out, identity.run_id) as (path, change):
            if store.has_finished(path) and not again:
                progress.note("This run has finished before. To do it once more: --again.")
                return path, store.load_result(path)
            if change:
                progress.note(f"{change} since this was trained. The new run: {path}")
            store.create(path, config)
            log = RunLog(folder=path, num_epochs=config.train.epochs if config.is_network else 1)
            try:
                result = _train(config, inputs, identity, processor, log)
            except BaseException:
                with suppress(OSError):  # The log may be what cannot be written.
                    log.write(traceback.format_exc())
                raise
            store.save_result(path, result)
            return path, result


def _train(
    config: RunConfig, inputs: Inputs, identity: Identity, processor: torch.device, log: RunLog
) -> RunResult:
    """Train and test; write everything but the result."""
    tree = to_dict(config)
    code = foreign_code(tree)
    num_classes = len(inputs.dataset.classes)
    history = History()
    provenance = device.describe_provenance(processor)
    splits = make_splits(config, inputs.dataset, processor)
    torch.manual_seed(named_seed(config.seed_of("order"), "dropout"))  # Dropout draws from it.
    with guard(code):
        model, twin = _make_models(config, inputs, log)
        model.to(processor)
        if isinstance(model, Baseline):
            _fit_baseline(model, config, splits, history, log)
        else:
            provenance |= device.choose_path(model, config.train)
            _train_network(model, config, splits, history, log)
        test_logits = _predict_test(model, config, splits, history)
        if code:
            provenance["commit_of_user"] = device.commit_of(Path.cwd())
            check_stored(model, twin.to(processor), splits.test.ids[:3], num_classes)
            _note_files(config, history, log.folder)
    _write_files(model, inputs.dataset, splits, history, log.folder)
    return RunResult(
        schema=SCHEMA,
        run_id=log.folder.name,
        code=identity.code,
        seed=config.seed,
        label=default_label(tree),
        departures=departures(tree),
        config=tree,
        data=describe_data(config, inputs, splits),
        parameters=count_parameters(model),
        epochs=history.epochs,
        own_best=history.epochs[best_epoch(history.epochs)],
        final=history.epochs[-1],
        test=measure(test_logits, splits.test.truth),
        wall_seconds=time.perf_counter() - history.started,
        provenance={**provenance, "resumed": history.resumed},
        read_files=history.read_files,
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


def _make_models(config: RunConfig, inputs: Inputs, log: RunLog) -> tuple[nn.Module, nn.Module]:
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
        log.note(f"vectors: {vectors.coverage:.1%} of {len(vectors.in_file):,} words found")
        model.set_word_vectors(vectors.rows, vectors.in_file)
    return model, twin


def _train_network(
    model: nn.Module, config: RunConfig, splits: Splits, history: History, log: RunLog
) -> None:
    """Train all epochs, from the checkpoint on where there is one."""
    options = config.train
    train, val, _ = splits
    seed = named_seed(config.seed_of("order"), "order")
    shuffle = torch.Generator().manual_seed(seed)
    optimizer = make_optimizer(model, options)
    state = State(model=model, optimizer=optimizer, shuffle=shuffle)
    checkpoint = log.folder / store.CHECKPOINT
    resume(checkpoint, state, history, log)
    try:
        while len(history.epochs) < options.epochs:
            num_since_best = len(history.epochs) - 1 - best_epoch(history.epochs)
            if options.patience and num_since_best >= options.patience:
                break
            if state.epoch == len(history.epochs):  # Else an evaluation was stopped.
                _seed_draws_beside_torch(config, state.epoch)
                loop.train_epoch(state, train, options)
                _note_files(config, history, log.folder)
                # An evaluation may fail or be stopped, so the checkpoint is written before it.
                save_checkpoint(checkpoint, state, history)
            row, logits = loop.measure_epoch(model, train, val, options, state.epoch, state.running)
            history.add(row, logits, val.truth, model)
            log.note_epoch(history.epochs)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the same command goes on from {state}.") from None


def _fit_baseline(
    model: Baseline, config: RunConfig, splits: Splits, history: History, log: RunLog
) -> None:
    """Fit in one go, as an only epoch; its running mean is that of the fitted model on train."""
    train, val, _ = splits
    options = config.train
    started = time.perf_counter()
    with torch.random.fork_rng():
        _seed_draws_beside_torch(config, epoch=0)
        model.fit(train.ids.clone(), train.labels.clone())  # which it may change in place
    train_logits = loop.predict(model, train, options.precision)
    fitted = measure(train_logits, train.truth)
    seconds = time.perf_counter() - started
    running = fitted.loss, fitted.accuracy, seconds
    row, logits = loop.measure_epoch(model, train, val, options, 1, running)
    history.add(row, logits, val.truth, model)
    log.note_epoch(history.epochs)


def _predict_test(
    model: nn.Module, config: RunConfig, splits: Splits, history: History
) -> NDArray[Any]:
    """Logits of the test set, (n,) or (n, C): under `holdout` with the best epoch's weights, which
    the model then has."""
    if config.train.protocol is Protocol.blog:
        return history.predicted[predictions.FINAL]  # The test set validates.
    model.load_state_dict(history.best_weights)
    logits = loop.predict(model, splits.test, config.train.precision)
    history.predicted[predictions.TEST] = logits
    return logits


def _seed_draws_beside_torch(config: RunConfig, epoch: int) -> None:
    """Seed numpy and `random` anew in each epoch, so that a stopped run goes on to the bit."""
    seed_beside_torch(named_seed(config.seed_of("order"), f"user's code, epoch {epoch}"))


def _note_files(config: RunConfig, history: History, folder: Path) -> None:
    """Note what user code has read so far, and the files that settings of pieces name: readers
    written in C or Rust tell Python of none."""
    modules = _modules_of_user(config)
    if not modules:
        return
    for key, value in flatten(to_dict(config)).items():
        section, _, _ = key.partition(".")
        if section in PIECES and key != "model.vectors" and isinstance(value, str):
            reads.note(value)
    history.read_files |= reads.read_files(folder.parent, modules)


def _modules_of_user(config: RunConfig) -> list[str]:
    """Modules of the user's that a config names."""
    return [kind.partition(":")[0] for kind in foreign_code(to_dict(config))]


def _write_files(
    model: nn.Module, dataset: encode.Dataset, splits: Splits, history: History, folder: Path
) -> None:
    """Write weights, predictions with the true labels, the vocabulary, and code of the user's."""
    arrays = history.predicted
    label_type = np.min_scalar_type(len(dataset.classes) - 1)
    arrays[predictions.VAL_LABELS] = splits.val.truth.astype(label_type)
    if predictions.TEST in arrays:  # Otherwise the test set validates.
        arrays[predictions.TEST_LABELS] = splits.test.truth.astype(label_type)
    weights = {name: value.cpu().numpy() for name, value in model.state_dict().items()}
    predictions.save_arrays(folder / predictions.WEIGHTS, weights)
    predictions.save_arrays(folder / predictions.FILE, arrays)
    lines = [f"{word}\n" for word in dataset.words]
    (folder / store.VOCABULARY).write_bytes("".join(lines).encode())
    store.save_code(folder, reads.sources(history.read_files))
