"""Finished runs measured again, from their stored weights."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np  # before torch, which swallows a Ctrl-C in this import
from numpy.typing import NDArray
from torch import from_numpy, nn

from attnexp.base.errors import UserError
from attnexp.config.schema import RunConfig
from attnexp.data import encode
from attnexp.data.text import to_text
from attnexp.network.build import build_model
from attnexp.runs import predictions, store
from attnexp.runs.identity import load_config
from attnexp.runs.result import Evaluation, Run
from attnexp.training import device
from attnexp.training.loop import Examples, predict
from attnexp.training.metrics import measure
from attnexp.training.run import load_data, on_device

if TYPE_CHECKING:
    import pandas as pd

SETTINGS = """data.path data.header data.text data.label data.limit_test train.device
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

    @property
    def metrics(self) -> Evaluation:
        """Metrics of all texts together."""
        return measure(self.logits, self.test.truth)


def measure_again(
    run_dir: Path, words: Sequence[str] = (), *, trust_code: bool = False, any_code: bool = False
) -> Measured:
    """The test set measured with the stored weights of a run: the metrics agree with the stored
    ones to the last bit on the machine of the run. With `data.path` among the words other texts are
    read, under the run's own vocabulary. Raises `UserError` as `load_config` does."""
    for word in words:
        key, _, _ = word.partition("=")
        if key not in SETTINGS:
            raise UserError(f"evaluate takes only {', '.join(SETTINGS)}; got {word}.")
    run = Run(path=run_dir, result=store.load_result(run_dir))
    threads = f"train.threads={run.result.provenance['threads']}"
    with device.restore_process():
        config, model, test = load_trained(
            run, [threads, *words], trust_code=trust_code, any_code=any_code
        )
        device.choose_path(model, config.train)
        logits = predict(model, test, config.train.precision)
    return Measured(run=run, test=test, logits=logits)


def list_errors(measured: Measured) -> "pd.DataFrame":
    """The texts that a model gets wrong: row (from 1, in the order of the test set), text (its
    known words, as the model reads them), label, predicted and the probability of what it
    predicts."""
    import pandas as pd
    from scipy.special import softmax

    words = store.load_vocabulary(measured.run)
    classes = measured.run.result.classes
    logits = np.asarray(measured.logits, np.float64)
    if logits.ndim == 1:  # Softmax over (0, x) is sigmoid of x.
        logits = np.stack([np.zeros_like(logits), logits], axis=1)
    probabilities = softmax(logits, axis=1)
    predicted = predictions.most_probable(measured.logits).astype(int)
    truth = measured.test.truth.astype(int)
    rows = []
    for place in np.flatnonzero(predicted != truth):
        text = to_text(measured.test.ids[place].cpu().numpy(), words)
        label = classes[truth[place]]
        guess = classes[predicted[place]]
        rows.append((place + 1, text, label, guess, probabilities[place].max()))
    return pd.DataFrame(rows, columns=["row", "text", "label", "predicted", "probability"])


def load_trained(
    run: Run, words: Sequence[str], *, trust_code: bool, any_code: bool = False
) -> tuple[RunConfig, nn.Module, Examples]:
    """Config, model and test set of a finished run, with some settings set anew. The model is on
    its device and computes by the reference path. Raises as `measure_again` does."""
    has_other_texts = any(word.startswith("data.path=") for word in words)
    if has_other_texts:
        data = {key: run.result.config["data"][key] for key in AS_IDS}
        data["name"] = "files"
        settings = run.result.config | {"data": data}
        result = replace(run.result, config=settings)
        run = replace(run, result=result)
    config = load_config(run, words, trust_code=trust_code, any_code=any_code)
    processor = device.prepare(config.train)
    model = build_model(config, len(run.result.classes)).to(processor)
    load_weights(run, model)  # which may be missing, so before the data are read
    if has_other_texts:
        test = encode.load_test(config.data, store.load_vocabulary(run), run.result.classes)
        return config, model, on_device(test, processor)
    dataset = load_data(config.data, config.seeds.resample)
    fingerprint = run.result.data["fingerprint"]
    if dataset.fingerprint != fingerprint:
        raise UserError(
            f"{dataset.source} has changed since this run (fingerprint {dataset.fingerprint}, "
            f"then {fingerprint}). Give the reviews of then as data.path=."
        )
    return config, model, on_device(dataset.test, processor)


def load_weights(run: Run, model: nn.Module) -> None:
    """Fill the model from a finished run. Raises `UserError` if it is another model's."""
    weights = predictions.load_arrays(run, predictions.WEIGHTS)
    try:
        model.load_state_dict({name: from_numpy(array) for name, array in weights.items()})
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"The weights of {run.path} are not of this model ({reason}).") from error
