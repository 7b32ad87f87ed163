"""`attnexp probe`: what finished runs do under interventions, as groups of variants.

An intervention is a word, such as `no_head=2`; the empty one, `UNTOUCHED`, changes nothing. A model
under an intervention is a variant, such as `pe, shuffle`, and so is each of its heads, `pe, head
1`: `compare` judges them like any other.

A row is what was measured of an intervention, or of a head. The rows of a run are kept in its
folder, by word. Fields:

- name: the word, or `head 1` and so on for `attention`; num_texts: texts that were read
- accuracy, flips (share of answers that change) and right (1 or 0 of each text): of interventions
- largest_class: accuracy of always answering the most frequent class, beside every accuracy
- entropy: of heads
- data, untouched (variant of the untouched model) and seed: added where the rows of runs meet
"""

import json
import math
from collections import defaultdict
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
    NotApplicable,
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
SCHEMA = 6  # of the file of rows in the folder of a run
UNTOUCHED = ""  # the word of no intervention
Row = dict[str, Any]


def probe_studies(
    paths: Sequence[Path], words: Sequence[str] = (), *, limit: int | None = None, **trust: bool
) -> list[Group]:
    """Groups of the models under interventions, with notes on what cannot be done.

    paths: of runs, studies and published studies. words: as `choose_interventions` reads them, or
    the defaults. limit: texts of the test set. trust: options of `load_trained`. Raises `UserError`
    for a wrong word, a function that fails, and a run that cannot be evaluated."""
    words = words or DEFAULT
    rows = []
    notes: defaultdict[str, list[str]] = defaultdict(list)  # by data set
    folders = []
    for path in paths:  # as `blog`, `blog.parquet` or `blog.probe.parquet`
        name = str(path).removesuffix(".parquet").removesuffix(".probe")
        file = Path(f"{name}.probe.parquet")
        if file.exists():
            rows += read_published(file, words)
        else:
            folders.append(path)
    groups = load_groups(folders) if folders else []
    for group in groups:
        measured, impossible = _probe_group(group, words, limit, **trust)
        rows += measured
        notes[group.data] += impossible
    frame = pd.DataFrame(rows)
    frame["variant"] = (frame["untouched"] + ", " + frame["name"]).str.removesuffix(", ")
    by_data = frame.groupby(["data", "num_texts"], sort=False)
    return [
        _make_group(source, num_texts, own, notes[source]) for (source, num_texts), own in by_data
    ]


def read_published(file: Path, words: Sequence[str]) -> list[Row]:
    """Rows of the untouched models and of the interventions that words ask for, `no_head` for each
    `no_head=NUMBER`. right is 1 and -1 of texts that an intervention won and lost, and 0 for the
    untouched model, which keeps their differences; largest_class is NaN. Raises `UserError`."""
    with reading(file, "It is no published file of probe."):
        frame = pd.read_parquet(file).rename(columns={"variant": "untouched"})
        frame["largest_class"] = math.nan
        interventions = frame["intervention"]
        without_number = interventions.str.partition("=")[0]
        is_wanted = interventions.isin(words) | without_number.isin(words)
        if not is_wanted.any():
            raise UserError(f"{file} has none of {', '.join(words)}.")
        return list(frame[is_wanted | (interventions == UNTOUCHED)].to_dict("records"))


def _probe_group(
    group: Group, words: Sequence[str], limit: int | None, **trust: bool
) -> tuple[list[Row], list[str]]:
    """The rows of a group's runs, and a line for each intervention that is impossible on one."""
    rows = []
    impossible = []
    for run in group.runs.itertuples():
        if run.folder is None:
            raise UserError("A published study holds no models. Name folders of your own runs.")
        measured, reasons = probe_run(load_run(run.folder), words, limit, **trust)
        about = {"data": group.data, "untouched": run.variant, "seed": run.seed}
        rows += [about | row for row in measured]
        impossible += [f"{run.variant}, {reason}" for reason in reasons]
    return rows, impossible


