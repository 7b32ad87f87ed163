"""`attnexp probe`: finished runs on their test sets again, under interventions.

`probe.json` in a run's folder keeps what was found, under ids of intervention, code and number of
texts. It is no part of the run and of its checksums.
"""

import base64
import functools
import json
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attnexp.analysis.variants import by_variant, comparison_groups
from attnexp.base import code, progress
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, writing
from attnexp.config.schema import Precision, RunConfig
from attnexp.data import encode
from attnexp.data.text import PAD
from attnexp.inspect import interventions, relevance
from attnexp.runs import predictions, store
from attnexp.runs.identity import ROOMS, replicate
from attnexp.runs.result import Run, digest
from attnexp.statistics.paired import Mean, Paired, paired
from attnexp.training.evaluate import load_trained
from attnexp.training.loop import Examples, batch_size_of, predict_batches
from attnexp.training.metrics import most_probable

SCHEMA = 1
FILE = "probe.json"
NUM_READ = 100
"""Texts that `attention` reads, evenly spaced over the test set; erasure takes T passes of each."""

Results = dict[str, dict[str, Any]]
"""What is stored of a run, by id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Effect:
    """What an intervention changes, over the seeds of a variant."""

    texts: int
    accuracy: Paired
    """Under the intervention minus intact."""
    flips: float
    """Share of answers that change."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Probed:
    """What is known of one variant, by intervention and by measure."""

    data: str
    variant: str
    effects: dict[str, Effect]
    impossible: dict[str, str]
    """Why its model cannot have an intervention."""
    measures: dict[str, Mean]
    """Over seeds: entropy (over its maximum) and distance (in tokens) of every head's attention,
    and Kendall's tau of how much tokens count, by two measures, or by one in two seeds."""


def load(folder: Path) -> Results:
    """What is stored of a run; nothing where the file is absent, or damaged, which is told."""
    try:
        tree = json.loads((folder / FILE).read_text())
        if tree.pop("sha256") != digest(json.dumps(tree).encode()):
            raise ValueError
        results: Results = tree["results"]
    except FileNotFoundError:
        return {}
    except store.NOT_A_RESULT:
        progress.note(f"{folder / FILE} is damaged and left out; `attnexp probe` makes it again.")
        return {}
    return results


