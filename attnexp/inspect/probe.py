"""`attnexp probe`: evaluate finished runs on their test sets under interventions."""

from base64 import b64encode
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from attnexp.analysis.frames import load
from attnexp.base.errors import UserError
from attnexp.data.text import PAD
from attnexp.inspect import interventions, probed
from attnexp.inspect.insight import forward
from attnexp.inspect.probed import Row
from attnexp.runs import store
from attnexp.runs.result import Run
from attnexp.training.evaluate import load_trained
from attnexp.training.loop import Examples, predict
from attnexp.training.metrics import most_probable

NUM_READ = 100  # texts on which attention is measured, evenly spaced over the test set


def probe(
    paths: Sequence[Path], words: Sequence[str] = (), limit: int | None = None, trust: bool = False
) -> tuple[pd.DataFrame, list[str]]:
    """The frame of what interventions change, and messages on what cannot be done.

    paths: of runs, studies and published studies. words: as `interventions.choose` reads them; all
    if there are none. limit: texts of the test set. trust: run code that is not attnexp's. Raises
    `UserError` for a wrong word, a function that fails, or a run that cannot be evaluated.
    """
    words = words or interventions.DEFAULT
    frames, folders, notes = list[pd.DataFrame](), list[Path](), dict[str, None]()
    for path in paths:
        name = str(path).removesuffix(".parquet").removesuffix(".probe")
        if (file := Path(f"{name}.probe.parquet")).exists():
            rows = pd.read_parquet(file)
            kinds = rows["intervention"].str.partition("=")[0]
            frames.append(rows[kinds.isin(words) | rows["intervention"].isin(words)])
            if frames[-1].empty:
                there = ", ".join(kinds.unique())
                raise UserError(f"{file} has none of {', '.join(words)}. It has {there}.")
        else:
            folders.append(path)
    for group in load(folders) if folders else ():
        for run in group.runs.itertuples():
            if run.folder is None:
                raise UserError("A published study holds no models. Name folders of your own runs.")
            one = Run(path=run.folder, result=store.load_result(run.folder))
            found, impossible = probe_run(one, words, limit, trust)
            about = {"data": group.data, "variant": run.variant, "seed": run.seed}
            frames.append(probed.frame([about | row for row in found]))
            notes |= dict.fromkeys(f"{run.variant}, {line}" for line in impossible)
    return pd.concat(frames), [*notes]


def probe_run(
    run: Run, words: Sequence[str], limit: int | None, trust: bool
) -> tuple[list[Row], list[str]]:
    """The rows of one run. What its folder holds is not measured again, but for functions of the
    user's own, which may have changed."""
    settings, all_texts = run.result.config["model"], run.result.data["n_test"]
    num_texts = min(limit or all_texts, all_texts)
    names = interventions.choose(words, settings.get("heads", 0) * settings.get("layers", 1))
    rows = [row for row in probed.load(run.path) if ":" not in row["intervention"]]
    there = {row["intervention"] for row in rows if row["num_texts"] == num_texts}
    impossible = list[str]()
    if missing := [name for name in names if name not in there]:
        given = ["train.device=auto", f"data.limit_test={num_texts}"]
        config, model, test = load_trained(run, given, trust_code=trust)
        evaluate = partial(predict, model, precision=config.train.precision)
        untouched = most_probable(evaluate(test))
    for name in missing:
        try:
            found = _measure(name, model, test, untouched, evaluate)
        except ValueError as error:
            impossible.append(f"{name}: {error}")
            continue
        except Exception as error:  # whatever anyone's function may do
            raise UserError(f"{name} failed: {type(error).__name__}: {error}") from error
        rows += [{"intervention": name, "num_texts": num_texts, **row} for row in found]
        probed.save(run.path, rows)
    asked = [row for row in rows if row["intervention"] in names and row["num_texts"] == num_texts]
    return asked, impossible


def _measure(
    name: str, model: nn.Module, test: Examples, answers: NDArray[Any], evaluate: Callable[..., Any]
) -> list[Row]:
    """The rows of one intervention. answers: the classes that the untouched model gives."""
    if name == interventions.ATTENTION:
        some = torch.linspace(0, len(test) - 1, min(NUM_READ, len(test))).long()
        found = measure_heads(model, test.ids[some.to(test.ids.device)])
        return [{"measure": key, "value": value} for key, value in found.items()]
    change = interventions.load(name)(test.ids.clone(), model)
    if isinstance(change, Tensor):
        logits = evaluate(Examples(change, test.labels))
    else:
        with change:
            logits = evaluate(test)
    changed = most_probable(logits)
    before, after = answers == test.truth, changed == test.truth
    shares = {"accuracy": before, "changed_accuracy": after, "flips": answers != changed}
    bits = {"won": after & ~before, "lost": before & ~after}
    packed = {key: b64encode(np.packbits(of).tobytes()).decode() for key, of in bits.items()}
    return [{key: float(of.mean()) for key, of in shares.items()} | packed]


def measure_heads(model: nn.Module, ids: Tensor) -> dict[str, float]:
    """Entropy of attention by head (`entropy, head 1`), a mean over the tokens of texts (B, T).
    Heads are numbered through all layers. Each token's entropy is divided by its maximum, the
    logarithm of the number of keys that get any weight, so 1 is uniform attention."""
    found = dict[str, float]()
    for weights in forward(model, ids)[1]:
        real = F.pad(ids != PAD, (weights.shape[-1] - ids.shape[1], 0), value=True)  # (B, T)
        highest = (weights > 0).sum(dim=-1).clamp(min=2).log()
        entropy = torch.special.entr(weights).sum(dim=-1) / highest  # (B, H, T)
        for value in entropy.transpose(1, 2)[real].mean(dim=0).tolist():
            found[f"entropy, head {len(found) + 1}"] = value
    return found
