"""One run: `train_run(config)` trains, tests and leaves its folder behind.

Everything random has a stream of its own, named by the seed (weights, order, split, dropout), so
variants that share a seed see the same batches, in the same order, split the same way.
"""

import functools
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import torch

from attnexp import progress
from attnexp.config.schema import Protocol, RunConfig, to_dict
from attnexp.data import encode
from attnexp.data.vectors import Vectors, load_vectors
from attnexp.errors import Busy, UserError
from attnexp.model.classifier import build_model, set_word_vectors
from attnexp.model.cost import count_flops, count_parameters
from attnexp.model.init import named_seed
from attnexp.runs import arrays, identity, predictions, provenance, store
from attnexp.runs.result import SCHEMA, EpochRow, Evaluation, RunResult
from attnexp.runs.weights import WEIGHTS, load_weights, save_weights
from attnexp.training import device
from attnexp.training.loop import Examples, Logits, fit, predict
from attnexp.training.metrics import measure
from attnexp.training.tfidf import fit_tfidf

Splits = tuple[Examples, Examples, Examples]
"""Train, validation and test."""

load_data = functools.lru_cache(maxsize=1)(encode.load)
"""The runs of a sweep mostly share their data: keep the last one read."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trained:
    """What training gives, whatever was trained; the weights are on disk."""

    epochs: list[EpochRow]
    test: Evaluation
    predicted: dict[str, Logits]
    """See `predictions`."""
    parameters: int
    flops_per_example: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Prepared:
    """A run with everything it reads, which decides its id."""

    config: RunConfig
    dataset: encode.Dataset
    vectors: Vectors | None

    @property
    def run_id(self) -> str:
        """See `runs.run_id`."""
        read = self.vectors.fingerprint if self.vectors else ""
        return identity.run_id(self.config, self.dataset.fingerprint + read)


def prepare(config: RunConfig) -> Prepared:
    """Read what a run needs. Raises `UserError` where that is not to be had."""
    dataset = load_data(config.data)
    return Prepared(config=config, dataset=dataset, vectors=_vectors(config, dataset))


def train_run(
    config: RunConfig,
    *,
    folder: str = "runs",
    label: str = "",
    order: int = 0,
    overrides: Sequence[str] = (),
    again: bool = True,
) -> tuple[Path, RunResult]:
    """Train what `config` says; return the run's folder and result.

    folder, label, order: see `runs.run_dir` and `RunResult`. again: also where this very run has
    finished before. Raises `UserError` for what the user can mend, `Busy` when another process is
    at this run or (unless `again`) has done it, `RunFailed` when the loss is no longer a number.
    """
    where = device.prepare(config.train)
    prepared = prepare(config)
    label = label or identity.default_label(config)
    run_dir = store.run_dir(config, prepared.run_id, folder=folder, label=label)
    with store.claim(run_dir.parent, prepared.run_id):
        if not again and store.find_finished(run_dir.parent, prepared.run_id):
            raise Busy("Another process has just finished this run.")
        result = replace(_train(prepared, where, run_dir, overrides), label=label, order=order)
        store.save(run_dir, result)
    return run_dir, result


def _train(
    prepared: Prepared, where: torch.device, run_dir: Path, overrides: Sequence[str]
) -> RunResult:
    """Everything but the name: label and order are the sweep's."""
    config, dataset, vectors = prepared.config, prepared.dataset, prepared.vectors
    started = time.perf_counter()
    origin = provenance.collect(str(where), torch.get_num_threads())
    splits = _split(config, dataset, where)
    store.create(run_dir, config, overrides)
    with store.log(run_dir) as log:
        log(json.dumps(origin))

        def say(line: str) -> None:
            progress.note(line)
            log(line)

        if not config.is_network:
            trained = _fit_tfidf(config, splits, run_dir, say)
        else:
            trained = _train_network(config, splits, vectors, run_dir, say)
        log(f"test: {asdict(trained.test)}")

    store.save_vocabulary(run_dir, dataset.words)
    truth = {predictions.VAL_LABELS: splits[1].truth.astype(np.uint8)}
    if config.train.protocol is Protocol.holdout:
        truth[predictions.TEST_LABELS] = splits[2].truth.astype(np.uint8)
    predictions.save(run_dir, {**trained.predicted, **truth})
    return RunResult(
        schema=SCHEMA,
        run_id=prepared.run_id,
        label="",
        order=0,
        seed=config.seed,
        config=to_dict(config),
        data={
            "name": str(config.data.name),
            "source": dataset.source,
            "fingerprint": dataset.fingerprint,
            "n_train": len(splits[0]),
            "n_val": len(splits[1]),
            "n_test": len(splits[2]),
            "vocab_size": config.data.vocab_size,
            "vectors_coverage": vectors.coverage if vectors else None,
        },
        parameters=trained.parameters,
        flops_per_example=trained.flops_per_example,
        epochs=trained.epochs,
        best=max(trained.epochs, key=lambda row: row.val_accuracy),  # the earliest of equals
        final=trained.epochs[-1],
        test=trained.test,
        wall_seconds=time.perf_counter() - started,
        peak_rss_bytes=device.peak_rss_bytes(),
        provenance=origin,
    )


