"""One run: `train_run(config)` trains, tests and leaves its folder behind.

Everything random has a stream of its own, named by the seed (weights, order, split, dropout), so
variants that share a seed see the same batches, in the same order, split the same way.
"""

import functools
import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from attnexp import progress
from attnexp.config.schema import DataConfig, Protocol, RunConfig, to_dict
from attnexp.data import encode
from attnexp.data.quality import in_words
from attnexp.data.vectors import Vectors, load_vectors
from attnexp.errors import Busy, UserError
from attnexp.model.classifier import Classifier, build_model, set_word_vectors
from attnexp.model.cost import count_flops, count_parameters
from attnexp.model.init import named_seed
from attnexp.runs import arrays, code, predictions, provenance, store
from attnexp.runs.identity import Identity, identify
from attnexp.runs.result import SCHEMA, EpochRow, Evaluation, RunResult
from attnexp.runs.weights import WEIGHTS, load_weights, save_weights
from attnexp.training import device
from attnexp.training.loop import Examples, Logits, fit, predict
from attnexp.training.metrics import measure
from attnexp.training.tfidf import fit_tfidf

on_device = functools.lru_cache(maxsize=2)(Examples.of)
"""Likewise its two splits where they are trained on."""


@functools.lru_cache(maxsize=1)
def load_data(config: DataConfig) -> encode.Dataset:
    """The data, with what should be questioned in them told once.

    The runs of a sweep mostly share their data: the last one read is kept.
    """
    dataset = encode.load(config)
    if told := in_words(dataset.quality):
        progress.note(told)
    return dataset


@dataclass(frozen=True, kw_only=True, slots=True)
class Inputs:
    """A run with everything it reads, which decides its id."""

    config: RunConfig
    dataset: encode.Dataset
    vectors: Vectors | None

    @property
    def fingerprint(self) -> str:
        """Of the content of all that is read."""
        return self.dataset.fingerprint + (self.vectors.fingerprint if self.vectors else "")

    def identify(self) -> Identity:
        """What the run is, by the code as it is on disk now."""
        code.read_again()
        return identify(self.config, self.fingerprint)


def read_inputs(config: RunConfig) -> Inputs:
    """Read what a run needs. Raises `UserError` where that is not to be had."""
    dataset = load_data(config.data)
    return Inputs(config=config, dataset=dataset, vectors=_vectors(config, dataset))


