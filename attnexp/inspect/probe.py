"""`attnexp probe`: evaluate finished runs on their test sets under interventions.

A model under an intervention is a variant, `pe, shuffle`, and so is each of its heads, `pe, head 1`:
`compare` knows them like any other. A row has data, variant, seed, intervention, name (what is added
to the variant; empty for the untouched model), num_texts, a column for each of `METRICS`, and right:
bits of the test texts.
"""

import base64
import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.families import difference
from attnexp.analysis.group import Group
from attnexp.analysis.read_runs import load_groups
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, reading
from attnexp.data.text import PAD
from attnexp.inspect import interventions
from attnexp.inspect.insight import forward
from attnexp.runs.manifest import load_run
from attnexp.runs.predictions import most_probable
from attnexp.runs.result import Run
from attnexp.training.evaluate import load_trained
from attnexp.training.loop import Examples, predict

NUM_READ = 100  # texts on which attention is measured, evenly spaced over the test set
FILE = "probe.json"
SCHEMA = 4
METRICS = ["accuracy", "flips", "entropy", "distance"]  # flips: share of answers that change
UNTOUCHED = ""  # the intervention that is none
HEADS = "Heads are averaged over seeds; the folder of a run gives those of one seed."

Row = dict[str, Any]


def probe_studies(
    paths: Sequence[Path],
    words: Sequence[str] = (),
    *,
    limit: int | None = None,
    trust_code: bool = False,
    any_code: bool = False,
) -> list[Group]:
    """Groups of the models under interventions, with notes on what cannot be done.

    paths: of runs, studies and published studies. words: as `choose_interventions` reads them, or
    the defaults. limit: texts of the test set. Raises `UserError` for a wrong word, a function that
    fails, a run that cannot be evaluated, and where nothing can be measured."""
    words = words or interventions.DEFAULT
    rows: list[Row] = []
    folders: list[Path] = []
    for path in paths:
        name = str(path).removesuffix(".parquet").removesuffix(".probe")
        file = Path(f"{name}.probe.parquet")
        if file.exists():
            rows += read_published(file, words)
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
            about = {"data": group.data, "variant": row.variant, "seed": row.seed}
            rows += [about | own for own in measured]
            notes += [f"{row.variant}, {line}" for line in impossible]
    if not any(row["name"] for row in rows):
        raise UserError(f"Nothing can be measured here: {'; '.join(dict.fromkeys(notes))}.")
    return _make_groups(rows, notes)


def _make_groups(rows: list[Row], notes: list[str]) -> list[Group]:
    """A group for each data set and number of texts, each model beside its interventions."""
    frame = pd.DataFrame(rows)
    if frame["name"].str.contains("head").any() and frame["seed"].nunique() > 1:
        notes.append(HEADS)
    suffix = (", " + frame["name"]).where(frame["name"] != UNTOUCHED, "")
    frame = frame.assign(untouched=frame["variant"], variant=frame["variant"] + suffix)
    groups = []
    for (source, num_texts), own in frame.groupby(["data", "num_texts"], sort=False):
        data = f"{source} ({num_texts:,} texts)"
        own = own.assign(data=data, protocol="", point=RESULT.name, epoch=math.nan)
        keys = ["data", "protocol", "variant", "seed", "point", "epoch"]
        answered = own.dropna(subset="right")
        pairs = answered[["variant", "untouched", "name"]].drop_duplicates().to_numpy()
        runs = answered[["variant", "seed", "right"]].to_numpy()
        endpoints = own.melt(keys, list(own.columns.intersection(METRICS)), "metric").dropna(subset="value")
        group = Group(
            data=data,
            source=str(source),
            protocol="",
            variants=list(endpoints["variant"].unique()),
            points=[RESULT],
            endpoints=endpoints.astype({"value": float}),
            epochs=endpoints.iloc[:0],
            families=[
                [replace(difference(changed, untouched), variant_level=name)]
                for changed, untouched, name in pairs
                if name != UNTOUCHED
            ],
            right={(variant, seed, RESULT.name): bits for variant, seed, bits in runs},
            num_texts={RESULT.name: num_texts},
            notes=list(dict.fromkeys(notes)),
        )
        groups.append(group)
    return groups