def _make_group(source: str, num_texts: int, rows: pd.DataFrame, notes: list[str]) -> Group:
    """The group of one data set. The interventions on one model are a family."""
    data = f"{source}, {num_texts:,} texts"
    rows = rows.assign(data=data, protocol="", point=RESULT.name, epoch=math.nan)
    keys = ["data", "protocol", "variant", "seed", "point", "epoch"]
    endpoints = rows.reindex(columns=[*keys, *METRICS]).melt(keys, var_name="metric")
    endpoints = endpoints.dropna(subset="value")
    answers = rows.dropna(subset="right")  # without rows of heads
    largest_class = answers["largest_class"].max()
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
        chance={} if math.isnan(largest_class) else {"accuracy": largest_class},
        notes=list(dict.fromkeys(notes)),  # All seeds of a variant have the same.
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
    is not measured again."""
    settings = run.result.config["model"]
    num_heads = settings.get("heads", 0) * settings.get("layers", 1)  # none without attention
    interventions = [UNTOUCHED, *choose_interventions(words, num_heads)]
    num_test = run.result.data["n_test"]
    num_texts = min(limit or num_test, num_test)

    file = run.path / f"probe_{num_texts}.json"
    by_word = load_rows(file)
    missing = [word for word in interventions if word not in by_word]
    impossible = []
    if missing:
        overrides = ["train.device=auto", f"data.limit_test={num_texts}"]
        config, model, test = load_trained(run, overrides, **trust)
        untouched = most_probable(predict(model, test, config.train.precision))
        for word in missing:
            try:
                measured = _measure(word, model, test, config.train.precision, untouched)
            except NotApplicable as error:
                impossible.append(f"{word}: {error}")
                continue
            by_word[word] = [{"num_texts": num_texts, **row} for row in measured]
            with atomic_write(file) as opened:
                opened.write(json.dumps({"schema": SCHEMA, "rows": by_word}).encode())
    rows = [row for word in interventions for row in by_word.get(word, [])]
    return rows, impossible


def load_rows(file: Path) -> dict[str, list[Row]]:
    """Stored rows by intervention, without those of the user's functions, which may have changed;
    none if they are of another version."""
    if not file.exists():
        return {}
    with reading(file, "Delete it, and it is measured again."):
        document = json.loads(file.read_bytes())
        rows = document["rows"] if document["schema"] == SCHEMA else {}
        return {word: rows[word] for word in rows if ":" not in word}


def _measure(
    word: str, model: nn.Module, test: Examples, precision: Precision, untouched: NDArray[Any]
) -> list[Row]:
    """Rows of an intervention: a row for each head of `ATTENTION`, else one. untouched: the classes
    (n texts,) of the untouched model. Raises `NotApplicable`."""
    if word == ATTENTION:
        entropies = measure_heads(model, test.ids)
        return [
            {"name": f"head {head}", "entropy": value} for head, value in enumerate(entropies, 1)
        ]
    answers = untouched if word == UNTOUCHED else _answer(word, model, test, precision)
    is_right = answers == test.truth
    _, class_sizes = np.unique(test.truth, return_counts=True)
    row = {
        "name": word,
        "accuracy": float(is_right.mean()),
        "flips": float((answers != untouched).mean()),
        "right": is_right.astype(int).tolist(),
        "largest_class": float(class_sizes.max() / len(test.truth)),
    }
    return [row]


def _answer(word: str, model: nn.Module, test: Examples, precision: Precision) -> Any:
    """The most probable classes (n texts,) under an intervention."""
    with guard([word] if ":" in word else []):
        # A function of the user's may write into the ids that it gets, hence a copy.
        change = load_intervention(word)(test.ids.clone(), model)
        if isinstance(change, Tensor):
            test = Examples(change, test.labels)
            change = nullcontext()
        with change:
            return most_probable(predict(model, test, precision))


def measure_heads(model: nn.Module, ids: Tensor) -> list[float]:
    """Entropy of attention by head, through all layers: a mean over the tokens of texts (n, T), of
    which NUM_READ are read, evenly spaced.

    Each token's entropy is divided by its maximum, the logarithm of the number of keys that get any
    weight, so 1 is uniform attention. Weights that do not sum to 1 (`mask.mode=mul`) are divided by
    their sum first. Raises `NotApplicable` for a model without attention.
    """
    num_read = min(NUM_READ, len(ids))
    indices = torch.linspace(0, len(ids) - 1, num_read).long()
    _, maps, is_real = forward(model, ids[indices.to(ids.device)])
    if not maps:
        raise NotApplicable("the model has no attention")
    entropies = []
    for weights in maps:  # (B, H, T queries, T keys)
        num_keys = (weights > 0).sum(dim=-1)
        highest = num_keys.clamp(min=2).log()  # One key has entropy 0, whatever it is divided by.
        shares = F.normalize(weights, p=1, dim=-1)
        entropy = torch.special.entr(shares).sum(dim=-1)  # (B, H, T)
        relative = (entropy / highest).clamp(0, 1)  # Rounding may go beyond.
        of_tokens = relative.transpose(1, 2)[is_real]  # (tokens, H)
        entropies += of_tokens.mean(dim=0).tolist()
    return entropies
