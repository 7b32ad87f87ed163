"""One run: `train_run(config)` trains a model, tests it and writes its folder.

Everything random has a stream of its own, named by the seed (weights, order, split, dropout), so
variants that share a seed see the same batches, in the same order, split the same way."""

import time
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from attnexp.base import progress, reads
from attnexp.base.errors import UserError
from attnexp.base.files import writing
from attnexp.config.schema import Protocol, RunConfig, to_dict
from attnexp.config.settings import PIECES, flatten
from attnexp.model.init import named_seed
from attnexp.model.seams import Baseline
from attnexp.network.build import build_model, try_to_build
from attnexp.network.check import check_model
from attnexp.network.classifier import Classifier, FastPath
from attnexp.network.cost import count_parameters
from attnexp.network.fast import take_fast_path
from attnexp.network.guard import guard, seed_beside_torch
from attnexp.runs import predictions, store
from attnexp.runs.identity import Identity, identify
from attnexp.runs.labels import default_label, departures
from attnexp.runs.result import SCHEMA, RunResult
from attnexp.training import loop
from attnexp.training.adam import make_optimizer
from attnexp.training.device import commit_of, describe_provenance, prepare_device, restore_process
from attnexp.training.inputs import Inputs, Splits, describe_data, make_splits, read_inputs
from attnexp.training.loop import Examples
from attnexp.training.metrics import measure
from attnexp.training.state import Epoch, History, RunLog, State, best_row, resume, save_checkpoint


def train_run(config: RunConfig, *, again: bool = False) -> tuple[Path, RunResult]:
    """Train what `config` says; return the run's folder and result. A finished run is not repeated
    unless `again`, and keeps its result until the new one is there; a stopped one goes on.
    Random streams, threads and grad mode of the process stay as they were; what else user code
    changes in torch or in its own modules stays for the next run. Raises `UserError`, `Busy` while
    another process does this run, `RunFailed` for a loss that is not finite."""
    reads.begin_run()
    _note_named_files(config)
    with restore_process():
        try_to_build(config)
        if config.user_code and (stale := reads.change_since_import()):
            raise UserError(f"{stale} since it was imported. Restart the kernel.")
        device = prepare_device(config.train)
        inputs = read_inputs(config)
        identity = identify(config, inputs.fingerprint)
        place = store.run_dir(config.out, identity.run_id)
        # Wait a second: whoever asks `store.is_locked` holds the lock for a moment.
        with store.lock(place, wait=1), writing(place):
            folder, change = store.choose_folder(config.out, identity.run_id)
            if store.has_finished(folder) and not again:
                progress.note("This run has finished before. To do it once more: --again.")
                return folder, store.load_result(folder)
            if change:
                progress.note(f"{change} since this was trained. The new run: {folder}")
            store.create(folder, config)
            log = RunLog(folder=folder, num_epochs=config.train.epochs if config.is_network else 1)
            with log.keeping_errors():
                result = _train(config, inputs, identity, device, log)
            store.save_result(folder, result)
            return folder, result


def _train(
    config: RunConfig, inputs: Inputs, identity: Identity, device: torch.device, log: RunLog
) -> RunResult:
    """Train and test; write everything but the result."""
    tree = to_dict(config)
    provenance = describe_provenance(device)
    splits = make_splits(config, inputs.dataset, device)
    with guard(config.user_code):
        model = _make_model(config, inputs, log).to(device)
        if isinstance(model, Baseline):
            history = _fit_baseline(model, config, splits, log)
        else:
            path = FastPath.reference
            if config.train.fast:
                path = take_fast_path(model, config.train.precision)
            provenance["path"] = str(path)
            history = _train_network(model, config, splits, log)
        test_logits = _predict_test(model, config, splits, history)
        if config.user_code:
            _check_trained(model, config, inputs, splits.test)
            history.read_files |= reads.read_files(left_out=log.folder.parent)
            provenance["commit_of_user"] = commit_of(Path.cwd())
    _write_files(model, inputs, splits, history, log.folder)
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
        own_best=best_row(history.epochs),
        final=history.epochs[-1],
        test=measure(test_logits, splits.test.truth),
        wall_seconds=time.perf_counter() - log.started,
        provenance={**provenance, "resumed": history.resumed},
        read_files=history.read_files,
    )


def _predict_test(
    model: nn.Module, config: RunConfig, splits: Splits, history: History
) -> NDArray[np.float32]:
    """Logits for the test set, (n,) or (n, C). The model then has the chosen epoch, or the last."""
    if config.train.protocol is Protocol.blog:  # The test set validates.
        return history.predicted[predictions.FINAL].numpy()
    model.load_state_dict(history.best_weights)
    logits = loop.predict(model, splits.test, config.train.precision)
    history.predicted[predictions.TEST] = torch.from_numpy(logits)
    return logits


