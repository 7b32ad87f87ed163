"""`attnexp probe`: what finished runs do under interventions, as groups of variants.

A model under an intervention is a variant, such as `pe, shuffle`, and so is each of its heads, `pe,
head 1`: `compare` judges them like any other.

A row is the untouched model, the model under an intervention, or a head of its attention, with the
keys name (`shuffle`, `head 1`; empty for the untouched model), num_texts and either accuracy, flips
(share of answers that change) and right (1 or 0 of each text) or entropy. Those of a run are kept
in its folder; beside those of other runs they have data, variant (of the untouched model) and seed.
"""

import json
import math
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.families import Family, difference
from attnexp.analysis.group import Group
from attnexp.analysis.read_runs import load_groups
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, reading
from attnexp.config.schema import Precision
from attnexp.inspect.evaluate import load_trained
from attnexp.inspect.insight import forward
from attnexp.inspect.interventions import (
    ATTENTION,
    DEFAULT,
    choose_interventions,
    load_intervention,
)
from attnexp.network.guard import guard
from attnexp.runs.find import load_run
from attnexp.runs.predictions import most_probable
from attnexp.runs.result import Run
from attnexp.training.loop import Examples, predict

METRICS = ["accuracy", "flips", "entropy"]
NUM_READ = 100  # texts on which attention is measured, evenly spaced over the test set
SCHEMA = 5
UNTOUCHED = ""  # the intervention that is none

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
    fails, and a run that cannot be evaluated."""
    words = words or DEFAULT
    rows = []
    notes = []
    folders = []
    for path in paths:
        name = str(path).removesuffix(".parquet").removesuffix(".probe")
        file = Path(f"{name}.probe.parquet")
        if file.exists():
            rows += read_published(file, words)
        else:
            folders.append(path)
    for group in load_groups(folders) if folders else []:
        for run in group.runs.itertuples():
            if run.folder is None:
                raise UserError("A published study holds no models. Name folders of your own runs.")
            measured, impossible = probe_run(
                load_run(run.folder), words, limit, trust_code=trust_code, any_code=any_code
            )
            about = {"data": group.data, "variant": run.variant, "seed": run.seed}
            rows += [about | row for row in measured]
            notes += [f"{run.variant}, {line}" for line in impossible]
    frame = pd.DataFrame(rows)
    # The variant of a changed model is named `pe, shuffle`.
    suffix = frame["name"].radd(", ").where(frame["name"] != UNTOUCHED, "")
    frame = frame.assign(untouched=frame["variant"], variant=frame["variant"] + suffix)
    notes = list(dict.fromkeys(notes))
    by_data = frame.groupby(["data", "num_texts"], sort=False)
    return [_make_group(source, num_texts, own, notes) for (source, num_texts), own in by_data]


def read_published(file: Path, words: Sequence[str]) -> list[Row]:
    """Rows of the untouched models and of the interventions that words name. The file holds which
    texts an intervention won and lost: right is 1 and -1 there, and 0 for all texts of the
    untouched model, so that differences are those of the answers. Raises `UserError` without any.
    """
    with reading(file, "It is no published file of probe."):
        frame = pd.read_parquet(file)
        names = frame["intervention"]
        is_named = names.isin(words) | names.str.partition("=")[0].isin(words)
        if not is_named.any():
            raise UserError(f"{file} has none of {', '.join(words)}.")
        return list(frame[is_named | (names == UNTOUCHED)].to_dict("records"))


def _make_group(source: str, num_texts: int, rows: pd.DataFrame, notes: list[str]) -> Group:
    """The group of one data set. The interventions on one model are a family."""
    data = f"{source}, {num_texts:,} texts"
    rows = rows.assign(data=data, protocol="", point=RESULT.name, epoch=math.nan)
    metrics = [name for name in METRICS if name in rows]
    keys = ["data", "protocol", "variant", "seed", "point", "epoch"]
    endpoints = rows.melt(keys, metrics, "metric").dropna(subset="value")
    answers = rows.dropna(subset="right")
    return Group(
        data=data,
        source=source,
        variants=list(rows["variant"].unique()),
        endpoints=endpoints.astype({"value": float}),
        epochs=endpoints.iloc[:0],
        families=[_make_family(own) for _, own in answers.groupby("untouched", sort=False)],
        right={
            (row.variant, row.seed, row.point): np.asarray(row.right, float)
            for row in answers.itertuples()
        },
        num_texts={RESULT.name: num_texts},
        notes=notes,
    )


def _make_family(rows: pd.DataFrame) -> Family:
    """The difference that each intervention makes to a model; rows: of this model alone."""
    changed = rows[rows["name"] != UNTOUCHED].drop_duplicates("variant")
    family = []
    for row in changed.itertuples():
        contrast = difference(row.variant, row.untouched)
        family.append(replace(contrast, variant_level=row.name))  # Titles of tables name the model.
    return family


def probe_run(
    run: Run, words: Sequence[str], limit: int | None, **trust: bool
) -> tuple[list[Row], list[str]]:
    """The rows of a run, and a line for each impossible intervention. What the run's folder holds
    is not measured again. trust: options of `load_trained`."""
    settings = run.result.config["model"]
    num_heads = settings.get("heads", 0) * settings.get("layers", 1)  # none without attention
    names = [UNTOUCHED, *choose_interventions(words, num_heads)]
    num_test = run.result.data["n_test"]
    num_texts = min(limit or num_test, num_test)

    file = run.path / f"probe_{num_texts}.json"
    rows = load_rows(file)
    missing = [name for name in names if name not in rows]
    impossible = []
    if missing:
        overrides = ["train.device=auto", f"data.limit_test={num_texts}"]
        config, model, test = load_trained(run, overrides, **trust)
        untouched = most_probable(predict(model, test, config.train.precision))
        for name in missing:
            try:
                measured = _measure(name, model, test, config.train.precision, untouched)
            except UserError:  # A function of the user's has failed.
                raise
            except ValueError as error:
                impossible.append(f"{name}: {error}")
                continue
            rows[name] = [{"num_texts": num_texts, **row} for row in measured]
            with atomic_write(file) as opened:
                opened.write(json.dumps({"schema": SCHEMA, "rows": rows}).encode())
    return [row for name in names for row in rows.get(name, [])], impossible


def load_rows(file: Path) -> dict[str, list[Row]]:
    """Stored rows by intervention, but for those of functions of the user's own, which may have
    changed; none if they are of another version."""
    if not file.exists():
        return {}
    with reading(file, "Delete it, and it is measured again."):
        document = json.loads(file.read_bytes())
        rows = document["rows"] if document["schema"] == SCHEMA else {}
        return {name: rows[name] for name in rows if ":" not in name}


def _measure(
    name: str, model: nn.Module, test: Examples, precision: Precision, untouched: NDArray[Any]
) -> list[Row]:
    """Rows of an intervention. `UNTOUCHED` and `ATTENTION`, which has a row a head, change nothing.
    untouched: the classes (n texts,) of the untouched model. Raises `ValueError` where the model
    lacks what the intervention acts on."""
    if name == ATTENTION:
        entropies = measure_heads(model, test.ids)
        return [
            {"name": f"head {head}", "entropy": value} for head, value in enumerate(entropies, 1)
        ]
    answers = untouched if name == UNTOUCHED else _answer(name, model, test, precision)
    is_right = answers == test.truth
    row = {
        "name": name,
        "accuracy": float(is_right.mean()),
        "flips": float((answers != untouched).mean()),
        "right": is_right.astype(int).tolist(),
    }
    return [row]


def _answer(name: str, model: nn.Module, test: Examples, precision: Precision) -> Any:
    """The most probable classes (n texts,) under an intervention."""
    with guard([name] if ":" in name else []):
        # A function of the user's may write into the ids that it gets, hence a copy.
        change = load_intervention(name)(test.ids.clone(), model)
        if isinstance(change, Tensor):
            test = Examples(change, test.labels)
            change = nullcontext()
        with change:
            return most_probable(predict(model, test, precision))


def measure_heads(model: nn.Module, ids: Tensor) -> list[float]:
    """Entropy of attention by head: a mean over the tokens of texts (n, T), of which NUM_READ are
    read, evenly spaced.

    Heads are numbered through all layers. Each token's entropy is divided by its maximum, the
    logarithm of the number of keys that get any weight, so 1 is uniform attention. Weights that do
    not sum to 1 (`mask.mode=mul`) are divided by their sum first.
    """
    entropies = []
    num_read = min(NUM_READ, len(ids))
    indices = torch.linspace(0, len(ids) - 1, num_read).long()
    _, maps, is_real = forward(model, ids[indices.to(ids.device)])
    if not maps:
        raise ValueError("the model has no attention")
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
