"""`attnexp probe`: evaluate finished runs on their test sets under interventions."""

import functools
import json
from collections.abc import Callable, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import suppress
from inspect import signature
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.schema import Precision
from attnexp.data import encode
from attnexp.data.text import PAD
from attnexp.inspect import interventions, relevance
from attnexp.runs.arrays import WEIGHTS
from attnexp.runs.probed import ATTENTION, load, save
from attnexp.runs.result import Run, digest
from attnexp.training.evaluate import load_trained
from attnexp.training.loop import Examples, batch_size_of, predict_batches
from attnexp.training.metrics import most_probable

NUM_READ = 100
"""Texts that `attention` reads, evenly spaced over the test set; erasure takes T passes of each."""


@functools.cache
def _id(name: str, num_texts: int) -> str:
    """Sixteen hex digits that change with an intervention, its code and the number of texts."""
    folder = Path(__file__).parent
    found = pieces.syntax(folder, folder.glob("*.py"))
    found |= pieces.code_of(name) if ":" in name else {}
    return digest(json.dumps([name, num_texts, found]).encode())[:16]


def probe(
    runs: Sequence[Run],
    words: Sequence[str] = (),
    *,
    limit: int | None = None,
    trust_code: bool = False,
) -> tuple[list[str], dict[str, int]]:
    """Evaluate runs under interventions, as far as that is not stored yet.

    words: as `interventions.choose` reads them; all interventions where there are none. limit:
    texts of the test set. Published runs without weights show what was stored before. Returns the
    ids of all results that were asked for, and the reasons why any is missing, with their exit
    codes. Raises `UserError` if there is no result at all.
    """
    asked, reasons = dict[str, str](), dict[str, int]()
    num_without_weights = 0
    num_threads = 1 if torch.cuda.is_available() else torch.get_num_threads()
    load_data = functools.lru_cache(maxsize=1)(encode.load)
    with ThreadPoolExecutor(num_threads) as pool:
        for i, run in enumerate(runs, start=1):
            names = _choose(words or interventions.DEFAULT, run, reasons)
            stored, num_texts = load(run.path), run.result.data["n_test"]
            num_texts = min(limit or num_texts, num_texts)
            if WEIGHTS in run.result.files:
                by_id = {_id(name, num_texts): name for name in names}
            else:
                by_id = {id: one["name"] for id, one in stored.items() if one["name"] in names}
                num_without_weights += bool(names) and not by_id
            asked |= by_id
            missing = {id: name for id, name in by_id.items() if id not in stored}
            if not missing:
                continue
            given = ["train.device=auto", "train.threads=1", f"data.limit_test={num_texts}"]
            try:
                opened = load_trained(run, given, trust_code=trust_code, load=load_data)
            except UserError as error:
                reasons[str(error)] = 1
                continue
            config, model, test = opened
            label = f"probing run {i} of {len(runs)}"
            answer = functools.partial(_answers, pool, label, model, config.train.precision)
            intact = answer(test)
            for id, name in missing.items():
                try:
                    result = _result(name, model, test, intact, answer)
                except ValueError as error:
                    result = {"impossible": str(error)}
                except Exception as error:  # whatever anyone's function may do
                    said = f"{name} failed on {run.path}: {type(error).__name__}: {error}"
                    reasons[said] = 1
                    continue
                save(run.path, load(run.path) | {id: {"name": name, "n": len(test), **result}})
    results = [load(run.path) for run in runs]
    found = [of_run[id] for of_run in results for id in asked if id in of_run]
    impossible = [f"{one['name']}: {one['impossible']}." for one in found if "impossible" in one]
    if num_without_weights:
        progress.note(
            f"{num_without_weights} of {len(runs)} runs were published without their weights. "
            f"Train them again to probe them."
        )
    if len(impossible) == len(found):
        lines = dict.fromkeys([*reasons, *impossible])
        raise UserError("\n".join(["Nothing could be probed.", *lines]))
    return [*asked], reasons


def _choose(words: Sequence[str], run: Run, reasons: dict[str, int]) -> list[str]:
    """The interventions that words ask for; the reason of each wrong word is added to `reasons`.

    Numbers are checked here: ids of stored results change with the code of `interventions`.
    """
    model, names = run.result.config["model"], list[str]()
    for word in words:
        name, equals, number = word.partition("=")
        function = interventions.INTERVENTIONS.get(name)
        try:
            if equals and (
                name == ATTENTION or (function and len(signature(function).parameters) < 3)
            ):
                raise UserError(f"{word}: {name} takes no number. Give --do {name}.")
            chosen = interventions.choose(word, model.get("heads", 0) * model.get("layers", 1))
            if name == "unknown" and number and float(number) > 1:
                raise UserError(f"{word}: a probability is 1 at most.")
            if name == "last" and number and float(number) < 1:
                raise UserError(f"{word}: a text keeps 1 token or more.")
            names += chosen
        except UserError as error:
            reasons[str(error)] = 2
    return names


def _answers(
    pool: Executor, label: str, model: nn.Module, precision: Precision, texts: Examples
) -> Tensor:
    """The most probable class of every text, (n,); a thread does a batch at a time."""
    size = batch_size_of(texts.device)
    batches = [texts[start : start + size] for start in range(0, len(texts), size)]
    logits = pool.map(lambda batch: next(predict_batches(model, batch, precision)), batches)
    found = torch.cat([*progress.track(logits, total=len(batches), label=label)])
    answers: Tensor = most_probable(found)
    return answers


def _result(
    name: str,
    model: nn.Module,
    test: Examples,
    intact: Tensor,
    answer: Callable[[Examples], Tensor],
) -> dict[str, Any]:
    """What is stored of an intervention. intact: the answers without it."""
    if name == ATTENTION:
        return _read(model, test.ids)
    changed = interventions.load(name)(test.ids.clone(), model)
    if isinstance(changed, Tensor):
        answers = answer(Examples(changed, test.labels))
    else:
        with changed:
            answers = answer(test)
    before, after = intact == test.labels, answers == test.labels
    return {
        "accuracy": float(before.double().mean()),
        "flips": float((answers != intact).double().mean()),
        "won": torch.nonzero(after & ~before).flatten().tolist(),
        "lost": torch.nonzero(before & ~after).flatten().tolist(),
    }


def _read(model: nn.Module, ids: Tensor) -> dict[str, Any]:
    """What is stored of `attention`: how much each token of some texts counts, and its heads."""
    rows = torch.linspace(0, len(ids) - 1, min(NUM_READ, len(ids))).long()
    ids = ids[rows.to(ids.device)]
    counts = {}
    for why, of_tokens in relevance.WHY.items():
        with suppress(ValueError):  # no attention, or no gradient
            texts = zip(of_tokens(model, ids).abs(), ids != PAD, strict=True)
            counts[why] = [[float(f"{x:.3g}") for x in row[real].tolist()] for row, real in texts]
    return {"counts": counts, "heads": relevance.heads(model, ids)}
