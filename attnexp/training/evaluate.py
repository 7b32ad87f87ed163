"""Predictions and metrics of a model, during training and of a finished run."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config.compose import overlay
from attnexp.config.schema import DataConfig, Precision, RunConfig
from attnexp.config.trust import require_trust
from attnexp.data import encode
from attnexp.model.classifier import build_model, take_fast_path
from attnexp.runs import store
from attnexp.runs.arrays import load_weights
from attnexp.runs.result import Evaluation, Run
from attnexp.training import device
from attnexp.training.loop import (
    Examples,
    batch_size_of,
    build,
    loss_of,
    predict_batches,
    shuffle_of,
)
from attnexp.training.metrics import measure

Logits = NDArray[np.float32]
"""(n,) or (n, C): a prediction for each text."""

SETTINGS = (
    *("data.path", "data.text", "data.label", "data.limit_test"),
    *("train.device", "train.threads"),
)
"""Settings that may change for an evaluation; all others belong to the model."""
AS_IDS = ("max_len", "vocab_size", "truncate", "pad", "tokenizer")
"""Settings by which a run turned its texts into ids; other texts need the same."""


def predict(
    model: nn.Module, examples: Examples, precision: Precision, *, label: str = "evaluating"
) -> Logits:
    """Logits of every example, dropout off. label: what the progress bar says."""
    num_batches = -(-len(examples) // batch_size_of(examples.device))
    batches = predict_batches(model, examples, precision)
    tracked = progress.track(batches, total=num_batches, label=label)
    logits: Logits = torch.cat(list(tracked)).cpu().numpy()
    return logits


def evaluate(
    model: nn.Module, examples: Examples, precision: Precision, *, label: str = "evaluating"
) -> Evaluation:
    """Loss and accuracy of the model on all examples, dropout off."""
    return measure(predict(model, examples, precision, label=label), examples.truth)


def evaluate_run(
    run_dir: Path, words: Sequence[str] = (), *, trust_code: bool = False
) -> tuple[Evaluation, Evaluation]:
    """Stored test metrics of a run, and those measured now with its stored weights.

    On the machine and with the number of threads of the run they agree to the last bit. With
    `data.path` among the words other reviews are read, under the run's own vocabulary. Raises
    `NotTrusted` where the model is not attnexp's, without `trust_code`.
    """
    for word in words:
        if word.partition("=")[0] not in SETTINGS:
            raise UserError(f"evaluate takes only {', '.join(SETTINGS)}; got {word}.")
    run = Run(path=run_dir, result=store.load(run_dir))
    threads = f"train.threads={run.result.provenance['threads']}"
    config, model, test = load_trained(run, [threads, *words], trust_code=trust_code)
    if config.train.fast:
        take_fast_path(model)
    return run.result.test, evaluate(model, test, config.train.precision)


def load_trained(
    run: Run,
    words: Sequence[str],
    *,
    trust_code: bool,
    load: Callable[[DataConfig, int | None], encode.Dataset] = encode.load,
) -> tuple[RunConfig, nn.Module, Examples]:
    """Config, model and test set of a finished run, with some settings set anew.

    The model is on its device and computes by the reference path. load: `encode.load`, or what
    remembers it. Raises as `evaluate_run` does.
    """
    result = run.result
    elsewhere = any(word.startswith("data.path=") for word in words)
    if elsewhere:
        kept = {key: result.config["data"][key] for key in AS_IDS}
        result.config["data"] = {"name": "files", **kept}
    config = overlay(result.config, words)
    require_trust(result.config, trust_code)
    where = device.prepare(config.train)
    model = build_model(config, len(result.classes)).to(where)
    load_weights(run, model)  # which may be missing, so before the data are read
    if elsewhere:
        test = encode.load_test(config.data, store.load_vocabulary(run), result.classes)
    else:
        dataset = load(config.data, config.seeds.resample)
        if dataset.fingerprint != result.data["fingerprint"]:
            raise UserError(
                f"{dataset.source} has changed since this run (fingerprint {dataset.fingerprint}, "
                f"then {result.data['fingerprint']}). Give the reviews of then as data.path=."
            )
        test = dataset.test
    return config, model, examples_of(test, where)


def examples_of(encoded: encode.Encoded, where: torch.device) -> Examples:
    """A whole split on a device: 25,000 texts of 80 ids are 8 MB."""
    ids, labels = torch.from_numpy(encoded.ids), torch.from_numpy(encoded.labels)
    return Examples(ids.to(where), labels.to(where, torch.float32))


def check_fast(config: RunConfig, num_steps: int = 10) -> tuple[str, float]:
    """The fast path of a config's model, and its distance from the reference path.

    Both train in float64 on the CPU, from the same weights, on the same batches, with the same
    dropout. Returns the name of the path and the largest difference of any logit or weight.
    """
    dataset = encode.load(config.data, config.seeds.resample)
    train = examples_of(dataset.train, torch.device("cpu"))
    reference = build(config, len(dataset.classes)).double()
    fast = copy.deepcopy(reference)
    path = take_fast_path(fast)
    optimizers = [torch.optim.Adam(m.parameters(), lr=config.train.lr) for m in (reference, fast)]
    batches = torch.randperm(len(train), generator=shuffle_of(config)).split(
        config.train.batch_size
    )
    largest = 0.0
    for step in range(num_steps):
        batch, found = train[batches[step % len(batches)]], []
        for model, optimizer in zip((reference, fast), optimizers, strict=True):
            torch.manual_seed(step)  # of dropout
            logits = model.train()(batch.ids)
            optimizer.zero_grad()
            loss_of(logits, batch.labels.double()).backward()
            optimizer.step()
            found.append([logits, *model.parameters()])
        pairs = zip(*found, strict=True)
        largest = max(largest, *((one - other).abs().max().item() for one, other in pairs))
    return path, largest