def _check_trained(model: nn.Module, config: RunConfig, inputs: Inputs, test: Examples) -> None:
    """Raise `UserError` where the trained model lacks what a model of user code must have."""
    sized = config.sized(inputs.dataset.vocab_size)
    num_classes = len(inputs.dataset.classes)
    untrained = build_model(sized, num_classes).to(test.ids.device)
    check_model(model, untrained, test.ids[:3], num_classes)


def _note_named_files(config: RunConfig) -> None:
    """Note files that settings of pieces name, but not word vectors: the fingerprint has those."""
    for key, value in flatten(to_dict(config)).items():
        section, _, _ = key.partition(".")
        if section in PIECES and key != "model.vectors" and isinstance(value, str):
            reads.add_file(value)  # C or Rust may open it, which Python does not see.


def _make_model(config: RunConfig, inputs: Inputs, log: RunLog) -> nn.Module:
    """The untrained model, with its pretrained vectors where it has some, and their share noted."""
    num_classes = len(inputs.dataset.classes)
    dropout_seed = named_seed(config.seed_of("order"), "dropout")
    torch.manual_seed(dropout_seed)
    model = build_model(config.sized(inputs.dataset.vocab_size), num_classes)
    # Dropout goes on from where this model, which is thrown away, leaves the stream: it has
    # `data.vocab_size` words whatever the data, and published runs drew so.
    torch.manual_seed(dropout_seed)
    build_model(config, num_classes)
    vectors = inputs.vectors
    if vectors is not None:
        assert isinstance(model, Classifier)  # No other model takes vectors.
        log.note(f"vectors: {vectors.coverage:.1%} of {len(vectors.in_file):,} words found")
        model.set_word_vectors(vectors.rows, vectors.in_file)
    return model


def _train_network(model: nn.Module, config: RunConfig, splits: Splits, log: RunLog) -> History:
    """Train and measure all epochs, from the checkpoint on where there is one."""
    options = config.train
    seed = config.seed_of("order")
    shuffle = torch.Generator().manual_seed(named_seed(seed, "order"))
    state = State(model=model, optimizer=make_optimizer(model, options), shuffle=shuffle)
    history = resume(state, log)
    saved_at = state.position
    try:
        while len(history.epochs) < options.epochs:
            # A run may have stopped between the checkpoint of an epoch and its measurement.
            if state.epoch.number == len(history.epochs):
                # User code, seeded in each epoch, draws the same numbers in a run that is resumed.
                seed_beside_torch(named_seed(seed, f"user's code, epoch {state.epoch.number}"))
                loop.train_epoch(state, splits.train, options)
                if config.user_code:
                    history.read_files |= reads.read_files(left_out=log.folder.parent)
                save_checkpoint(state, history, log)
                saved_at = state.position
            row, logits = loop.measure_epoch(model, state.epoch, splits.train, splits.val, options)
            history.add(row, logits, splits.val.truth, model)
            log.note_epoch(history.epochs)
            num_since_best = row.epoch - best_row(history.epochs).epoch
            if options.patience and num_since_best >= options.patience:
                break
    except KeyboardInterrupt:
        raise KeyboardInterrupt(f"the same command goes on from {saved_at}.") from None
    return history


def _fit_baseline(model: Baseline, config: RunConfig, splits: Splits, log: RunLog) -> History:
    """Fit in a single epoch, whose running means are those of the fitted model on train."""
    train = splits.train
    started = time.perf_counter()
    seed_beside_torch(named_seed(config.seed_of("order"), "user's code, epoch 0"))
    model.fit(train.ids.clone(), train.labels.clone())  # It may change them in place.
    train_logits = loop.predict(model, train, config.train.precision)
    fitted = measure(train_logits, train.truth)
    epoch = Epoch(1, fitted.loss, fitted.accuracy, time.perf_counter() - started)
    row, logits = loop.measure_epoch(model, epoch, train, splits.val, config.train)
    history = History()
    history.add(row, logits, splits.val.truth, model)
    log.note_epoch(history.epochs)
    return history


def _write_files(
    model: nn.Module, inputs: Inputs, splits: Splits, history: History, folder: Path
) -> None:
    """Write weights, predictions with the true labels, the vocabulary, and code of the user's."""
    arrays = {name: tensor.numpy() for name, tensor in history.predicted.items()}
    arrays[predictions.VAL_LABELS] = splits.val.truth.astype(np.uint16)
    if predictions.TEST in arrays:  # Otherwise the test set validates.
        arrays[predictions.TEST_LABELS] = splits.test.truth.astype(np.uint16)
    weights = {name: value.cpu().numpy() for name, value in model.state_dict().items()}
    predictions.save_arrays(folder / predictions.WEIGHTS, weights)
    predictions.save_arrays(folder / predictions.FILE, arrays)
    lines = [f"{word}\n" for word in inputs.dataset.words]
    vocabulary = folder / store.VOCABULARY
    vocabulary.write_bytes("".join(lines).encode())
    store.save_code(folder, reads.sources(history.read_files))
