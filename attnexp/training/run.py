"""One run: `train_run(config)` trains, tests and leaves its folder behind.

Everything random has a stream of its own, named by the seed (weights, order, split, dropout), so
variants that share a seed see the same batches, in the same order, split the same way.
"""

import functools
import json
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
from attnexp.base.errors import Busy, UserError
from attnexp.config.schema import Protocol, RunConfig, to_dict
from attnexp.data import encode
from attnexp.data.quality import format_quality
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
from attnexp.runs import checkpoint, code, predictions, provenance, store
from attnexp.runs.arrays import under
from attnexp.runs.identity import Identity
from attnexp.runs.result import SCHEMA, EpochRow, RunResult
from attnexp.runs.weights import save_weights
from attnexp.training import device, interrupt
from attnexp.training.inputs import Inputs, read_inputs
from attnexp.training.loop import Examples, Logits, fit, fit_in_one_go, predict, start
from attnexp.training.metrics import measure
from attnexp.training.state import State

on_device = functools.lru_cache(maxsize=2)(Examples.of)
"""The runs of a sweep mostly share their data: keep the two splits that were trained on last."""

MACHINE = ("torch", "device", "threads", "path", "products")
"""Of provenance: what moves a result by rounding, so that a stopped run goes on to the bit without
a change of it."""


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
    weights: dict[str, Tensor] = field(default_factory=dict)
    """Of the model that will be tested."""

    @property
    def config(self) -> RunConfig:
        """What was asked for."""
        return self.inputs.config

    def build(self) -> nn.Module:
        """The model before training. Dropout goes on with torch's own stream from here."""
        vectors = self.inputs.vectors
        torch.manual_seed(named_seed(self.config.seed_of("order"), "dropout"))
        model = build_model(self.config, len(self.inputs.dataset.classes))
        if vectors is not None:
            assert isinstance(model, Classifier)  # a baseline takes no vectors
            self.say(
                f"vectors: {100 * vectors.coverage:.1f} % of {len(vectors.found):,} words found"
            )
            set_word_vectors(model, vectors.rows, vectors.found)
        self.provenance["path"] = take_fast_path(model) if self.config.train.fast else REFERENCE
        self.provenance["products"] = device.products()
        return model.to(self.train.device)

    def shuffle(self) -> torch.Generator:
        """What orders the reviews of every epoch."""
        return torch.Generator().manual_seed(named_seed(self.config.seed_of("order"), "order"))

    def add(self, row: EpochRow, logits: Logits, weights: Mapping[str, Tensor]) -> None:
        """Keep an epoch: its figures, what the model says of `val`, and, where it is the model that
        will be tested, its weights."""
        is_best = all(row.val_accuracy > earlier.val_accuracy for earlier in self.epochs)
        is_last = row.epoch == self.config.num_epochs
        if is_last if self.config.train.protocol is Protocol.blog else is_best:
            self.weights = {name: tensor.clone() for name, tensor in weights.items()}
        if is_best:
            self.predicted[predictions.BEST] = logits
        self.predicted[predictions.FINAL] = logits
        self.epochs.append(row)
        store.add_epoch(self.path, row)
        self.say(epoch_line(row, self.config.num_epochs))

    def save_checkpoint(self, state: State) -> None:
        """Write all that the rest of the run depends on."""
        tensors = {f"training.{name}": tensor for name, tensor in state.tensors().items()}
        tensors |= {f"weights.{name}": tensor for name, tensor in self.weights.items()}
        checkpoint.save(
            self.path,
            {name: tensor.cpu().numpy() for name, tensor in tensors.items()}
            | {f"predicted.{name}": logits for name, logits in self.predicted.items()},
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

    def resume(self, state: State) -> None:
        """Continue from the checkpoint, if there is one that this run could have written."""
        try:
            found = checkpoint.load(self.path)
            if found is None:
                self._tell_of_other_code()
                return
            arrays, about = found
            now, then = self._made_by(), about["made_by"]
            if self.config.train.threads is None:  # rounding depends on them
                now["threads"] = then["threads"]
            for name in now:
                if now[name] != then[name]:
                    raise ValueError(f"{name} was {then[name]}, now {now[name]}")
        except ValueError as error:
            self.say(f"The checkpoint of an earlier attempt is not used: {error}. Starts over.")
            return
        torch.set_num_threads(now["threads"])
        self.provenance["threads"] = now["threads"]

        tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
        state.restore(under("training.", tensors), about["training"])
        self.weights = under("weights.", tensors)
        self.predicted = under("predicted.", arrays)
        self.epochs = [EpochRow(**row) for row in about["epochs"]]
        for row in self.epochs:
            store.add_epoch(self.path, row)
        self.started -= about["seconds"]
        self.provenance["resumed"] = [*about["resumed"], about["at"]]
        self.say(f"goes on from {state}")

    def _made_by(self) -> dict[str, Any]:
        """What must be the same for the figures to be those of one undisturbed run."""
        machine = {name: self.provenance[name] for name in MACHINE}
        return {"run": self.identity.run_id, **machine}

    def _tell_of_other_code(self) -> None:
        for folder in checkpoint.of_other_code(self.path.with_suffix("")):
            with suppress(ValueError):
                if found := checkpoint.load(folder):
                    _, about = found
                    names = ", ".join(code.changed(about["code"], self.identity.code))
                    self.say(f"{names} changed since {folder} came to {about['at']}. Starts over.")

    def finish(self, model: nn.Module) -> RunResult:
        """Test the model whose weights were kept; write everything down, `result.json` last."""
        model.load_state_dict(self.weights)
        if self.config.train.protocol is Protocol.blog:  # the test set was the validation set
            logits = self.predicted[predictions.FINAL]
        else:
            logits = predict(model, self.test, self.config.train.precision)
            self.predicted[predictions.TEST] = logits
        save_weights(self.path, self.weights)
        config, dataset, vectors = self.config, self.inputs.dataset, self.inputs.vectors
        store.save_vocabulary(self.path, dataset.words)
        label = np.min_scalar_type(len(dataset.classes) - 1)
        truth = {predictions.VAL_LABELS: self.val.truth.astype(label)}
        if config.train.protocol is Protocol.holdout:
            truth[predictions.TEST_LABELS] = self.test.truth.astype(label)
        predictions.save(self.path, {**self.predicted, **truth})
        result = RunResult(
            schema=SCHEMA,
            run_id=self.identity.run_id,
            code=self.identity.code,
            seed=config.seed,
            config=to_dict(config),
            data={
                "name": config.data.title,
                "source": dataset.source,
                "fingerprint": dataset.fingerprint,
                "n_train": len(self.train),
                "n_val": len(self.val),
                "n_test": len(self.test),
                "classes": list(dataset.classes),
                "quality": dataset.quality,
                "vocab_size": config.data.vocab_size,
                "vectors_coverage": vectors.coverage if vectors else None,
            },
            **of_model(model, config.data.max_len),
            epochs=self.epochs,
            best=max(self.epochs, key=lambda row: row.val_accuracy),  # the earliest of equals
            final=self.epochs[-1],
            test=measure(logits, self.test.truth),
            wall_seconds=time.perf_counter() - self.started,
            peak_rss_bytes=device.peak_rss_bytes(),
            provenance=self.provenance,
            files=store.digests(self.path),
        )
        self.inputs.identify()  # refuses where code has changed since the start
        store.save(self.path, result)
        self.path = store.finalize(self.path)
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
    with store.lock(path):
        store.recover(path)
        if not again and store.has_finished(path):
            raise Busy("Another process has just finished this run.")
        train, val, test = _split(config, inputs.dataset, where)
        part = store.create(path, config, overrides)
        with store.log(part) as log:
            origin = provenance.collect(str(where), torch.get_num_threads())
            log(json.dumps(origin))
            log(format_quality(inputs.dataset.quality) or "no questions about the data")

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
        result = train(run)
        return run.path, result


def train(run: OpenRun) -> RunResult:
    """Train and finish an open run."""
    model, config = run.build(), run.config.train
    if isinstance(model, Baseline):
        for row, logits in fit_in_one_go(model, run.train, run.val, config):
            run.add(row, logits, model.state_dict())
        return run.finish(model)
    state = start(model, run.train, config, run.shuffle())
    run.resume(state)
    with interrupt.deferred():
        try:
            for row, logits in fit(state, run.train, run.val, config):
                run.add(row, logits, model.state_dict())
                if row.epoch < config.epochs:
                    run.save_checkpoint(state)
            return run.finish(model)
        except interrupt.Stopped:
            run.save_checkpoint(state)
            raise KeyboardInterrupt(f"the same command goes on from {state}.") from None


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
