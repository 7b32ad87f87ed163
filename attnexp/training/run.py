"""One run: `train_run(config)` trains, tests and leaves its folder behind.

Everything random has a stream of its own, named by the seed (weights, order, split, dropout), so
variants that share a seed see the same batches, in the same order, split the same way.
"""

import functools
import gc
import json
import math
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import nn

from attnexp.base import progress
from attnexp.base.errors import Busy, RunFailed, UserError
from attnexp.config.schema import Protocol, RunConfig, TrainConfig, to_dict
from attnexp.data.quality import format_quality
from attnexp.model.check import check_pieces, check_rebuilt, explain, first_not_finite
from attnexp.model.classifier import (
    REFERENCE,
    Classifier,
    cost_of,
    set_word_vectors,
    take_fast_path,
)
from attnexp.model.seams import Baseline
from attnexp.runs import predictions, provenance, store
from attnexp.runs.arrays import save_weights
from attnexp.runs.identity import Identity
from attnexp.runs.result import SCHEMA, EpochRow, RunResult
from attnexp.training import device
from attnexp.training.evaluate import Logits, evaluate, examples_of, predict
from attnexp.training.inputs import Inputs, read_inputs
from attnexp.training.loop import (
    Examples,
    NotFinite,
    Tally,
    best_epoch,
    build,
    shuffle_of,
    split,
    start,
    train_epoch,
)
from attnexp.training.metrics import measure
from attnexp.training.recorder import Recorder, epoch_line
from attnexp.training.state import State

on_device = functools.lru_cache(maxsize=2)(examples_of)
"""The runs of a sweep mostly share their data: keep the two splits that were trained on last."""

_one_at_a_time = threading.RLock()
"""Held while a run is open, since seeds and threads of torch belong to the whole process."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A run that is ready to be opened: its data are read and its id is known."""

    inputs: Inputs
    identity: Identity
    where: torch.device

    @property
    def path(self) -> Path:
        """Folder of the run once it has finished."""
        return store.run_dir(self.inputs.config.out, self.identity.run_id)


@dataclass(kw_only=True, slots=True)
class OpenRun:
    """A run under way: its data, and the recorder that writes its folder."""

    inputs: Inputs
    train: Examples
    val: Examples
    test: Examples
    """Texts of the test set; under `protocol: blog` these are `val`."""
    recorder: Recorder

    @property
    def config(self) -> RunConfig:
        """Config of the run."""
        return self.inputs.config

    @property
    def path(self) -> Path:
        """Folder of the run as it is now."""
        return self.recorder.path


def prepare(config: RunConfig) -> Prepared:
    """Find the device, read the data and identify the run. Raises `UserError` for what the user can
    mend."""
    where = device.prepare(config.train)
    inputs = read_inputs(config)
    return Prepared(inputs=inputs, identity=inputs.identify(), where=where)


@contextmanager
def open_run(
    prepared: Prepared,
    *,
    overrides: Sequence[str] = (),
    planned: Identity | None = None,
    again: bool = False,
) -> Iterator[OpenRun]:
    """A run under way, locked against other processes and threads.

    overrides: the words that the config was composed of. planned: identity that the run must have.
    again: also where it has finished before. Raises `UserError` for what the user can mend, `Busy`
    when another process is at this run or (unless `again`) has done it, `RunFailed` when it is not
    as planned.
    """
    inputs, path, where = prepared.inputs, prepared.path, prepared.where
    config, dataset = inputs.config, inputs.dataset
    if planned is not None:
        prepared.identity.expect(planned)
    with _one_at_a_time, store.lock(path):
        store.recover(path)
        if not again and store.has_finished(path):
            raise Busy("Another process has just finished this run.")
        train, test = on_device(dataset.train, where), on_device(dataset.test, where)
        train, val = split(config, train, test)
        part = store.create(path, config, overrides)
        with store.log(part) as log:
            origin = provenance.collect(str(where), torch.get_num_threads())
            origin["dtype"] = str(torch.get_default_dtype())
            origin["products"] = device.products()
            log(json.dumps(origin))
            log(format_quality(dataset.quality) or "no questions about the data")

            def note(line: str) -> None:
                progress.note(line)
                log(line)

            recorder = Recorder(path=part, identity=prepared.identity, provenance=origin, note=note)
            yield OpenRun(inputs=inputs, train=train, val=val, test=test, recorder=recorder)