def read_published(file: Path, words: Sequence[str]) -> list[Row]:
    """Rows of the interventions that words name. Raises `UserError` without any. A published file
    holds which answers changed; those of the untouched model count as 0, which no difference sees."""
    with reading(file, "It is no published file of probe."):
        frame = pd.read_parquet(file)
        names = frame["intervention"].str.partition("=")[0]
        chosen = frame[names.isin(words) | frame["intervention"].isin(words)]
        if chosen.empty:
            asked = ", ".join(words)
            published = ", ".join(names.unique())
            raise UserError(f"{file} has none of {asked}. It has {published}.")
        rows: list[Row] = []
        for found in chosen.to_dict("records"):
            about = {key: found[key] for key in ("data", "variant", "seed", "num_texts")}
            if isinstance(found["measure"], str):
                metric, name = found["measure"].split(", ")
                rows.append(about | {"name": name, metric: found["value"]})
                continue
            won, lost = (_unpack(found[key], found["num_texts"]) for key in ("won", "lost"))
            untouched = {"accuracy": found["accuracy"], "right": np.zeros_like(won), "flips": 0.0}
            changed = {"accuracy": found["changed_accuracy"], "right": won - lost}
            rows.append(about | {"name": UNTOUCHED} | untouched)
            rows.append(about | {"name": found["intervention"], "flips": found["flips"]} | changed)
    by_run = {(row["variant"], row["seed"], row["name"], *sorted(row.keys() & {*METRICS})): row for row in rows}
    return list(by_run.values())


def _unpack(packed: bytes, num_texts: int) -> Any:
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=num_texts)
    return bits.astype(float)


def load_rows(folder: Path) -> list[Row]:
    """The rows in a run's folder; none if they are another program's, or (noted) not readable."""
    file = folder / FILE
    if not file.exists():
        return []
    try:
        with reading(file, "Measured again."):
            document = json.loads(file.read_bytes())
            return document["rows"] if document["schema"] == SCHEMA else []
    except UserError as error:
        progress.note(str(error))
        return []


def probe_run(
    run: Run, words: Sequence[str], limit: int | None, **trust: bool
) -> tuple[list[Row], list[str]]:
    """The rows of a run, and a line for each impossible intervention. What the run's folder holds
    is not measured again, but for functions of the user's own, which may have changed. trust:
    options of `load_trained`."""
    settings = run.result.config["model"]
    num_heads = settings.get("heads", 0)  # of a layer; none without attention
    num_heads *= settings.get("layers", 1)
    names = [UNTOUCHED, *interventions.choose_interventions(words, num_heads)]
    num_test = run.result.data["n_test"]
    num_texts = min(limit or num_test, num_test)

    # rows of other numbers of texts are kept, so that each number is measured once
    rows = [row for row in load_rows(run.path) if ":" not in row["intervention"]]
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
            about = {"intervention": name, "name": name, "num_texts": num_texts}
            rows += [about | row for row in measured]
            with atomic_write(run.path / FILE) as file:
                file.write(json.dumps({"schema": SCHEMA, "rows": rows}).encode())
    chosen = []
    for row in rows:
        if row["num_texts"] == num_texts and row["intervention"] in names:
            right = base64.b64decode(row["right"]) if "right" in row else None
            chosen.append(row | {"right": right and _unpack(right, num_texts)})
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
        """The rows of one intervention, or of the untouched model; of attention one a head."""
        if name == interventions.ATTENTION:
            ids = self.test.ids
            num_read = min(NUM_READ, len(ids))
            indices = torch.linspace(0, len(ids) - 1, num_read).long()
            entropies = measure_heads(self.model, ids[indices.to(ids.device)])
            return [{"name": f"head {head}", "entropy": e} for head, e in enumerate(entropies, 1)]
        answers = self._answer_under(name)
        is_right = answers == self.test.truth
        row = {
            "accuracy": float(is_right.mean()),
            "flips": float((self.answers != answers).mean()),
            "right": base64.b64encode(np.packbits(is_right).tobytes()).decode(),
        }
        return [row]

    def _answer_under(self, name: str) -> Any:
        if name == UNTOUCHED:
            return self.answers
        # a function of the user's may write into the ids that it gets, hence a copy
        intervene = interventions.load_intervention(name)
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
