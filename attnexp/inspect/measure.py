"""What a trained model does under interventions, measured on its test set and kept in its folder.

A row is the untouched model, the model under an intervention, or a head of its attention, with the
keys name (`shuffle`, `head 1`; empty for the untouched model), num_texts and either accuracy, flips
(share of answers that change) and right (1 or 0 of each text) or entropy.
"""

import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, reading
from attnexp.config.schema import Precision
from attnexp.inspect.evaluate import load_trained
from attnexp.inspect.insight import forward
from attnexp.inspect.interventions import ATTENTION, choose_interventions, load_intervention
from attnexp.network.guard import guard
from attnexp.runs.predictions import most_probable
from attnexp.runs.result import Run
from attnexp.training.loop import Examples, predict

NUM_READ = 100  # texts on which attention is measured, evenly spaced over the test set
SCHEMA = 5
UNTOUCHED = ""  # the intervention that is none

Row = dict[str, Any]


def probe_run(
    run: Run, words: Sequence[str], limit: int | None, **trust: bool
) -> tuple[list[Row], list[str]]:
    """The rows of a run, and a line for each impossible intervention. What the run's folder holds
    is not measured again. trust: options of `load_trained`."""
    settings = run.result.config["model"]
    num_heads = settings.get("heads", 0)  # of a layer; none without attention
    num_heads *= settings.get("layers", 1)
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
    """Rows of an intervention; of attention one a head. untouched: the classes (n texts,) without
    it. Raises `ValueError` where the model lacks what the intervention acts on."""
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
