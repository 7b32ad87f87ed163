"""What a sweep can find and how long it takes, foreseen before it begins."""

import json
import math
import platform
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pandas as pd
import torch

from attnexp.analysis.families import family_of_study
from attnexp.analysis.rows import kind_of_seeds
from attnexp.base.errors import RunFailed, UserError
from attnexp.config.compose import foreign_code
from attnexp.config.schema import ExecutorKind, Protocol, RunConfig, to_dict
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
    """What a sweep takes and what the judged one finds, as a record: seconds, or None where nothing
    tells, and differences by data set. missing: jobs that are still to do."""
    finished = _tabulate_finished_runs(sweep.jobs[0].config.out)
    is_in_memory = len({job.config.data for job in missing}) == 1  # as the last that was read
    can_try = is_in_memory and sweep.executor.kind is ExecutorKind.local
    num_epochs = Counter[str]()  # to do
    configs: dict[str, RunConfig] = {}  # one of each pace
    for job in missing:
        machine = (num_threads([job]), platform.platform())
        pace = _key_of(to_dict(job.config), job.config.model.kind, *machine)
        num_epochs[pace] += job.config.train.epochs
        configs[pace] = job.config
    seconds = 0.0
    for pace, config in configs.items():
        seconds_of_epoch = finished["seconds_of_epoch"][finished["pace"] == pace].mean()
        if math.isnan(seconds_of_epoch) and can_try:
            seconds_of_epoch = _try_epoch(config)
        seconds += seconds_of_epoch * num_epochs[pace] / num_slots(sweep.executor, missing)
    jobs_by_data = defaultdict[str, list[Job]](list)
    for job in judged.jobs:
        jobs_by_data[job.config.data.title].append(job)
    differences = [_foresee_difference(judged, jobs, finished) for jobs in jobs_by_data.values()]
    return {
        "seconds": None if math.isnan(seconds) else seconds,
        "differences": [record for record in differences if record],
    }


def _tabulate_finished_runs(out: str) -> pd.DataFrame:
    """A row for each of the runs under `out` that finished last. comparison: key of runs that are
    compared. pace: key of runs whose epochs take as long."""
    files = [*Path(out, store.RUNS).glob(f"*/{store.RESULT}")]
    files.sort(key=lambda file: file.stat().st_mtime)
    rows: list[dict[str, Any]] = []
    for file in files[-NEWEST:]:
        with suppress(UserError):  # a run that cannot be read says nothing
            result = store.load_result(file.parent)
            config = result.config
            machine = (result.provenance.get("threads"), result.provenance.get("platform"))
            is_blog = config["train"]["protocol"] == Protocol.blog
            row = {
                "comparison": _key_of(config),
                "pace": _key_of(config, config["model"]["kind"], *machine),
                "label": result.label,
                "seed": replicate(config),
                "accuracy": result.final.val_accuracy if is_blog else result.test.accuracy,
                "seconds_of_epoch": result.wall_seconds / len(result.epochs),
            }
            rows.append(row)
    columns = ["comparison", "pace", "label", "seed", "accuracy", "seconds_of_epoch"]
    table = pd.DataFrame(rows, columns=columns)
    return table.astype({"accuracy": float, "seconds_of_epoch": float})


def _key_of(config: dict[str, Any], *facts: object) -> str:
    """Data, protocol and kind of seeds of a config, and further facts."""
    protocol = config["train"]["protocol"]
    return json.dumps([config["data"], protocol, kind_of_seeds(config), *facts])


def _foresee_difference(
    sweep: Sweep, jobs: Sequence[Job], finished: pd.DataFrame
) -> dict[str, Any] | None:
    """The difference (a share) that jobs on one data set find in four of five cases, by the spread
    of finished runs on it, else as published. None without either, and for too few seeds."""
    config = jobs[0].config
    title = config.data.title
    comparable = finished[finished["comparison"] == _key_of(to_dict(config))]
    comparable = comparable.drop_duplicates(["label", "seed"], keep="last")
    by_variant = comparable.groupby("label")["accuracy"]
    variances = by_variant.var()[by_variant.count() >= FEWEST_SEEDS]
    sd = math.sqrt(2 * variances.mean())  # of the difference of two variants
    source = "finished runs"
    is_published = config.data.limit_train is None and jobs[0].seed == str(config.seed)
    if math.isnan(sd) and is_published:
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
    with device.restore_threads(), suppress(RunFailed):
        torch.set_num_threads(1)
        train, val, _ = make_splits(config, dataset, device.prepare(options))
        model = build_model(config, len(dataset.classes)).to(train.ids.device)
        device.choose_path(model, options)
        optimizer = make_optimizer(model, options)
        state = State(model=model, optimizer=optimizer, shuffle=torch.Generator())
        few = train[: STEPS * options.batch_size]
        loop.train_epoch(state, few[: options.batch_size], options)  # which sets torch up
        loop.train_epoch(state, few, options)
        row, _ = loop.measure_epoch(model, few, few, options, 1, state.running)
        in_training = state.running[2]
        in_evaluation = row.seconds - in_training
        return (len(train) * in_training + len(val) * in_evaluation) / len(few)
    return math.nan