@dataclass(kw_only=True, slots=True)
class OpenRun:
    """A run under way: what it reads, what it has measured so far, and the folder that keeps it."""

    inputs: Inputs
    identity: Identity
    path: Path
    train: Examples
    val: Examples
    test: Examples
    """Under `protocol: blog` this is `val`."""
    provenance: dict[str, Any]
    say: Callable[[str], None]
    """Tell the user and `run.log`."""
    started: float = field(default_factory=time.perf_counter)
    epochs: list[EpochRow] = field(default_factory=list)
    predicted: dict[str, Logits] = field(default_factory=dict)
    """See `predictions`."""

    @property
    def config(self) -> RunConfig:
        """What was asked for."""
        return self.inputs.config

    def build(self) -> Classifier:
        """The model before training. Dropout goes on with torch's own stream from here."""
        vectors = self.inputs.vectors
        torch.manual_seed(named_seed(self.config.seed_of("order"), "dropout"))
        model = build_model(self.config)
        if vectors is not None:
            self.say(
                f"vectors: {100 * vectors.coverage:.1f} % of {len(vectors.found):,} words found"
            )
            set_word_vectors(model, vectors.rows, vectors.found)
        return model.to(self.train.device)

    def shuffle(self) -> torch.Generator:
        """What orders the reviews of every epoch."""
        return torch.Generator().manual_seed(named_seed(self.config.seed_of("order"), "order"))

    def add(self, row: EpochRow, logits: Logits, weights: Mapping[str, Tensor]) -> None:
        """Keep an epoch: its figures, what the model says of `val`, and, where it is the model that
        will be tested, its weights."""
        is_best = all(row.val_accuracy > earlier.val_accuracy for earlier in self.epochs)
        is_last = row.epoch == self.config.train.epochs
        if is_last if self.config.train.protocol is Protocol.blog else is_best:
            save_weights(self.path, weights)
        if is_best:
            self.predicted[predictions.BEST] = logits
        self.predicted[predictions.FINAL] = logits
        self.epochs.append(row)
        store.add_epoch(self.path, row)
        self.say(epoch_line(row, self.config.train.epochs))

    def finish(self, model: Classifier) -> RunResult:
        """Test the network whose weights were kept, and write everything down."""
        load_weights(self.path, model)
        if self.config.train.protocol is Protocol.blog:  # the test set was the validation set
            logits = self.predicted[predictions.FINAL]
        else:
            logits = predict(model, self.test, self.config.train.precision)
            self.predicted[predictions.TEST] = logits
        return self.save(
            measure(logits, self.test.truth),
            parameters=count_parameters(model),
            flops_per_example=count_flops(model, self.test[:1].ids),
        )

    def save(self, test: Evaluation, *, parameters: int, flops_per_example: int) -> RunResult:
        """Write what belongs to a finished run; `result.json` comes last."""
        config, dataset, vectors = self.config, self.inputs.dataset, self.inputs.vectors
        store.save_vocabulary(self.path, dataset.words)
        truth = {predictions.VAL_LABELS: self.val.truth.astype(np.uint8)}
        if config.train.protocol is Protocol.holdout:
            truth[predictions.TEST_LABELS] = self.test.truth.astype(np.uint8)
        predictions.save(self.path, {**self.predicted, **truth})
        result = RunResult(
            schema=SCHEMA,
            run_id=self.identity.run_id,
            code=self.identity.code,
            seed=config.seed,
            config=to_dict(config),
            data={
                "name": str(config.data.name),
                "source": dataset.source,
                "fingerprint": dataset.fingerprint,
                "n_train": len(self.train),
                "n_val": len(self.val),
                "n_test": len(self.test),
                "quality": dataset.quality,
                "vocab_size": config.data.vocab_size,
                "vectors_coverage": vectors.coverage if vectors else None,
            },
            parameters=parameters,
            flops_per_example=flops_per_example,
            epochs=self.epochs,
            best=max(self.epochs, key=lambda row: row.val_accuracy),  # the earliest of equals
            final=self.epochs[-1],
            test=test,
            wall_seconds=time.perf_counter() - self.started,
            peak_rss_bytes=device.peak_rss_bytes(),
            provenance=self.provenance,
        )
        self.inputs.identify()  # refuses where code has changed since the start
        store.save(self.path, result)
        self.path = store.publish(self.path)
        return result


@contextmanager
def open_run(
    config: RunConfig,
    *,
    overrides: Sequence[str] = (),
    planned: Identity | None = None,
    again: bool = False,
) -> Iterator[OpenRun]:
    """A run under way, which is nobody else's meanwhile.

    overrides: the words that `config` was composed of. planned: what the run must be. again: also
    where it has finished before. Raises `UserError` for what the user can mend, `Busy` when another
    process is at this run or (unless `again`) has done it, `RunFailed` when it is not as planned.
    """
    where = device.prepare(config.train)
    inputs = read_inputs(config)
    device.check_memory(config, where, len(inputs.dataset.train))
    identity = inputs.identify()
    if planned is not None:
        identity.expect(planned)
    path = store.run_dir(config.out, identity.run_id)
    with store.claim(path):
        store.recover(path)
        if not again and store.has_finished(path):
            raise Busy("Another process has just finished this run.")
        train, val, test = _split(config, inputs.dataset, where)
        part = store.create(path, config, overrides)
        with store.log(part) as log:
            origin = provenance.collect(str(where), torch.get_num_threads())
            log(json.dumps(origin))
            log(in_words(inputs.dataset.quality) or "no questions about the data")

            def say(line: str) -> None:
                progress.note(line)
                log(line)

            yield OpenRun(
                inputs=inputs,
                identity=identity,
                path=part,
                train=train,
                val=val,
                test=test,
                provenance=origin,
                say=say,
            )