def save(folder: Path, results: Results) -> None:
    """Write what is stored of a run, whole or not at all, with its checksum."""
    tree = {"schema": SCHEMA, "results": results}
    tree["sha256"] = digest(json.dumps(tree).encode())
    with writing(folder), atomic_write(folder / FILE) as file:
        file.write(json.dumps(tree).encode())


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
) -> tuple[list[Probed], dict[str, int]]:
    """Evaluate runs under interventions, as far as that is not stored yet, and sum up.

    words: as `interventions.choose` reads them; all interventions where there are none. limit:
    texts of the test set. Also returns why something was left out, with its exit code. Raises
    `UserError` where nothing could be done.
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
    settings = ["train.device=auto", f"train.threads={max(cores // len(runs), 1)}"]
    load_data = functools.lru_cache(maxsize=1)(encode.load)
    ids, works, num_batches = list[str](), list[Iterator[None]](), 0
    for run in {run.path: run for run in runs}.values():
        model, num_texts = run.result.config["model"], run.result.data["n_test"]
        num_heads = model.get("heads", 0) * model.get("layers", 1)
        names = [name for word in known for name in interventions.choose(word, num_heads)]
        limited = [f"data.limit_test={limit}"] if limit and limit < num_texts else []
        num_texts = min(limit or num_texts, num_texts)
        by_id = {_id(name, num_texts): name for name in names}
        ids += by_id
        stored = load(run.path)
        if missing := {id: name for id, name in by_id.items() if id not in stored}:
            words_of_run = [*settings, *limited]
            open_run = functools.partial(
                load_trained, run, words_of_run, trust_code=trust_code, load=load_data
            )
            works.append(_probe_run(run.path, open_run, missing, reasons))
            num_batches += -(-num_texts // batch_size_of(where)) * (1 + len(missing))
    for _ in progress.track(_side_by_side(works, cores), total=num_batches, label="probing"):
        pass
    found = summarise(runs, list(dict.fromkeys(ids)))
    if not any(one.effects or one.measures for one in found):
        impossible = {f"{k}: {v}." for one in found for k, v in one.impossible.items()}
        raise UserError("\n".join(["Nothing could be probed.", *reasons, *sorted(impossible)]))
    return found, reasons


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
            if name == interventions.ATTENTION:
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
                found = _compare(answers, intact, test.labels)
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


def _compare(answers: Tensor, intact: Tensor, labels: Tensor) -> dict[str, Any]:
    """What is stored of an intervention: which texts it won and lost against the intact model."""
    before, after = intact == labels, answers == labels
    return {
        "accuracy": float(before.double().mean()),
        "flips": float((answers != intact).double().mean()),
        "won": _pack(after & ~before),
        "lost": _pack(before & ~after),
    }


def _read(model: nn.Module, ids: Tensor) -> dict[str, Any]:
    """What is stored of `attention`: measures of heads, and relevances of k texts, (k, T)."""
    rows = torch.linspace(0, len(ids) - 1, min(NUM_READ, len(ids))).long()
    ids = ids[rows.to(ids.device)]
    found = {}
    for why, of_tokens in relevance.WHY.items():
        with suppress(ValueError):  # no attention, or no gradient
            values = of_tokens(model, ids).abs().masked_fill(ids == PAD, torch.nan)
            packed = values.cpu().numpy().astype(np.float16).tobytes()
            found[why] = base64.b64encode(packed).decode()
    return {"tokens": ids.shape[1], "relevance": found, "heads": relevance.heads(model, ids)}


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


def summarise(runs: Sequence[Run], ids: Sequence[str] = ()) -> list[Probed]:
    """What is stored of each variant under these ids, or at all.

    Of several results of one intervention those count that most seeds have, then those of most
    texts.
    """
    found = []
    for group in comparison_groups(runs):
        for label, of_variant in by_variant(group).items():
            stored = {replicate(run.result.config): load(run.path) for run in of_variant}
            by_name: dict[str, Results] = {}
            for id in ids or dict.fromkeys(id for results in stored.values() for id in results):
                by_seed = {k: results[id] for k, results in stored.items() if id in results}
                for name in {result["name"] for result in by_seed.values()}:
                    by_name[name] = max(by_name.get(name, {}), by_seed, key=_extent)
            if by_name:
                found.append(_summarise(of_variant[0].result.data["name"], label, by_name))
    return found


def _extent(by_seed: Results) -> tuple[int, int]:
    return len(by_seed), max((result["n"] for result in by_seed.values()), default=0)


def _summarise(data: str, label: str, by_name: dict[str, Results]) -> Probed:
    """by_name: what is stored, by intervention and seed."""
    read = [*by_name.pop(interventions.ATTENTION, {}).values()]
    impossible = {
        name: result["impossible"]
        for name, by_seed in by_name.items()
        for result in by_seed.values()
        if "impossible" in result
    }
    return Probed(
        data=data,
        variant=label,
        effects={name: _effect(by) for name, by in by_name.items() if name not in impossible},
        impossible=impossible,
        measures=_measures(read),
    )


def _effect(by_seed: Results) -> Effect:
    intact = {seed: result["accuracy"] for seed, result in by_seed.items()}
    changed = dict[str, float]()
    for seed, result in by_seed.items():
        won, lost = _unpack(result, "won"), _unpack(result, "lost")
        changed[seed] = intact[seed] + float(won.mean() - lost.mean())
    pair = paired(changed, intact)
    assert pair is not None
    flips = float(np.mean([result["flips"] for result in by_seed.values()]))
    return Effect(texts=_extent(by_seed)[1], accuracy=pair, flips=flips)


def _measures(read: Sequence[dict[str, Any]]) -> dict[str, Mean]:
    """Means of what is stored of `attention`, a dict for each seed."""
    found: dict[str, list[float]] = {}
    before: dict[str, NDArray[np.float16]] = {}
    for one in read:
        for what, of_heads in one["heads"].items():
            for head, value in enumerate(of_heads, start=1):
                found.setdefault(f"{what}, head {head}", []).append(value)
        arrays = {
            why: np.frombuffer(base64.b64decode(packed), np.float16).reshape(-1, one["tokens"])
            for why, packed in one["relevance"].items()
        }
        pairs = {f"{a}, {b}": (arrays[a], arrays[b]) for a, b in combinations(arrays, 2)}
        pairs |= {f"{why}, two seeds": (before[why], arrays[why]) for why in before}
        for name, pair in pairs.items():
            found.setdefault(name, []).extend(_tau(*pair))
        before = arrays
    return {name: Mean.of(values) for name, values in found.items() if values}


def _tau(one: NDArray[np.float16], other: NDArray[np.float16]) -> list[float]:
    """Kendall's tau-b of relevances (k, T), mean over texts; none where one is constant."""
    from scipy.stats import kendalltau

    texts = zip(one, other, strict=True)
    taus = [kendalltau(a[~np.isnan(a)], b[~np.isnan(b)]).statistic for a, b in texts]
    defined = [float(tau) for tau in taus if np.isfinite(tau)]
    return [float(np.mean(defined))] if defined else []


def _pack(bits: Tensor) -> str:
    return base64.b64encode(predictions.pack(bits.cpu().numpy()).tobytes()).decode()


def _unpack(result: dict[str, Any], which: str) -> NDArray[np.bool_]:
    packed = np.frombuffer(base64.b64decode(result[which]), np.uint8)
    return predictions.unpack(packed, result["n"])
