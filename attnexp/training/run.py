"""One run: `train_run(config)` trains, tests and leaves its folder behind.

Everything random has a stream of its own, named by the seed (weights, order, split, dropout), so
variants that share a seed see the same batches, in the same order, split the same way.
"""

import copy
import functools
import json
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from attnexp.base import progress
from attnexp.base.errors import Busy, RunFailed
from attnexp.config.schema import Protocol, RunConfig, TrainConfig, to_dict
from attnexp.data.quality import format_quality
from attnexp.model.classifier import REFERENCE, Classifier, set_word_vectors, take_fast_path
from attnexp.model.cost import of_model
from attnexp.model.seams import Baseline
from attnexp.runs import checkpoint, code, predictions, provenance, store
from attnexp.runs.arrays import under
from attnexp.runs.identity import Identity
from attnexp.runs.result import SCHEMA, EpochRow, RunResult
from attnexp.runs.weights import save_weights
from attnexp.training import device
from attnexp.training.evaluate import Logits, evaluate, examples_of, predict
from attnexp.training.inputs import Inputs, read_inputs
from attnexp.training.loop import (
    Examples,
    NotFinite,
    Tally,
    best_epoch,
    build,
    loss_of,
    shuffle_of,
    split,
    start,
    train_epoch,
)
from attnexp.training.metrics import measure, most_probable
from attnexp.training.state import State

on_device = functools.lru_cache(maxsize=2)(examples_of)
"""The runs of a sweep mostly share their data: keep the two splits that were trained on last."""

MACHINE = ("torch", "device", "threads", "path", "products")
"""Keys of provenance that move a result by rounding: a run resumes only where they are equal."""

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
    recorder: "Recorder"

    @property
    def config(self) -> RunConfig:
        """Config of the run."""
        return self.inputs.config

    @property
    def path(self) -> Path:
        """Folder of the run as it is now."""
        return self.recorder.path


@dataclass(kw_only=True, slots=True)
class Recorder:
    """What a run has measured so far, and the folder that keeps it."""

    path: Path
    identity: Identity
    provenance: dict[str, Any]
    note: Callable[[str], None]
    """Function that tells the user a line and writes it to `run.log`."""
    started: float = field(default_factory=time.perf_counter)
    epochs: list[EpochRow] = field(default_factory=list)
    predicted: dict[str, Any] = field(default_factory=dict)
    """Arrays of `predictions.safetensors`, by name."""
    weights: dict[str, Tensor] = field(default_factory=dict)
    """Weights of the model that will be tested."""

    def add(
        self, row: EpochRow, logits: Logits, val: Examples, model: nn.Module, config: RunConfig
    ) -> None:
        """Record an epoch: its metrics, the predictions on `val`, and, where this is the model that
        will be tested, its weights."""
        self.epochs.append(row)
        is_best = best_epoch([row.val_accuracy for row in self.epochs]) == len(self.epochs) - 1
        is_last = row.epoch == config.num_epochs
        if is_last if config.train.protocol is Protocol.blog else is_best:
            self.weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        if is_best:
            self.predicted[predictions.BEST] = logits
        self.predicted[predictions.FINAL] = logits
        right = most_probable(logits) == val.truth
        self.predicted[f"{predictions.CORRECT}{row.epoch}"] = predictions.pack(right)
        store.add_epoch(self.path, row)

    def save_checkpoint(self, state: State, where: torch.device) -> None:
        """Write everything that the rest of the run depends on."""
        tensors = {f"training.{name}": tensor for name, tensor in state.tensors(where).items()}
        tensors |= {f"weights.{name}": tensor for name, tensor in self.weights.items()}
        checkpoint.save(
            self.path,
            {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
            | {f"predicted.{name}": array for name, array in self.predicted.items()},
            {
                "made_by": self._made_by(),
                "code": self.identity.code,
                "at": str(state),
                "training": state.numbers(),
                "epochs": [asdict(row) for row in self.epochs],
                "seconds": time.perf_counter() - self.started,
                "resumed": self.provenance["resumed"],
            },
        )

    def resume(self, state: State, config: TrainConfig, where: torch.device) -> None:
        """Continue from the checkpoint, if there is one that this run could have written."""
        try:
            found = checkpoint.load(self.path)
            if found is None:
                self._note_other_code()
                return
            arrays, about = found
            now, then = self._made_by(), about["made_by"]
            if config.threads is None:  # torch may choose them, and rounding depends on them
                now["threads"] = then["threads"]
            for name in now:
                if now[name] != then[name]:
                    raise ValueError(f"{name} was {then[name]}, now {now[name]}")
        except ValueError as error:
            self.note(f"The checkpoint of an earlier attempt is not used: {error}. Starts over.")
            return
        torch.set_num_threads(now["threads"])
        self.provenance["threads"] = now["threads"]

        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        state.restore(under("training.", tensors), about["training"], where)
        self.weights = under("weights.", tensors)
        self.predicted = under("predicted.", arrays)
        self.epochs = [EpochRow(**row) for row in about["epochs"]]
        for row in self.epochs:
            store.add_epoch(self.path, row)
        self.started -= about["seconds"]
        self.provenance["resumed"] = [*about["resumed"], about["at"]]
        self.note(f"goes on from {state}")

    def _made_by(self) -> dict[str, Any]:
        """Run and machine, which must be equal for a checkpoint to be used."""
        machine = {name: self.provenance[name] for name in MACHINE}
        return {"run": self.identity.run_id, **machine}

    def _note_other_code(self) -> None:
        for folder in checkpoint.of_other_code(self.path.with_suffix("")):
            with suppress(ValueError):
                if found := checkpoint.load(folder):
                    _, about = found
                    names = ", ".join(code.changed(about["code"], self.identity.code))
                    self.note(f"{names} changed since {folder} came to {about['at']}. Starts over.")


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
    device.check_memory(config, where, len(dataset.train))
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
    """Train and finish an open run."""
    config, recorder, where = run.config, run.recorder, run.train.device
    model = build_on_device(run)
    if isinstance(model, Baseline):
        row, logits = fit_in_one_go(model, run.train, run.val, config.train)
        recorder.add(row, logits, run.val, model, config)
        recorder.note(epoch_line(row, config.num_epochs))
        return finish(run, model)
    recorder.provenance["path"] = take_fast_path(model) if config.train.fast else REFERENCE
    state = start(model, run.train, config.train, shuffle_of(config))
    recorder.resume(state, config.train, where)
    saved = str(state)
    try:
        for row, logits in fit(state, run.train, run.val, config.train):
            recorder.add(row, logits, run.val, model, config)
            if row.epoch < config.num_epochs:
                recorder.save_checkpoint(state, where)
                saved = str(state)
            recorder.note(epoch_line(row, config.num_epochs))
        return finish(run, model)
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
            raise RunFailed(f"{error} {_remedy(epoch, config)}") from error
        yield _measured(state.model, train, val, config, epoch, tally.mean(), started)


def fit_in_one_go(
    model: Baseline, train: Examples, val: Examples, config: TrainConfig
) -> tuple[EpochRow, Logits]:
    """As `fit`, in one epoch; the running mean is that of the fitted model on `train`."""
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
            "quality": dataset.quality,
            "vocab_size": config.data.vocab_size,
            "vectors_coverage": vectors.coverage if vectors else None,
        },
        **of_model(model, config.data.max_len),
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


