"""What a sweep can find and how long it takes, foreseen before it begins."""

import json
import math
import platform
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pandas as pd
import torch

from attnexp.analysis.families import family_of_study
from attnexp.analysis.rows import kind_of_seeds
from attnexp.base.errors import RunFailed, UserError
from attnexp.config.schema import ExecutorKind, RunConfig, foreign_code, to_dict
from attnexp.network.build import build_model
from attnexp.runs import store
from attnexp.runs.labels import replicate
from attnexp.statistics.defaults import FEWEST_SEEDS
from attnexp.statistics.planning import smallest_difference
from attnexp.sweeps.executors import num_slots, num_threads
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
    """Seconds that a sweep takes, None where nothing tells, and what the judged one can find."""
    finished = _tabulate_finished_runs(sweep.jobs[0].config.out)
    seconds = _foresee_seconds(sweep, missing, finished)
    jobs_by_data = defaultdict[str, list[Job]](list)
    for job in judged.jobs:
        jobs_by_data[job.config.data.title].append(job)
    differences: list[dict[str, Any]] = []
    for jobs in jobs_by_data.values():
        difference = _foresee_difference(judged, jobs, finished)
        if difference is not None:
            differences.append(difference)
    return {"seconds": None if math.isnan(seconds) else seconds, "differences": differences}


def _foresee_seconds(sweep: Sweep, missing: Sequence[Job], finished: pd.DataFrame) -> float:
    """Duration of a sweep, by finished runs of the same pace, else by a trial. NaN if unknown."""
    is_in_memory = len({job.config.data for job in missing}) == 1  # as the last that was read
    can_try = is_in_memory and sweep.executor.kind is ExecutorKind.local
    slots = num_slots(sweep.executor, missing)
    num_runs = Counter(job.title for job in missing)
    last_jobs = {job.title: job for job in missing}  # seeds make no difference
    seconds_by_pace: dict[str, float] = {}
    seconds = 0.0
    for title, job in last_jobs.items():
        config = job.config
        pace = _pace_of(to_dict(config), num_threads([job]), platform.platform())
        if pace not in seconds_by_pace:
            has_pace = finished["pace"] == pace
            seconds_of_epoch = finished["seconds_of_epoch"][has_pace].mean()
            if math.isnan(seconds_of_epoch) and can_try:
                seconds_of_epoch = _try_epoch(config)
            seconds_by_pace[pace] = seconds_of_epoch
        num_epochs = num_runs[title] * config.train.epochs
        seconds += seconds_by_pace[pace] * num_epochs / slots
    return seconds


def _tabulate_finished_runs(out: str) -> pd.DataFrame:
    """A row for each of the runs under `out` that finished last."""
    newest = store.list_finished(out)[:NEWEST]
    rows: list[tuple[Any, ...]] = []
    for path in reversed(newest):
        with suppress(UserError):  # a run that cannot be read says nothing
            result = store.load_result(path)
            config = result.config
            machine = result.provenance
            pace = _pace_of(config, machine.get("threads"), machine.get("platform"))
            seconds = result.wall_seconds / len(result.epochs)
            comparison = _comparison_of(config)
            seed = replicate(config)
            rows.append((comparison, pace, result.label, seed, result.accuracy, seconds))
    columns = ["comparison", "pace", "label", "seed", "accuracy", "seconds_of_epoch"]
    table = pd.DataFrame(rows, columns=columns)
    return table.astype({"accuracy": float, "seconds_of_epoch": float})  # without rows, too


def _comparison_of(config: dict[str, Any]) -> str:
    """Key of runs that are compared: data, protocol and kind of seeds."""
    protocol = config["train"]["protocol"]
    return json.dumps([config["data"], protocol, kind_of_seeds(config)])


def _pace_of(config: dict[str, Any], threads: int | None, machine: str | None) -> str:
    """Key of runs whose epochs take as long."""
    return json.dumps([_comparison_of(config), config["model"]["kind"], threads, machine])


def _foresee_difference(
    sweep: Sweep, jobs: Sequence[Job], finished: pd.DataFrame
) -> dict[str, Any] | None:
    """The difference (a share) that jobs on one data set find in four of five cases, by the spread
    of finished runs on it, else as published. None without either, and for too few seeds."""
    config = jobs[0].config
    title = config.data.title
    comparison = _comparison_of(to_dict(config))
    comparable = finished[finished["comparison"] == comparison]
    comparable = comparable.drop_duplicates(["label", "seed"], keep="last")
    by_variant = comparable.groupby("label")["accuracy"]
    has_enough = by_variant.count() >= FEWEST_SEEDS
    variance = by_variant.var()[has_enough].mean()
    sd = math.sqrt(2 * variance)  # of the difference of two variants
    source = "finished runs"
    has_all_texts = config.data.limit_train is None
    has_main_seeds = jobs[0].seed == str(config.seed)
    if math.isnan(sd) and has_all_texts and has_main_seeds:  # as in the published studies
        sd = PUBLISHED_SD.get(title, math.nan)
        source = "the published studies blog and blog_data"
    num_seeds = Counter(job.label for job in jobs)
    n = min(num_seeds.values())
    m = len(family_of_study(sweep.variants))
    can_tell = sd > 0 and m > 0 and n >= FEWEST_SEEDS
    if not can_tell:
        return None
    difference = smallest_difference(sd, n, m, anytime=sweep.declaration is not None)
    words = (
        f"{title}, {n} seeds, {len(num_seeds)} variants: differences from about "
        f"{100 * difference:.2g} points are found in four of five cases, by {source}."
    )
    record = {"data": title, "seeds": n, "m": m, "sd": sd}
    return record | {"difference": difference, "words": words}


def _try_epoch(config: RunConfig) -> float:
    """Seconds of an epoch, by twenty steps and the evaluation of their texts on one thread, as in a
    sweep. NaN for a baseline, for the user's code, and where the loss is."""
    if not config.is_network or foreign_code(to_dict(config)):
        return math.nan
    options = config.train
    dataset = load_data(config.data, config.seeds.resample)
    with device.restore_process(), suppress(RunFailed):
        torch.set_num_threads(1)
        processor = device.prepare(options)
        train, val, _ = make_splits(config, dataset, processor)
        model = build_model(config, len(dataset.classes))
        model.to(processor)
        device.choose_path(model, options)
        optimizer = make_optimizer(model, options)
        state = State(model=model, optimizer=optimizer, shuffle=torch.Generator())
        few = train[: STEPS * options.batch_size]
        first_batch = train[: options.batch_size]
        loop.train_epoch(state, first_batch, options)  # which sets torch up
        loop.train_epoch(state, few, options)
        row, _ = loop.measure_epoch(model, few, few, options, 1, state.running)
        _, _, in_training = state.running
        in_evaluation = row.seconds - in_training
        seconds = len(train) * in_training + len(val) * in_evaluation
        return seconds / len(few)
    return math.nan