def train_run(
    config: RunConfig, *, overrides: Sequence[str] = (), again: bool = False
) -> tuple[Path, RunResult]:
    """Train what `config` says; return the run's folder and result.

    A run that has finished before is not repeated, unless `again`; then the old one stays until the
    new one is whole. Raises what `open_run` raises, and `RunFailed` when the loss is no longer a
    number.
    """
    device.prepare(config.train)  # a device that is not there is told before data are looked for
    identity = read_inputs(config).identify()
    path = store.run_dir(config.out, identity.run_id)
    if store.has_finished(path) and not again:
        progress.note("This run has finished before. To do it once more: --again.")
        return path, store.load(path)
    for reason in store.outdated(config.out, [identity]):
        progress.note(reason)
    with open_run(config, overrides=overrides, again=again) as run:
        result = work_through(run)
        return run.path, result


def work_through(run: OpenRun) -> RunResult:
    """Train and finish an open run."""
    if not run.config.is_network:
        return _fit_tfidf(run)
    model = run.build()
    for row, logits in fit(model, run.train, run.val, run.config.train, run.shuffle()):
        run.add(row, logits, model.state_dict())
    return run.finish(model)


def _fit_tfidf(run: OpenRun) -> RunResult:
    """One fit, shown as one epoch; there is nothing running to take a mean over."""
    config = run.config
    started = time.perf_counter()
    (ids, labels), (val_ids, val_labels), (test_ids, test_labels) = (
        (part.ids.cpu().numpy(), part.labels.cpu().numpy())
        for part in (run.train, run.val, run.test)
    )
    model = fit_tfidf(ids, labels, vocab_size=config.data.vocab_size)
    val_logits = model.logits(val_ids).astype(np.float32)
    fitted, validated = model.evaluate(ids, labels), measure(val_logits, val_labels)
    seconds = time.perf_counter() - started
    row = EpochRow(
        epoch=1,
        train_loss=fitted.loss,
        train_accuracy=fitted.accuracy,
        train_loss_after=fitted.loss if config.train.measure_train else None,
        train_accuracy_after=fitted.accuracy if config.train.measure_train else None,
        val_loss=validated.loss,
        val_accuracy=validated.accuracy,
        val_brier=validated.brier,
        val_ece=validated.ece,
        seconds=seconds,
        examples_per_second=len(ids) / seconds,
    )
    arrays.save(run.path / WEIGHTS, model.to_arrays())
    run.epochs = [row]
    run.predicted = {predictions.BEST: val_logits, predictions.FINAL: val_logits}
    store.add_epoch(run.path, row)
    run.say(epoch_line(row, 1))
    if config.train.protocol is Protocol.holdout:
        run.predicted[predictions.TEST] = model.logits(test_ids).astype(np.float32)
    return run.save(
        model.evaluate(test_ids, test_labels),
        parameters=model.parameters,
        flops_per_example=2 * config.data.max_len,  # a product for each word, at most
    )


def epoch_line(row: EpochRow, num_epochs: int) -> str:
    """An epoch in one plain line of 80 columns, for logs and whoever waits."""
    figures = {
        "loss": row.train_loss,
        "acc": row.train_accuracy,
        "after": row.train_accuracy_after,
        "val_loss": row.val_loss,
        "val_acc": row.val_accuracy,
    }
    shown = [f"{name} {value:.4f}" for name, value in figures.items() if value is not None]
    line = " ".join(shown).replace(" 0.", " .")
    return f"epoch {row.epoch}/{num_epochs} {line} {row.examples_per_second:,.0f}/s"


def _split(
    config: RunConfig, dataset: encode.Dataset, where: torch.device
) -> tuple[Examples, Examples, Examples]:
    """Train, validation and test. Under `protocol: blog` the last two are one."""
    train, test = (on_device(part, where) for part in (dataset.train, dataset.test))
    if config.train.protocol is Protocol.blog:
        return train, test, test
    generator = torch.Generator().manual_seed(named_seed(config.seed_of("split"), "split"))
    rows = torch.randperm(len(train), generator=generator).to(where)
    num_val = round(len(train) * config.train.holdout)
    if not 0 < num_val < len(train):
        raise UserError(
            f"train.holdout={config.train.holdout} of {len(train)} reviews leaves one part empty. "
            f"Give another share, or more reviews."
        )
    return train[rows[num_val:]], train[rows[:num_val]], test


def _vectors(config: RunConfig, dataset: encode.Dataset) -> Vectors | None:
    if not config.is_network or config.model.vectors is None:
        return None
    return load_vectors(config.model.vectors, dataset.words, config.model.d_model)