def train_run(
    config: RunConfig, *, overrides: Sequence[str] = (), again: bool = False
) -> tuple[Path, RunResult]:
    """Train what `config` says; return the run's folder and result.

    A run that has finished before is not repeated, unless `again`; then the old one stays until the
    new one is whole. Raises what `open_run` raises, and `RunFailed` when the loss is no longer a
    number.
    """
    with _one_at_a_time:
        prepared = prepare(config)
        if store.has_finished(prepared.path) and not again:
            progress.note("This run has finished before. To do it once more: --again.")
            return prepared.path, store.load(prepared.path)
        for reason in store.outdated(config.out, [prepared.identity]):
            progress.note(reason)
        with open_run(prepared, overrides=overrides, again=again) as run:
            result = train(run)
            return run.path, result


def train(run: OpenRun) -> RunResult:
    """Train and finish an open run. An error inside a piece names the piece."""
    model = build_on_device(run)
    try:
        if isinstance(model, Baseline):
            row, logits = fit_in_one_go(model, run.train, run.val, run.config.train)
            run.recorder.add(row, logits, run.val, model, run.config)
            run.recorder.note(epoch_line(row, 1))
        else:
            train_network(run, model)
        return finish(run, model)
    except (UserError, RunFailed):
        raise
    except Exception as error:
        if (explained := explain(error, model)) is not None:
            raise explained from error
        raise
    finally:
        gc.collect()  # a scheduler and its optimizer hold each other, and with them the weights


def train_network(run: OpenRun, model: nn.Module) -> None:
    """Train all epochs, from the checkpoint on where there is one."""
    config, recorder, where = run.config, run.recorder, run.train.device
    recorder.provenance["path"] = take_fast_path(model) if config.train.fast else REFERENCE
    state = start(model, run.train, config.train, shuffle_of(config))
    recorder.resume(state, config.train, where)
    saved = str(state)
    check_pieces(model, run.train.ids[:3])
    try:
        for row, logits in fit(state, run.train, run.val, config.train):
            recorder.add(row, logits, run.val, model, config)
            if row.epoch < config.num_epochs:
                recorder.save_checkpoint(state, where)
                saved = str(state)
            recorder.note(epoch_line(row, config.num_epochs))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the same command goes on from {saved}.") from None


def build_on_device(run: OpenRun) -> nn.Module:
    """The model before training, with pretrained vectors where they are given, on its device."""
    dataset, vectors = run.inputs.dataset, run.inputs.vectors
    model = build(run.config, len(dataset.classes))
    if vectors is not None:
        assert isinstance(model, Classifier)  # a baseline takes no vectors
        found, number = 100 * vectors.coverage, len(vectors.found)
        run.recorder.note(f"vectors: {found:.1f} % of {number:,} words found")
        set_word_vectors(model, vectors.rows, vectors.found)
    return model.to(run.train.device)


def fit(
    state: State, train: Examples, val: Examples, config: TrainConfig
) -> Iterator[tuple[EpochRow, Logits]]:
    """Train on from `state`; after every epoch yield its row and the logits of `val`.

    Raises `RunFailed` when the loss is no longer a number.
    """
    while state.epoch <= config.epochs:
        epoch, started, tally = state.epoch, time.perf_counter(), Tally()
        steps = train_epoch(state, train, config, tally)
        num_steps = math.ceil(len(train) / config.batch_size)
        try:
            for _ in progress.track(steps, total=num_steps, label=f"epoch {epoch}/{config.epochs}"):
                pass
        except NotFinite as error:
            first = first_not_finite(state.model, error.ids)
            where = f" The first output that is not finite is that of {first}." if first else ""
            raise RunFailed(f"{error}{where} {_remedy(epoch, config)}") from None
        yield _measured(state.model, train, val, config, epoch, tally.mean(), started)