def _train_network(
    config: RunConfig,
    splits: Splits,
    vectors: Vectors | None,
    run_dir: Path,
    say: Callable[[str], None],
) -> Trained:
    train, val, test = splits
    torch.manual_seed(named_seed(config.seed_of("order"), "dropout"))
    model = build_model(config)
    if vectors is not None:
        say(f"vectors: {100 * vectors.coverage:.1f} % of {len(vectors.found):,} words found")
        set_word_vectors(model, vectors.rows, vectors.found)
    model.to(train.device)
    epochs: list[EpochRow] = []
    predicted: dict[str, Logits] = {}
    shuffle = torch.Generator().manual_seed(named_seed(config.seed_of("order"), "order"))
    for row, logits in fit(model, train, val, config.train, shuffle):
        is_best = all(row.val_accuracy > earlier.val_accuracy for earlier in epochs)
        if is_best or config.train.protocol is Protocol.blog:
            save_weights(run_dir, model)
        if is_best:
            predicted[predictions.BEST] = logits
        predicted[predictions.FINAL] = logits
        epochs.append(row)
        store.add_epoch(run_dir, row)
        say(epoch_line(row, config.train.epochs))
    if config.train.protocol is Protocol.blog:
        test_logits = logits  # the test set was the validation set all along
    else:
        load_weights(run_dir, model)
        test_logits = predict(model, test, config.train.precision)
        predicted[predictions.TEST] = test_logits
    return Trained(
        epochs=epochs,
        test=measure(test_logits, test.truth),
        predicted=predicted,
        parameters=count_parameters(model),
        flops_per_example=count_flops(model, test[:1].ids),
    )


def _fit_tfidf(
    config: RunConfig, splits: Splits, run_dir: Path, say: Callable[[str], None]
) -> Trained:
    """One fit, shown as one epoch; there is nothing running to take a mean over."""
    started = time.perf_counter()
    (ids, labels), (val_ids, val_labels), (test_ids, test_labels) = (
        (part.ids.cpu().numpy(), part.labels.cpu().numpy()) for part in splits
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
    arrays.save(run_dir / WEIGHTS, model.to_arrays())
    store.add_epoch(run_dir, row)
    say(epoch_line(row, 1))
    predicted = {predictions.BEST: val_logits, predictions.FINAL: val_logits}
    if config.train.protocol is Protocol.holdout:
        predicted[predictions.TEST] = model.logits(test_ids).astype(np.float32)
    return Trained(
        epochs=[row],
        test=model.evaluate(test_ids, test_labels),
        predicted=predicted,
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


def _split(config: RunConfig, dataset: encode.Dataset, where: torch.device) -> Splits:
    """Train, validation and test. Under `protocol: blog` the last two are one."""
    train, test = (Examples.of(part, where) for part in (dataset.train, dataset.test))
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
    return load_vectors(
        config.model.vectors, dataset.words, config.model.d_model, cache=encode.cache_dir()
    )
