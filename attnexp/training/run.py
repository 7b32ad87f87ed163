"""One run: `train_run(config)` trains, tests and leaves its folder behind.

Everything random has a stream of its own, named by the seed (weights, order, split, dropout), so
variants that share a seed see the same batches, in the same order, split the same way.
"""

import functools
import gc
import json
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from attnexp.base import progress
from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import Protocol, RunConfig, TrainConfig, to_dict
from attnexp.model.classifier import (
    REFERENCE,
    Classifier,
    build_model,
    set_word_vectors,
    take_fast_path,
)
from attnexp.model.cost import of_model
from attnexp.model.init import named_seed
from attnexp.model.seams import Baseline
from attnexp.model.verify import check_pieces, explain
from attnexp.runs import predictions, store
from attnexp.runs.result import SCHEMA, EpochRow, RunResult
from attnexp.training import device
from attnexp.training.evaluate import examples_of
from attnexp.training.inputs import Inputs, read_inputs
from attnexp.training.loop import (
    Examples,
    batch_size_of,
    measure_epoch,
    predict,
    start,
    train_epoch,
)
from attnexp.training.metrics import measure
from attnexp.training.state import Measured, State, best_epoch, load_checkpoint

MACHINE = ("torch", "device", "threads", "path", "products")
"""Keys of provenance that move a result by rounding: a run resumes only where they are equal."""

on_device = functools.lru_cache(maxsize=2)(examples_of)
"""The runs of a sweep mostly share their data: keep the two splits that were used last."""


@dataclass(frozen=True, slots=True)
class Folder:
    """Folder of a run under way, and the provenance that its result will have."""

    path: Path
    provenance: dict[str, Any]

    def note(self, line: str) -> None:
        """Tell the user a line, and write it to `run.log`."""
        progress.note(line)
        self.log(line)

    def log(self, line: str) -> None:
        """Write a line to `run.log`."""
        store.append(self.path / store.LOG, line + "\n")


def train_run(
    config: RunConfig, *, overrides: Sequence[str] = (), again: bool = False
) -> tuple[Path, RunResult]:
    """Train what `config` says; return the run's folder and result.

    A run that has finished before is not repeated, unless `again`; then the old one stays until the
    new one is whole. One that was stopped goes on from its last epoch. overrides: the words that
    the config was composed of.

    Raises `UserError` for what the user can mend, `Busy` when another process is at this run, and
    `RunFailed` when the loss is no longer a number.
    """
    with device.keeping_threads():
        where = device.prepare(config.train)
        inputs = read_inputs(config)
        run_id = inputs.identify().run_id
        path = store.run_dir(config.out, run_id)
        if store.has_finished(path) and not again:
            progress.note("This run has finished before. To do it once more: --again.")
            return path, store.load(path)
        with store.lock(path):
            if store.has_finished(path) and not again:  # meanwhile, by another process
                return path, store.load(path)
            provenance = device.provenance(where) | {"overrides": [*overrides], "resumed": []}
            folder = Folder(store.create(path, config), provenance)
            try:
                folder.log(json.dumps(provenance))
                result = _train(inputs, where, folder)
                store.save(folder.path, result)
            except BaseException:
                with suppress(UserError):  # the log may be what cannot be written
                    folder.log(traceback.format_exc())
                raise
            return store.finalize(folder.path), result


