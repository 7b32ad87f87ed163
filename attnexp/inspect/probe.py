"""`attnexp probe`: what finished runs do under interventions, as groups of variants.

An intervention is a word, such as `no_head=2`; the empty one, `UNTOUCHED`, changes nothing. A model
under an intervention is a variant, such as `pe, shuffle`, and is compared with the untouched model.
Each of its heads, `pe, head 1`, is a variant too, which is shown and not compared."""

import json
import math
from collections import defaultdict
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
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

KEYS = ["variant", "seed"]
METRICS = ["accuracy", "flips", "entropy"]
NUM_READ = 100  # texts on which attention is measured, evenly spaced over the test set
SCHEMA = 7  # of the file of measurements in the folder of a run
UNTOUCHED = ""  # the word of no intervention
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Probed:
    """What was measured on the texts of one data set. Every row says of what: untouched "pe", name
    "shuffle" (or "head 1"), variant "pe, shuffle", seed "0"."""

    answers: list[Row] = field(default_factory=list)  # of models: fields of `_measure_answers`
    heads: list[Row] = field(default_factory=list)  # of heads, with their entropy
    notes: list[str] = field(default_factory=list)  # on what cannot be done


ByTexts = defaultdict[tuple[str, int], Probed]  # by data set, and how many of its texts were read


def probe_studies(
    paths: Sequence[Path], words: Sequence[str] = (), *, limit: int | None = None, **trust: bool
) -> list[Group]:
    """Groups of the models under interventions, with notes on what cannot be done. paths: of runs,
    studies and published studies. words: as `choose_interventions` reads them, or the defaults.
    limit: texts of the test set. trust: options of `load_trained`. Raises `UserError`."""
    words = words or DEFAULT
    by_texts: ByTexts = defaultdict(Probed)
    folders = []
    for path in paths:  # as `blog`, `blog.parquet` or `blog.probe.parquet`
        name = str(path).removesuffix(".parquet").removesuffix(".probe")
        file = Path(f"{name}.probe.parquet")
        if file.exists():
            _add_published(file, words, by_texts)
        else:
            folders.append(path)
    for group in load_groups(folders) if folders else []:
        _add_runs(group, words, limit, by_texts, **trust)
    return [_make_group(source, n, probed) for (source, n), probed in by_texts.items()]


def _add_published(file: Path, words: Sequence[str], by_texts: ByTexts) -> None:
    """Add the rows of the untouched models and of the interventions that words ask for, `no_head`
    for each `no_head=NUMBER`; right is minus the untouched model's. Raises `UserError`."""
    with reading(file, "It is no published file of probe."):
        frame = pd.read_parquet(file).assign(largest_class=math.nan)
        is_wanted = frame["intervention"].isin([UNTOUCHED, *words])
        if "no_head" in words:
            is_wanted |= frame["intervention"].str.startswith("no_head=")
        wanted = frame[is_wanted]
        if wanted["intervention"].eq(UNTOUCHED).all():
            raise UserError(f"{file} has none of {', '.join(words)}.")
        for row in wanted.to_dict("records"):
            probed = by_texts[row["data"], row["num_texts"]]
            rows = probed.heads if row["intervention"] == ATTENTION else probed.answers
            rows.append(row | _describe(row["variant"], row["seed"], row["name"]))


def _add_runs(
    group: Group, words: Sequence[str], limit: int | None, by_texts: ByTexts, **trust: bool
) -> None:
    """Add the rows of a group's runs, and notes on what cannot be done. Raises `UserError`."""
    for row in group.origin.runs.itertuples():
        if row.folder is None:
            raise UserError("A published study holds no models. Name folders of your own runs.")
        run = load_run(row.folder)
        num_test = run.result.data["n_test"]
        num_texts = min(limit or num_test, num_test)
        answers, entropies, reasons = probe_run(run, words, num_texts, **trust)
        probed = by_texts[group.data, num_texts]
        for word, measured in answers.items():
            probed.answers.append(_describe(row.variant, row.seed, word) | measured)
        for number, entropy in enumerate(entropies, 1):
            about = _describe(row.variant, row.seed, f"head {number}")
            probed.heads.append(about | {"entropy": entropy})
        probed.notes.extend(f"{row.variant}, {reason}" for reason in reasons)


def _describe(untouched: str, seed: str, name: str) -> Row:
    """What every row says of its variant."""
    variant = f"{untouched}, {name}" if name else untouched
    return {"untouched": untouched, "variant": variant, "seed": seed, "name": name}


