"""`attnexp probe`: evaluate finished runs on their test sets under interventions."""

from base64 import b64encode
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnexp.analysis.read_runs import load_groups
from attnexp.base.errors import UserError
from attnexp.data.text import PAD
from attnexp.inspect import effects, interventions
from attnexp.inspect.effects import Row
from attnexp.inspect.insight import forward
from attnexp.runs.manifest import load_run
from attnexp.runs.predictions import most_probable
from attnexp.runs.result import Run
from attnexp.training.evaluate import load_trained
from attnexp.training.loop import Examples, predict

NUM_READ = 100  # texts on which attention is measured, evenly spaced over the test set


def probe_studies(
    paths: Sequence[Path],
    words: Sequence[str] = (),
    *,
    limit: int | None = None,
    trust_code: bool = False,
    any_code: bool = False,
) -> tuple[pd.DataFrame, list[str]]:
    """The frame of what interventions change, and messages on what cannot be done.

    paths: of runs, studies and published studies. words: as `choose_interventions` reads them, or
    the defaults. limit: texts of the test set. Raises `UserError` for a wrong word, a function that
    fails, a run that cannot be evaluated, and where nothing can be measured."""
    words = words or interventions.DEFAULT
    frames: list[pd.DataFrame] = []
    folders: list[Path] = []
    for path in paths:
        name = str(path).removesuffix(".parquet").removesuffix(".probe")
        file = Path(f"{name}.probe.parquet")
        if file.exists():
            frames.append(effects.read_published(file, words))
        else:
            folders.append(path)
    notes: list[str] = []
    for group in load_groups(folders) if folders else []:
        for row in group.runs.itertuples():
            if row.folder is None:
                raise UserError("A published study holds no models. Name folders of your own runs.")
            run = load_run(row.folder)
            measured, impossible = probe_run(
                run, words, limit, trust_code=trust_code, any_code=any_code
            )
            labels = {"data": group.data, "variant": row.variant, "seed": row.seed}
            rows = [labels | effect for effect in measured]
            frames.append(effects.as_frame(rows))
            notes += [f"{row.variant}, {line}" for line in impossible]
    notes = list(dict.fromkeys(notes))
    frame = pd.concat(frames)
    if frame.empty:
        reasons = "; ".join(notes)
        raise UserError(f"Nothing can be measured here: {reasons}.")
    return frame, notes


def probe_run(
    run: Run, words: Sequence[str], limit: int | None, **trust: bool
) -> tuple[list[Row], list[str]]:
    """The rows of a run, and a line for each impossible intervention. What the run's folder holds
    is not measured again, but for functions of the user's own, which may have changed. trust:
    options of `load_trained`."""
    settings = run.result.config["model"]
    num_heads = settings.get("heads", 0)  # of a layer; none without attention
    num_heads *= settings.get("layers", 1)
    names = interventions.choose_interventions(words, num_heads)
    num_test = run.result.data["n_test"]
    num_texts = min(limit or num_test, num_test)

    # rows of other numbers of texts are kept, so that each number is measured once
    stored = effects.load_rows(run.path)
    rows = [row for row in stored if ":" not in row["intervention"]]
    finished = {row["intervention"] for row in rows if row["num_texts"] == num_texts}
    missing = [name for name in names if name not in finished]
    impossible: list[str] = []
    if missing:
        subject = Subject(run, num_texts, **trust)
        for name in missing:
            try:
                measured = subject.measure(name)
            except ValueError as error:
                impossible.append(f"{name}: {error}")
                continue
            except Exception as error:  # whatever anyone's function may do
                kind = type(error).__name__
                raise UserError(f"{name} failed: {kind}: {error}") from error
            labels = {"intervention": name, "num_texts": num_texts}
            rows += [labels | effect for effect in measured]
            effects.save_rows(run.path, rows)
    rows = [row for row in rows if row["num_texts"] == num_texts]
    chosen = [row for row in rows if row["intervention"] in names]
    return chosen, impossible


class Subject:
    """A trained model with texts of its test set, on which interventions are measured."""

    def __init__(self, run: Run, num_texts: int, **trust: bool) -> None:
        overrides = ["train.device=auto", f"data.limit_test={num_texts}"]
        config, self.model, self.test = load_trained(run, overrides, **trust)
        precision = config.train.precision
        self.predict = partial(predict, self.model, precision=precision)
        logits = self.predict(self.test)
        self.answers = most_probable(logits)

    def measure(self, name: str) -> list[Row]:
        """The rows of one intervention: how answers differ from those of the untouched model."""
        if name == interventions.ATTENTION:
            ids = self.test.ids
            num_read = min(NUM_READ, len(ids))
            indices = torch.linspace(0, len(ids) - 1, num_read).long()
            texts = ids[indices.to(ids.device)]
            entropies = measure_heads(self.model, texts)
            return [{"measure": measure, "value": value} for measure, value in entropies.items()]
        # a function of the user's may write into the ids that it gets, hence a copy
        intervene = interventions.load_intervention(name)
        change = intervene(self.test.ids.clone(), self.model)
        if isinstance(change, Tensor):
            changed = Examples(change, self.test.labels)
            logits = self.predict(changed)
        else:
            with change:
                logits = self.predict(self.test)
        answers = most_probable(logits)
        is_right = answers == self.test.truth
        was_right = self.answers == self.test.truth
        won = np.packbits(is_right & ~was_right)
        lost = np.packbits(was_right & ~is_right)
        row = {
            "accuracy": float(was_right.mean()),
            "changed_accuracy": float(is_right.mean()),
            "flips": float((self.answers != answers).mean()),
            "won": b64encode(won.tobytes()).decode(),
            "lost": b64encode(lost.tobytes()).decode(),
        }
        return [row]


def measure_heads(model: nn.Module, ids: Tensor) -> dict[str, float]:
    """Entropy of attention by head (`entropy, head 1`), a mean over the tokens of texts (B, T).

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
    return {f"entropy, head {head}": value for head, value in enumerate(entropies, start=1)}