def _train(inputs: Inputs, where: torch.device, folder: Folder) -> RunResult:
    """Train and test; write everything but the result."""
    started, config, dataset = time.perf_counter(), inputs.config, inputs.dataset
    num_classes, is_holdout = len(dataset.classes), config.train.protocol is Protocol.holdout
    test = on_device(dataset.test, where)
    own_val = None if dataset.val is None else on_device(dataset.val, where)
    train, val = split(config, on_device(dataset.train, where), test, own_val)
    torch.manual_seed(named_seed(config.seed_of("order"), "dropout"))  # what dropout draws from
    model = build_model(config, num_classes).to(where)
    if inputs.vectors is not None:
        assert isinstance(model, Classifier)  # a baseline takes no vectors
        found, number = 100 * inputs.vectors.coverage, len(inputs.vectors.found)
        folder.note(f"vectors: {found:.1f} % of {number:,} words found")
        set_word_vectors(model, inputs.vectors.rows, inputs.vectors.found)
    try:
        fit = _fit_baseline if isinstance(model, Baseline) else _train_network
        measured = fit(model, config.train, train, val, config.seed_of("order"), folder)
        predicted, logits = measured.predicted, measured.predicted[predictions.FINAL]
        if is_holdout:
            model.load_state_dict(measured.best_weights)
            logits = predicted[predictions.TEST] = predict(model, test, config.train.precision)
        _check_state(model, config, num_classes, test, logits)
    except (UserError, RunFailed):
        raise
    except Exception as error:
        if (explained := explain(error, model)) is not None:
            raise explained from error
        raise
    finally:
        gc.collect()  # a scheduler and its optimizer hold each other, and with them the weights
    predictions.save_weights(folder.path, model.state_dict())
    label = np.min_scalar_type(num_classes - 1)
    predicted[predictions.VAL_LABELS] = val.truth.astype(label)
    if is_holdout:
        predicted[predictions.TEST_LABELS] = test.truth.astype(label)
    predictions.save(folder.path / predictions.FILE, predicted)
    store.append(folder.path / store.VOCABULARY, "".join(f"{word}\n" for word in dataset.words))
    identity, epochs = inputs.identify(), measured.epochs
    return RunResult(
        schema=SCHEMA,
        run_id=identity.run_id,
        code=identity.code,
        seed=config.seed,
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
            "vocab_size": config.data.vocab_size,
            "vectors_coverage": inputs.vectors and inputs.vectors.coverage,
        },
        **of_model(model, config.data.max_len),
        epochs=epochs,
        best=epochs[best_epoch(epochs)],
        final=epochs[-1],
        test=measure(logits, test.truth),
        wall_seconds=measured.seconds_before + time.perf_counter() - started,
        provenance=folder.provenance,
    )


def split(
    config: RunConfig, train: Examples, test: Examples, own: Examples | None = None
) -> tuple[Examples, Examples]:
    """Train and validation. Under `protocol: blog` the test set validates; under `holdout` the
    validation split that the data set has of its own, if it is asked for, else a part of train."""
    if config.train.protocol is Protocol.blog:
        return train, test
    if own is not None:
        return train, own
    generator = torch.Generator().manual_seed(named_seed(config.seed_of("split"), "split"))
    rows = torch.randperm(len(train), generator=generator).to(train.device)
    num_val = round(len(train) * config.train.holdout)
    if not 0 < num_val < len(train):
        raise UserError(
            f"train.holdout={config.train.holdout} of {len(train)} texts leaves one part empty. "
            f"Give another share, or more texts."
        )
    return train[rows[num_val:]], train[rows[:num_val]]


def _train_network(
    model: nn.Module, config: TrainConfig, train: Examples, val: Examples, seed: int, folder: Folder
) -> Measured:
    """Train all epochs, from the checkpoint on where there is one. seed: of the order of texts."""
    started, provenance = time.perf_counter(), folder.provenance
    provenance["path"] = take_fast_path(model) if config.fast else REFERENCE
    check_pieces(model, train.ids[:2])
    state = start(model, train, config, torch.Generator().manual_seed(named_seed(seed, "order")))
    _resume(state, config, folder)
    measured, saved = state.measured, str(state)
    keep = model if config.protocol is Protocol.holdout else None
    try:
        while len(measured.epochs) < config.epochs and not _is_out_of_patience(measured, config):
            if state.epoch == len(measured.epochs):
                train_epoch(state, train, config)
                # before the evaluation, which may fail or be stopped
                state.save(
                    folder.path / store.CHECKPOINT,
                    machine={name: provenance[name] for name in MACHINE},
                    seconds=measured.seconds_before + time.perf_counter() - started,
                    resumed=[*provenance["resumed"], str(state)],
                )
                saved = str(state)
            row, logits = measure_epoch(model, train, val, config, state.epoch, state.running)
            measured.add(row, logits, val.truth, keep)
            store.append(folder.path / store.METRICS, json.dumps(asdict(row)) + "\n")
            folder.note(epoch_line(row, config.epochs))
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the same command goes on from {saved}.") from None
    return measured