def _make_group(source: str, num_texts: int, probed: Probed) -> Group:
    """The group of one data set. Raises `UserError` for two runs of one variant and seed."""
    data = f"{source}, {num_texts:,} texts"
    rows = pd.DataFrame([*probed.answers, *probed.heads], columns=[*KEYS, *METRICS])
    if rows.duplicated(KEYS).any():
        raise UserError(f"{data}: two runs have one variant and seed. Probe a study at a time.")
    at_endpoints = rows.melt(KEYS, var_name="metric").dropna(subset="value")
    at_endpoints = at_endpoints.assign(data=data, protocol="", point=RESULT.name, epoch=math.nan)
    answers = pd.DataFrame(probed.answers)
    right = answers.set_index(KEYS)["right"]
    largest_class = answers["largest_class"].max()
    return Group(
        data=data,
        source=source,
        variants=list(rows["variant"].unique()),
        at_endpoints=at_endpoints,
        epochs=at_endpoints.iloc[:0],
        families=[_make_family(own) for _, own in answers.groupby("untouched", sort=False)],
        right={(*key, RESULT.name): np.asarray(texts, float) for key, texts in right.items()},
        num_texts={(variant, RESULT.name): num_texts for variant in rows["variant"]},
        chance={} if math.isnan(largest_class) else {"accuracy": largest_class},
        notes=list(dict.fromkeys(probed.notes)),  # All seeds of a variant have the same.
    )


def _make_family(answers: pd.DataFrame) -> Family:
    """The difference that each intervention makes to a model; answers: of this model alone."""
    changed = answers[answers["name"] != UNTOUCHED].drop_duplicates("variant")
    family = []
    for row in changed.itertuples():
        contrast = difference(row.variant, row.untouched)
        family.append(replace(contrast, variant_level=row.name))  # Titles of tables name the model.
    return family


def probe_run(
    run: Run, words: Sequence[str], num_texts: int, **trust: bool
) -> tuple[dict[str, Row], list[float], list[str]]:
    """A run's answers by intervention, the entropy of each head if words ask for `ATTENTION`, and a
    line for each intervention that is impossible. What its folder holds is not measured again."""
    settings = run.result.config["model"]
    num_heads = settings.get("heads", 0) * settings.get("layers", 1)  # none without attention
    interventions = [UNTOUCHED, *choose_interventions(words, num_heads)]
    file = run.path / f"probe_{num_texts}.json"
    measured = load_measured(file)
    missing = [word for word in interventions if word not in measured]
    impossible = []
    if missing:
        overrides = ["train.device=auto", f"data.limit_test={num_texts}"]
        config, model, test = load_trained(run, overrides, **trust)
        precision = config.train.precision
        untouched = most_probable(predict(model, test, precision))
        for word in missing:
            try:
                if word == ATTENTION:
                    measured[word] = measure_heads(model, test.ids)
                else:
                    measured[word] = _measure_answers(word, model, test, precision, untouched)
            except NotApplicable as error:
                impossible.append(f"{word}: {error}")
                continue
            with atomic_write(file) as opened:
                opened.write(json.dumps({"schema": SCHEMA, "measured": measured}).encode())
    answers = {word: measured[word] for word in interventions if word in measured}
    entropies = answers.pop(ATTENTION, [])
    return answers, entropies, impossible


def load_measured(file: Path) -> dict[str, Any]:
    """What a file of this version holds by intervention, but for the user's, which may change."""
    if not file.exists():
        return {}
    with reading(file, "Delete it, and it is measured again."):
        document = json.loads(file.read_bytes())
        measured = document["measured"] if document["schema"] == SCHEMA else {}
        return {word: measured[word] for word in measured if ":" not in word}


def _measure_answers(
    word: str, model: nn.Module, test: Examples, precision: Precision, untouched: NDArray[Any]
) -> Row:
    """accuracy of the answers, flips (share that changes), right (1 or 0 of each text), and
    largest_class (accuracy of always answering the most frequent class). untouched: answers of the
    untouched model, (n texts,). Raises `NotApplicable`."""
    answers = untouched if word == UNTOUCHED else _answer(word, model, test, precision)
    is_right = answers == test.truth
    _, class_sizes = np.unique(test.truth, return_counts=True)
    return {
        "accuracy": float(is_right.mean()),
        "flips": float((answers != untouched).mean()),
        "right": is_right.astype(int).tolist(),
        "largest_class": float(class_sizes.max() / len(test.truth)),
    }


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
    """Entropy of attention by head, through all layers: a mean over the tokens of NUM_READ texts,
    evenly spaced among ids (n, T). Each token's entropy is divided by its maximum, the logarithm of
    the number of keys that get any weight, so 1 is uniform attention. Weights that do not sum to 1
    (`mask.mode=mul`) are divided by their sum first. Raises `NotApplicable` without attention."""
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