def fit_in_one_go(
    model: Baseline, train: Examples, val: Examples, config: TrainConfig
) -> tuple[EpochRow, Logits]:
    """Row and logits of a baseline, as from `fit`, for its only epoch; the running mean is that of
    the fitted model on `train`."""
    started = time.perf_counter()
    model.fit(train.ids, train.labels)
    fitted = evaluate(model, train, config.precision, label="measuring on train")
    return _measured(model, train, val, config, 1, (fitted.loss, fitted.accuracy), started)


def _measured(
    model: nn.Module,
    train: Examples,
    val: Examples,
    config: TrainConfig,
    epoch: int,
    running: tuple[float, float],
    started: float,
) -> tuple[EpochRow, Logits]:
    """Row of an epoch and logits of `val`. running: mean loss and accuracy over the epoch."""
    train_seconds = time.perf_counter() - started
    running_loss, running_accuracy = running
    val_logits = predict(model, val, config.precision)
    validated = measure(val_logits, val.truth)
    seconds = time.perf_counter() - started
    if not math.isfinite(validated.loss):
        raise RunFailed(
            f"The validation loss is {validated.loss} after epoch {epoch}. {_remedy(epoch, config)}"
        )
    after = None
    if config.measure_train:
        after = evaluate(model, train, config.precision, label="measuring on train")
    row = EpochRow(
        epoch=epoch,
        train_loss=running_loss,
        train_accuracy=running_accuracy,
        train_loss_after=after.loss if after else None,
        train_accuracy_after=after.accuracy if after else None,
        val_loss=validated.loss,
        val_accuracy=validated.accuracy,
        val_brier=validated.brier,
        val_ece=validated.ece,
        seconds=seconds,
        examples_per_second=len(train) / train_seconds,
    )
    return row, val_logits


def _remedy(epoch: int, config: TrainConfig) -> str:
    good = f"Epoch {epoch - 1} was the last good one. " if epoch > 1 else ""
    return f"{good}A smaller train.lr (now {config.lr:g}) usually helps."


def finish(run: OpenRun, model: nn.Module) -> RunResult:
    """Test the model whose weights were kept; write everything, `result.json` last."""
    config, dataset, vectors = run.config, run.inputs.dataset, run.inputs.vectors
    recorder = run.recorder
    is_holdout = config.train.protocol is Protocol.holdout
    model.load_state_dict(recorder.weights)
    check_rebuilt(model, config, len(dataset.classes), run.val.ids[:3])
    if is_holdout:
        logits = predict(model, run.test, config.train.precision)
        recorder.predicted[predictions.TEST] = logits
    else:  # the test set was the validation set
        logits = recorder.predicted[predictions.FINAL]
    save_weights(recorder.path, recorder.weights)
    store.save_vocabulary(recorder.path, dataset.words)
    label = np.min_scalar_type(len(dataset.classes) - 1)
    truth = {predictions.VAL_LABELS: run.val.truth.astype(label)}
    if is_holdout:
        truth[predictions.TEST_LABELS] = run.test.truth.astype(label)
    predictions.save(recorder.path, {**recorder.predicted, **truth})
    result = RunResult(
        schema=SCHEMA,
        run_id=recorder.identity.run_id,
        code=recorder.identity.code,
        seed=config.seed,
        config=to_dict(config),
        data={
            "name": config.data.title,
            "source": dataset.source,
            "fingerprint": dataset.fingerprint,
            "n_train": len(run.train),
            "n_val": len(run.val),
            "n_test": len(run.test),
            "classes": list(dataset.classes),
            "largest_class": float(
                np.unique(run.test.truth, return_counts=True)[1].max() / len(run.test)
            ),
            "quality": dataset.quality,
            "vocab_size": config.data.vocab_size,
            "vectors_coverage": vectors.coverage if vectors else None,
        },
        **cost_of(config, len(dataset.classes)),
        epochs=recorder.epochs,
        best=recorder.epochs[best_epoch([row.val_accuracy for row in recorder.epochs])],
        final=recorder.epochs[-1],
        test=measure(logits, run.test.truth),
        wall_seconds=time.perf_counter() - recorder.started,
        peak_rss_bytes=device.peak_rss_bytes(),
        provenance=recorder.provenance,
        files=store.digests(recorder.path),
    )
    run.inputs.identify().expect(recorder.identity)
    store.save(recorder.path, result)
    recorder.path = store.finalize(recorder.path)
    return result
