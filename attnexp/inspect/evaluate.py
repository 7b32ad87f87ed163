"""Finished runs measured again, from their stored weights."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import from_numpy, nn

from attnexp.base import digests
from attnexp.base.errors import UserError
from attnexp.base.files import reading
from attnexp.config.compose import overlay
from attnexp.config.schema import RunConfig
from attnexp.data import encode
from attnexp.data.text import to_text
from attnexp.network.build import build_model
from attnexp.network.fast import take_fast_path
from attnexp.runs import predictions, store
from attnexp.runs.find import load_run
from attnexp.runs.result import Evaluation, Run
from attnexp.training.device import prepare_device, restore_process
from attnexp.training.inputs import on_device
from attnexp.training.loop import Examples, predict
from attnexp.training.metrics import log_probabilities, measure

if TYPE_CHECKING:
    import pandas as pd

SETTINGS = """data.path data.header data.quotes data.text data.label data.limit_test train.device
train.threads""".split()
"""Settings that may change for an evaluation; all others belong to the model."""
AS_IDS = ("max_len", "vocab_size", "truncate", "pad", "tokenizer")
"""Settings by which a run turned its texts into ids; other texts need the same."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A finished run, its test set or other texts, and what its model says of each now."""

    run: Run
    test: Examples
    logits: NDArray[Any]  # (n,) or (n, C)
    metrics: Evaluation  # of all texts together


def measure_again(
    path: Path, overrides: Sequence[str] = (), *, trust_code: bool = False, any_code: bool = False
) -> Measured:
    """The test set measured with a run's stored weights: metrics agree with the stored ones to the
    last bit on its machine. With `data.path` among the overrides other texts are read, under the
    run's vocabulary. Raises `UserError` for overrides outside `SETTINGS`, and as `load_trained`."""
    for override in overrides:
        key, _, _ = override.partition("=")
        if key not in SETTINGS:
            raise UserError(f"evaluate takes only {', '.join(SETTINGS)}; got {override}.")
    run = load_run(path)
    words = [f"train.threads={run.result.provenance['threads']}", *overrides]
    with restore_process():
        config, model, test = load_trained(run, words, trust_code=trust_code, any_code=any_code)
        if config.train.fast:
            take_fast_path(model, config.train.precision)
        logits = predict(model, test, config.train.precision)
    metrics = measure(logits, test.truth)
    return Measured(run=run, test=test, logits=logits, metrics=metrics)


def list_errors(measured: Measured) -> "pd.DataFrame":
    """The texts that a model gets wrong: row (from 1, in the order of the test set), text (its
    known words), label, predicted class and its probability."""
    import pandas as pd

    vocabulary = store.load_vocabulary(measured.run)
    classes = np.array(measured.run.result.classes, dtype=object)
    predicted = predictions.most_probable(measured.logits).astype(int)
    truth = measured.test.truth.astype(int)
    wrong = np.flatnonzero(predicted != truth)
    texts = measured.test.ids.cpu().numpy()[wrong]
    log_p = log_probabilities(measured.logits[wrong])
    return pd.DataFrame(
        {
            "row": wrong + 1,
            "text": [to_text(text, vocabulary) for text in texts],
            "label": classes[truth[wrong]],
            "predicted": classes[predicted[wrong]],
            "probability": np.exp(log_p.max(axis=1)),
        }
    )


def load_trained(
    run: Run, overrides: Sequence[str], *, trust_code: bool = False, any_code: bool = False
) -> tuple[RunConfig, nn.Module, Examples]:
    """Config, model and test set of a finished run, with some settings set anew. The model is on
    its device and computes by the reference path. Raises `UserError` for code that is not
    trusted, for code or data that have changed since, and for weights that do not fit."""
    config = load_config(run, overrides, trust_code=trust_code, any_code=any_code)
    device = prepare_device(config.train)
    model = build_model(config, len(run.result.classes)).to(device)
    load_weights(run, model)
    if _has_other_texts(overrides):
        test = encode.load_test(config.data, store.load_vocabulary(run), run.result.classes)
    else:
        dataset = encode.load_once(config.data, config.seeds.resample)
        test = dataset.test
        if dataset.fingerprint != run.result.data["fingerprint"]:
            changed = f"{dataset.source} has changed since this run."
            raise UserError(f"{changed} Give the texts of then as data.path=.")
    return config, model, on_device(test, device)


def load_config(
    run: Run, overrides: Sequence[str] = (), *, trust_code: bool, any_code: bool
) -> RunConfig:
    """The config of a finished run, with the size of its vocabulary and some settings set anew.
    Raises `UserError` for foreign code without `trust_code`, and changed without `any_code`."""
    tree = dict(run.result.config)
    if _has_other_texts(overrides):  # Of its data only what turns texts into ids stays.
        tree["data"] = {key: tree["data"][key] for key in AS_IDS} | {"name": "files"}
    config = overlay(tree, overrides, trust_code=trust_code)
    change = digests.change_since(run.result.read_files)
    if change and not any_code:
        raise UserError(
            f"{change} since {run.path} was trained, which kept its code in its folder "
            f"{store.CODE}. Train again, or add --any-code to take the code of today."
        )
    return config.sized(run.result.data.get("vocab_size", config.data.vocab_size))


def _has_other_texts(overrides: Sequence[str]) -> bool:
    return any(override.startswith("data.path=") for override in overrides)


def load_weights(run: Run, model: nn.Module) -> None:
    """Fill the model from a finished run. Raises `UserError` if its weights do not fit."""
    weights = predictions.load_arrays(run, predictions.WEIGHTS)
    with reading(run.path / predictions.WEIGHTS, "Train again."):
        model.load_state_dict({name: from_numpy(array) for name, array in weights.items()})