def check_fast(config: RunConfig, num_steps: int = 10) -> tuple[str, float]:
    """The fast path of a model, and how far it is from the reference after training steps.

    Both paths train in float64 from the same weights, on the same batches, with the same dropout.
    Returns the name of the path and the largest difference of a logit or a weight.
    """
    prepared = prepare(config)
    train = on_device(prepared.inputs.dataset.train, torch.device("cpu"))
    reference = build(config, len(prepared.inputs.dataset.classes)).double()
    fast = copy.deepcopy(reference)
    path = take_fast_path(fast)
    rows = torch.randperm(len(train), generator=shuffle_of(config)).split(config.train.batch_size)
    apart = 0.0
    models = (reference, fast)
    optimizers = [torch.optim.Adam(model.parameters(), lr=config.train.lr) for model in models]
    for step in range(num_steps):
        batch, found = train[rows[step % len(rows)]], list[Tensor]()
        for model, optimizer in zip(models, optimizers, strict=True):
            torch.manual_seed(step)
            logits = model.train()(batch.ids)
            optimizer.zero_grad()
            loss_of(logits, batch.labels.double()).backward()
            optimizer.step()
            found += [logits.detach(), *(p.detach() for p in model.parameters())]
        half = len(found) // 2
        apart = max(apart, *_differences(found[:half], found[half:]))
    return path, apart


def _differences(one: Sequence[Tensor], other: Sequence[Tensor]) -> list[float]:
    return [(a - b).abs().max().item() for a, b in zip(one, other, strict=True)]


def epoch_line(row: EpochRow, num_epochs: int) -> str:
    """An epoch in one plain line of 80 columns, for logs and whoever waits."""
    figures: Mapping[str, float | None] = {
        "loss": row.train_loss,
        "acc": row.train_accuracy,
        "after": row.train_accuracy_after,
        "val_loss": row.val_loss,
        "val_acc": row.val_accuracy,
    }
    shown = [f"{name} {value:.4f}" for name, value in figures.items() if value is not None]
    line = " ".join(shown).replace(" 0.", " .")
    return f"epoch {row.epoch}/{num_epochs} {line} {row.examples_per_second:,.0f}/s"
