"""What a trained model does under interventions, measured on its test set and kept in its folder.

A row is the untouched model, the model under an intervention, or a head of its attention, with the
keys intervention, name (`shuffle`, `head 1`; empty for the untouched model), num_texts and either
accuracy, flips (share of answers that change) and right (bits of the texts, in base64) or entropy.
"""

import base64
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, reading
from attnexp.data.text import PAD
from attnexp.inspect import interventions
from attnexp.inspect.insight import forward
from attnexp.runs.predictions import most_probable
from attnexp.runs.result import Run
from attnexp.training.evaluate import load_trained
from attnexp.training.loop import Examples, predict

NUM_READ = 100  # texts on which attention is measured, evenly spaced over the test set
FILE = "probe.json"
SCHEMA = 4
UNTOUCHED = ""  # the intervention that is none

Row = dict[str, Any]


def load_rows(folder: Path) -> list[Row]:
    """The rows in a run's folder, but for those of functions of the user's own, which may have
    changed; none if they are of another version, or (noted) not readable."""
    file = folder / FILE
    if not file.exists():
        return []
    try:
        with reading(file, "Measured again."):
            document = json.loads(file.read_bytes())
            rows = document["rows"] if document["schema"] == SCHEMA else []
            return [row for row in rows if ":" not in row["intervention"]]
    except UserError as error:
        progress.note(str(error))
        return []


def probe_run(
    run: Run, words: Sequence[str], limit: int | None, **trust: bool
) -> tuple[list[Row], list[str]]:
    """The rows of a run, and a line for each impossible intervention. What the run's folder holds
    is not measured again. trust: options of `load_trained`."""
    settings = run.result.config["model"]
    num_heads = settings.get("heads", 0)  # of a layer; none without attention
    num_heads *= settings.get("layers", 1)
    names = [UNTOUCHED, *interventions.choose_interventions(words, num_heads)]
    num_test = run.result.data["n_test"]
    num_texts = min(limit or num_test, num_test)

    # Rows of other numbers of texts are kept, so that each number is measured once.
    rows = load_rows(run.path)
    finished = {row["intervention"] for row in rows if row["num_texts"] == num_texts}
    missing = [name for name in names if name not in finished]
    impossible = []
    if missing:
        subject = Subject(run, num_texts, **trust)
        for name in missing:
            measured, reason = _try_intervention(subject, name)
            if reason:
                impossible.append(f"{name}: {reason}")
                continue
            rows += [{"intervention": name, "num_texts": num_texts, **row} for row in measured]
            with atomic_write(run.path / FILE) as file:
                file.write(json.dumps({"schema": SCHEMA, "rows": rows}).encode())
    of_texts = [row for row in rows if row["num_texts"] == num_texts]
    return [row for row in of_texts if row["intervention"] in names], impossible


def _try_intervention(subject: "Subject", name: str) -> tuple[list[Row], str]:
    """The rows of an intervention, or why the model does not allow for it. Raises `UserError` where
    it fails otherwise."""
    try:
        return subject.measure(name), ""
    except ValueError as error:
        return [], str(error)
    except Exception as error:  # A user's function may raise anything.
        raise UserError(f"{name} failed: {type(error).__name__}: {error}") from error


class Subject:
    """A trained model with texts of its test set, on which interventions are measured."""

    def __init__(self, run: Run, num_texts: int, **trust: bool) -> None:
        overrides = ["train.device=auto", f"data.limit_test={num_texts}"]
        config, self.model, self.test = load_trained(run, overrides, **trust)
        self.predict = partial(predict, self.model, precision=config.train.precision)
        logits = self.predict(self.test)
        self.answers = most_probable(logits)

    def measure(self, name: str) -> list[Row]:
        """The rows of one intervention, or of the untouched model; of attention one a head. Raises
        `ValueError` where the model lacks what the intervention acts on."""
        if name == interventions.ATTENTION:
            return self._measure_attention()
        answers = self._answer_under(name)
        is_right = answers == self.test.truth
        row = {
            "name": name,
            "accuracy": float(is_right.mean()),
            "flips": float((self.answers != answers).mean()),
            "right": base64.b64encode(np.packbits(is_right).tobytes()).decode(),
        }
        return [row]

    def _measure_attention(self) -> list[Row]:
        """Rows of the heads, on texts evenly spaced over the test set."""
        ids = self.test.ids
        num_read = min(NUM_READ, len(ids))
        indices = torch.linspace(0, len(ids) - 1, num_read).long()
        entropies = measure_heads(self.model, ids[indices.to(ids.device)])
        return [
            {"name": f"head {h}", "entropy": value} for h, value in enumerate(entropies, start=1)
        ]

    def _answer_under(self, name: str) -> Any:
        """The most probable classes (n texts,) under an intervention."""
        if name == UNTOUCHED:
            return self.answers
        intervene = interventions.load_intervention(name)
        # A function of the user's may write into the ids that it gets, hence a copy.
        change = intervene(self.test.ids.clone(), self.model)
        if isinstance(change, Tensor):
            return most_probable(self.predict(Examples(change, self.test.labels)))
        with change:
            return most_probable(self.predict(self.test))


def measure_heads(model: nn.Module, ids: Tensor) -> list[float]:
    """Entropy of attention by head, a mean over the tokens of texts (B, T).

    Heads are numbered through all layers. Each token's entropy is divided by its maximum, the
    logarithm of the number of keys that get any weight, so 1 is uniform attention. Weights that do
    not sum to 1 (`mask.mode=mul`) are divided by their sum first.
    """
    entropies = []
    _, maps = forward(model, ids)
    if not maps:
        raise ValueError("the model has no attention")
    is_real = ids != PAD
    num_in_front = maps[0].shape[-1] - ids.shape[1]  # a summary token, which is a real one
    is_real = F.pad(is_real, (num_in_front, 0), value=True)  # (B, T)
    for weights in maps:  # (B, H, T queries, T keys)
        is_seen = weights > 0
        num_keys = is_seen.sum(dim=-1)
        highest = num_keys.clamp(min=2).log()
        shares = F.normalize(weights, p=1, dim=-1)
        entropy = torch.special.entr(shares).sum(dim=-1)  # (B, H, T)
        relative = (entropy / highest).clamp(0, 1)  # which rounding may leave
        by_token = relative.transpose(1, 2)  # (B, T, H)
        of_tokens = by_token[is_real]  # (tokens, H)
        entropies += of_tokens.mean(dim=0).tolist()
    return entropies