def _is_out_of_patience(measured: Measured, config: TrainConfig) -> bool:
    """Whether the last `train.patience` epochs were no better than the best before them."""
    if config.patience is None or not measured.epochs:
        return False
    return len(measured.epochs) - 1 - best_epoch(measured.epochs) >= config.patience


def _resume(state: State, config: TrainConfig, folder: Folder) -> None:
    """Continue from the checkpoint of an earlier attempt, if there is one that fits."""
    provenance = folder.provenance
    try:
        saved = load_checkpoint(folder.path / store.CHECKPOINT)
        if saved is None:
            return
        now, then = {name: provenance[name] for name in MACHINE}, saved["machine"]
        if config.threads is None:  # torch may choose them, and rounding depends on them
            now["threads"] = then["threads"]
        if other := [f"{k} was {then[k]}, now {now[k]}" for k in now if now[k] != then[k]]:
            raise ValueError(", ".join(other))
    except ValueError as error:
        folder.note(f"The checkpoint of an earlier attempt is not used: {error}. Starts over.")
        return
    torch.set_num_threads(now["threads"])
    provenance |= {"threads": now["threads"], "resumed": saved["resumed"]}
    state.restore(saved)
    for row in state.measured.epochs:
        store.append(folder.path / store.METRICS, json.dumps(asdict(row)) + "\n")
    folder.note(f"goes on from {state}")


def _fit_baseline(
    model: Baseline, config: TrainConfig, train: Examples, val: Examples, seed: int, folder: Folder
) -> Measured:
    """Fit in one go, as an only epoch; its running mean is that of the fitted model on train."""
    started, measured = time.perf_counter(), Measured()
    model.fit(train.ids, train.labels)
    fitted = measure(predict(model, train, config.precision), train.truth)
    running = fitted.loss, fitted.accuracy, time.perf_counter() - started
    row, logits = measure_epoch(model, train, val, config, 1, running)
    measured.add(row, logits, val.truth, model if config.protocol is Protocol.holdout else None)
    store.append(folder.path / store.METRICS, json.dumps(asdict(row)) + "\n")
    folder.note(epoch_line(row, 1))
    return measured


def _check_state(
    model: nn.Module, config: RunConfig, num_classes: int, test: Examples, logits: Any
) -> None:
    """Raise `UserError` unless a model built anew from these weights gives these logits of test."""
    again = build_model(config, num_classes).to(test.device)
    if config.train.fast:
        take_fast_path(again)
    again.load_state_dict(model.state_dict())
    first = test[: batch_size_of(model, test)]
    found = predict(again, first, config.train.precision)
    if not np.allclose(found, logits[: len(first)], rtol=1e-3, atol=1e-3):
        raise UserError(
            "The model keeps state outside its parameters and buffers, or is random in evaluation: "
            "built anew from its weights it gives other logits. Keep such state by register_buffer."
        )


def epoch_line(row: EpochRow, num_epochs: int) -> str:
    """An epoch in one plain line of 80 columns, for logs and whoever waits."""
    shown = {
        "loss": row.train_loss,
        "acc": row.train_accuracy,
        "after": row.train_accuracy_after,
        "val_loss": row.val_loss,
        "val_acc": row.val_accuracy,
    }
    values = [f"{name} {value:.4f}" for name, value in shown.items() if value is not None]
    line = " ".join(values).replace(" 0.", " .")
    return f"epoch {row.epoch}/{num_epochs} {line} {row.examples_per_second:,.0f} texts/s"
