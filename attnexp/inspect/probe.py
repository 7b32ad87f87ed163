"""`attnexp probe`: finished runs on their test sets again, under interventions."""

import functools
import json
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.base import code, progress
from attnexp.base.errors import UserError
from attnexp.config.schema import Precision, RunConfig
from attnexp.data import encode
from attnexp.data.text import PAD
from attnexp.inspect import interventions, relevance
from attnexp.runs.arrays import WEIGHTS
from attnexp.runs.identity import ROOMS
from attnexp.runs.probed import ATTENTION, SCHEMA, load, save
from attnexp.runs.result import Run, digest
from attnexp.training.evaluate import load_trained
from attnexp.training.loop import Examples, batch_size_of, predict_batches
from attnexp.training.metrics import most_probable

NUM_READ = 100
"""Texts that `attention` reads, evenly spaced over the test set; erasure takes T passes of each."""


@functools.cache
def _id(name: str, num_texts: int) -> str:
    """Sixteen hex digits that change with an intervention, its code and the number of texts."""
    own = [name.partition(":")[0]] if ":" in name else []
    roots = [interventions.__name__, relevance.__name__, *own]
    found = code.digests(roots, lambda module, importer: f"{module}.".startswith(ROOMS))
    return digest(json.dumps([SCHEMA, name, num_texts, found]).encode())[:16]


def probe(
    runs: Sequence[Run],
    words: Sequence[str] = (),
    *,
    limit: int | None = None,
    trust_code: bool = False,
) -> tuple[dict[str, str], dict[str, int]]:
    """Evaluate runs under interventions, as far as that is not stored yet.

    words: as `interventions.choose` reads them; all interventions where there are none. limit:
    texts of the test set. Returns the names of what was asked for, by the id under which it is
    stored, and why something was left out, with its exit code. Raises `UserError` where nothing
    could be done.
    """
    reasons: dict[str, int] = {}
    known = []
    for word in words or interventions.DEFAULT:
        try:
            known += [word] if interventions.choose(word, 0) else []
        except UserError as error:
            reasons[str(error)] = 2
    where = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    cores = torch.get_num_threads() if where.type == "cpu" else 1
    load_data = functools.lru_cache(maxsize=1)(encode.load)
    ids, works = dict[str, str](), list[Iterator[None]]()
    num_batches = num_published = 0
    for run in {run.path: run for run in runs}.values():
        model, num_texts = run.result.config["model"], run.result.data["n_test"]
        num_texts = min(limit or num_texts, num_texts)
        num_heads = model.get("heads", 0) * model.get("layers", 1)
        names = [name for word in known for name in interventions.choose(word, num_heads)]
        stored = load(run.path)
        if WEIGHTS not in run.result.files:  # what was stored before is all there can be
            kept = {id: one["name"] for id, one in stored.items() if one["name"] in names}
            ids |= kept
            num_published += not kept
            continue
        by_id = {_id(name, num_texts): name for name in names}
        ids |= by_id
        missing = {id: name for id, name in by_id.items() if id not in stored}
        if missing:
            threads = f"train.threads={max(cores // len(runs), 1)}"
            settings = ["train.device=auto", threads, f"data.limit_test={num_texts}"]
            open_run = functools.partial(
                load_trained, run, settings, trust_code=trust_code, load=load_data
            )
            works.append(_probe_run(run.path, open_run, missing, reasons))
            num_batches += -(-num_texts // batch_size_of(where)) * (1 + len(missing))
    if num_published:
        reasons[
            f"{num_published} of {len(runs)} runs were published without their weights. Train them "
            f"again to probe them."
        ] = 1
    for _ in progress.track(_side_by_side(works, cores), total=num_batches, label="probing"):
        pass
    results = [load(run.path) for run in runs]
    found = [of_run[id] for of_run in results for id in ids if id in of_run]
    impossible = [f"{one['name']}: {one['impossible']}." for one in found if "impossible" in one]
    if len(impossible) == len(found):
        lines = dict.fromkeys([*reasons, *impossible])
        raise UserError("\n".join(["Nothing could be probed.", *lines]))
    return ids, reasons


_one_at_a_time = threading.Lock()
"""Held while a model is built and its data are read, which happens once for all threads."""


def _probe_run(
    folder: Path,
    open_run: Callable[[], tuple[RunConfig, nn.Module, Examples]],
    missing: dict[str, str],
    reasons: dict[str, int],
) -> Iterator[None]:
    """Do what is missing of a run, by id, and store each result; yields after every batch."""
    try:
        with _one_at_a_time:
            config, model, test = open_run()
    except UserError as error:
        reasons[str(error)] = 1
        return
    precision = config.train.precision
    intact = yield from _answers(model, test, precision)
    for id, name in missing.items():
        try:
            if name == ATTENTION:
                found = _read(model, test.ids)
            else:
                changed = interventions.load(name)(test.ids.clone(), model)
                texts: Examples = test
                context: interventions.Context = nullcontext()
                if isinstance(changed, Tensor):
                    texts = Examples(changed, test.labels)
                else:
                    context = changed
                with context:
                    answers = yield from _answers(model, texts, precision)
                before, after = intact == test.labels, answers == test.labels
                found = {
                    "accuracy": float(before.double().mean()),
                    "flips": float((answers != intact).double().mean()),
                    "won": torch.nonzero(after & ~before).flatten().tolist(),
                    "lost": torch.nonzero(before & ~after).flatten().tolist(),
                }
        except ValueError as error:
            found = {"impossible": str(error)}
        except Exception as error:  # whatever anyone's function may do
            reasons[f"{name} failed on {folder}: {type(error).__name__}: {error}"] = 1
            continue
        save(folder, load(folder) | {id: {"name": name, "n": len(test), **found}})


def _answers(
    model: nn.Module, texts: Examples, precision: Precision
) -> Generator[None, None, Tensor]:
    """The most probable class of every text: (n,)."""
    found = []
    for logits in predict_batches(model, texts, precision):
        found.append(most_probable(logits))
        yield
    return torch.cat(found)


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


def _side_by_side(works: Sequence[Iterator[None]], num_threads: int) -> Iterator[None]:
    """Items of generators as they come, each generator in a thread; an error ends all."""
    items: queue.SimpleQueue[None] = queue.SimpleQueue()
    stopped = threading.Event()

    def exhaust(work: Iterator[None]) -> None:
        for item in work:
            items.put(item)
            if stopped.is_set():
                return

    with ThreadPoolExecutor(num_threads) as pool:
        futures = [pool.submit(exhaust, work) for work in works]
        try:
            while not all(future.done() for future in futures) or not items.empty():
                with suppress(queue.Empty):
                    yield items.get(timeout=0.1)
            for future in futures:
                future.result()
        finally:
            stopped.set()
            pool.shutdown(cancel_futures=True)
