"""What a sweep can find and how long it takes, foreseen before it begins."""

import math
import platform
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import torch

from attnexp.analysis.families import family_of_study
from attnexp.analysis.rows import kind_of_seeds
from attnexp.base.errors import RunFailed, UserError
from attnexp.config.compose import foreign_code
from attnexp.config.schema import ExecutorKind, Protocol, RunConfig, to_dict
from attnexp.network.build import build_model
from attnexp.runs import store
from attnexp.runs.labels import replicate
from attnexp.runs.result import RunResult
from attnexp.statistics.planning import smallest_difference
from attnexp.statistics.verdict import FEWEST_SEEDS
from attnexp.sweeps.executors import num_slots
from attnexp.sweeps.plan import Job, Sweep
from attnexp.training import device, loop
from attnexp.training.optimizer import make_optimizer
from attnexp.training.run import load_data, make_splits
from attnexp.training.state import State

NEWEST = 200  # finished runs that are read
STEPS = 20  # of a trial
PUBLISHED_SD = {"imdb": 0.0065, "trec": 0.027, "subj": 0.0071, "cr": 0.025, "mpqa": 0.053}
PUBLISHED_SD |= {"sst2": 0.017, "emotion": 0.034, "irony": 0.051}
"""Standard deviation of pe − no_pe in the published studies blog and blog_data; shares."""


def foresee(sweep: Sweep, judged: Sweep, missing: Sequence[Job]) -> dict[str, Any]:
    """What a sweep takes and what the judged one finds, as a record: seconds, or None where nothing
    tells, and differences by data set. missing: jobs that are still to do."""
    results = _load_newest(sweep.jobs[0].config.out)
    is_in_memory = len({job.config.data for job in missing}) == 1  # as the last that was read
    trial = is_in_memory and sweep.executor.kind is ExecutorKind.local
    seconds = _foresee_seconds(missing, results, trial=trial) / num_slots(sweep.executor, missing)
    jobs_of_data = defaultdict[str, list[Job]](list)
    for job in judged.jobs:
        jobs_of_data[job.config.data.title].append(job)
    differences = [_foresee_difference(judged, jobs, results) for jobs in jobs_of_data.values()]
    return {
        "seconds": seconds if math.isfinite(seconds) else None,
        "differences": [record for record in differences if record],
    }


def _load_newest(out: str) -> list[RunResult]:
    """Results of the runs under `out` that finished last, these at the end."""
    files = [*Path(out, store.RUNS).glob(f"*/{store.RESULT}")]
    files.sort(key=lambda file: file.stat().st_mtime)
    results = []
    for file in files[-NEWEST:]:
        with suppress(UserError):  # a run that cannot be read says nothing
            results.append(store.load_result(file.parent))
    return results


def _foresee_difference(
    sweep: Sweep, jobs: Sequence[Job], results: Sequence[RunResult]
) -> dict[str, Any] | None:
    """The difference (a share) that jobs on one data set find in four of five cases, by the spread
    of finished runs on it, else as published. None without either, and for too few seeds."""
    config = jobs[0].config
    title = config.data.title
    sd = _spread(_runs_like(config, results))
    source = "finished runs"
    if sd is None and config.data.limit_train is None and jobs[0].seed == str(config.seed):
        sd = PUBLISHED_SD.get(title)
        source = "the published studies blog and blog_data"
    num_seeds = Counter(job.label for job in jobs)
    n = min(num_seeds.values())
    m = len(family_of_study(sweep.variants))
    if not sd or not m or n < FEWEST_SEEDS:
        return None
    difference = smallest_difference(sd, n, m, anytime=sweep.declaration is not None)
    words = (
        f"{title}, {n} seeds, {len(num_seeds)} variants: differences from about "
        f"{100 * difference:.2g} points are found in four of five cases, by {source}."
    )
    about = {"data": title, "seeds": n, "m": m, "sd": sd}
    return about | {"difference": difference, "words": words}


def _runs_like(config: RunConfig, results: Sequence[RunResult]) -> list[RunResult]:
    """Runs with the data, protocol and kind of seeds of a config."""
    wanted = _place_of(to_dict(config))
    return [result for result in results if _place_of(result.config) == wanted]


def _place_of(config: dict[str, Any]) -> tuple[Any, ...]:
    return config["data"], config["train"]["protocol"], kind_of_seeds(config)


def _spread(results: Iterable[RunResult]) -> float | None:
    """Standard deviation of the difference of two variants, a mean over those with three seeds."""
    accuracies = defaultdict[str, dict[str, float]](dict)
    for result in results:
        is_blog = result.config["train"]["protocol"] == Protocol.blog
        accuracy = result.final.val_accuracy if is_blog else result.test.accuracy
        accuracies[result.label][replicate(result.config)] = accuracy
    by_variant = [list(seeds.values()) for seeds in accuracies.values()]
    variances = [variance(values) for values in by_variant if len(values) >= FEWEST_SEEDS]
    return math.sqrt(2 * fmean(variances)) if variances else None


def _foresee_seconds(jobs: Sequence[Job], results: Sequence[RunResult], *, trial: bool) -> float:
    """Seconds of jobs one after another, by finished runs on this machine, else by a trial where it
    is allowed; NaN where nothing tells."""
    alike = defaultdict[Any, list[RunConfig]](list)  # on the same data, with one kind of model
    for job in jobs:
        alike[job.config.data, job.config.model.kind].append(job.config)
    total = 0.0
    for configs in alike.values():
        of_epoch = _seconds_of_epoch(configs[0], results)
        if math.isnan(of_epoch) and trial:
            of_epoch = _try_epoch(configs[0])
        total += of_epoch * sum(config.train.epochs for config in configs)
    return total


def _seconds_of_epoch(config: RunConfig, results: Sequence[RunResult]) -> float:
    """Seconds of an epoch, a mean over runs on this machine with as many threads; NaN without."""
    machine = (platform.platform(), config.train.threads or 1)
    seconds = []
    for result in _runs_like(config, results):
        provenance = result.provenance
        is_here = (provenance.get("platform"), provenance.get("threads")) == machine
        if is_here and result.config["model"]["kind"] == config.model.kind:
            seconds.append(result.wall_seconds / len(result.epochs))
    return fmean(seconds) if seconds else math.nan


def _try_epoch(config: RunConfig) -> float:
    """Seconds of an epoch, by twenty steps and the evaluation of their texts on one thread, as in a
    sweep. NaN for a baseline, for the user's code, and where the loss is."""
    if not config.is_network or foreign_code(to_dict(config)):
        return math.nan
    options = config.train
    dataset = load_data(config.data, config.seeds.resample)
    with device.restore_threads():
        torch.set_num_threads(1)
        train, val, _ = make_splits(config, dataset, device.prepare(options))
        model = build_model(config, len(dataset.classes)).to(train.ids.device)
        device.choose_path(model, options)
        optimizer = make_optimizer(model, options)
        state = State(model=model, optimizer=optimizer, shuffle=torch.Generator())
        few = train[: STEPS * options.batch_size]
        try:
            loop.train_epoch(state, few[: options.batch_size], options)  # which sets torch up
            loop.train_epoch(state, few, options)
        except RunFailed:
            return math.nan
        row, _ = loop.measure_epoch(model, few, few, options, 1, state.running)
    in_training = state.running[2]
    in_evaluation = row.seconds - in_training
    return (len(train) * in_training + len(val) * in_evaluation) / len(few)
