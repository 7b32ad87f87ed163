"""Folder of a sweep: where its plan is recorded, and may be found again.

A folder holds one plan, so that seeds join only those that may be compared with them.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config.schema import RunConfig, flatten, is_seed, to_dict
from attnexp.runs import store
from attnexp.runs.manifest import Manifest, PlannedRun, describe_other_plan, load_manifest
from attnexp.sweeps.plan import Job, Sweep

NOT_OF_A_PLAN = ("out", "train.device", "train.threads", "train.fast")
"""Settings that a study's runs may differ in: the place, the machine, the fast path."""


def choose_folder(sweep: Sweep) -> Sweep:
    """The sweep with its folder, and with what the study there says of added seeds.

    Without a name the folder is the first of NAME, NAME-2, ... that holds this plan or is free.
    Raises `UserError` where a given name's folder holds another plan.
    """
    planned = manifest_of(sweep, [])
    folder = sweep.directory
    reason = ""
    number = 1
    while True:
        stored = load_manifest(folder)
        difference = "" if stored is None else describe_other_plan(stored, planned)
        if not difference:
            if reason:
                progress.note(f"{reason}. This one is in {folder}.")
            return _continue_study(stored, replace(sweep, directory=folder))
        if sweep.is_named:
            raise UserError(
                f"{folder} holds another plan ({difference}). Choose another name=NAME."
            )
        reason = reason or f"{folder} holds another plan ({difference})"
        number += 1
        folder = sweep.directory.with_name(f"{sweep.directory.name}-{number}")


def _continue_study(stored: Manifest | None, sweep: Sweep) -> Sweep:
    """A sweep with the declaration of the study that it continues, and the seeds that were added to
    the study, or are added now, after it had its answer."""
    if stored is None:
        return sweep
    out = sweep.jobs[0].config.out
    paths = [store.run_dir(out, run.run_id) for run in stored.runs]
    is_complete = stored.declaration is None and all(map(store.has_finished, paths))
    added_seeds = dict.fromkeys(stored.added_seeds)
    if is_complete or added_seeds:
        stored_seeds = {run.seed for run in stored.runs}
        added_seeds |= dict.fromkeys(job.seed for job in sweep.jobs if job.seed not in stored_seeds)
    return replace(
        sweep,
        declaration=sweep.declaration or stored.declaration,
        added_seeds=tuple(added_seeds),
    )


def manifest_of(sweep: Sweep, runs: Iterable[PlannedRun]) -> Manifest:
    """The study of a sweep with these of its runs."""
    runs = list(runs)
    seeds = {run.seed for run in runs}
    kind = _seed_kind(sweep.jobs)
    plan_settings: dict[str, dict[str, Any]] = {label: {} for label in sweep.variants}
    for job in sweep.jobs:
        by_data = plan_settings[job.label]
        if job.config.data.title not in by_data:
            by_data[job.config.data.title] = _settings_of_plan(job.config, kind)
    return Manifest(
        variants=sweep.variants,
        settings=plan_settings,
        seed_kind=" x ".join(kind),
        commands=[sweep.command],
        runs=runs,
        declaration=sweep.declaration,
        added_seeds=[seed for seed in sweep.added_seeds if seed in seeds],
    )


def _seed_kind(jobs: Sequence[Job]) -> list[str]:
    """Keys of the seeds that differ between jobs; of a single seed those that are given."""
    first = _seeds(jobs[0].config)
    varied: dict[str, None] = {}
    for job in jobs:
        for key, number in _seeds(job.config).items():
            if number != first[key]:
                varied[key] = None
    sources = [key for key, number in first.items() if key != "seed" and number is not None]
    return sorted(varied) or sources or ["seed"]


def _seeds(config: RunConfig) -> dict[str, int | None]:
    """Every seed of a run, by key."""
    sources = asdict(config.seeds).items()
    return {"seed": config.seed} | {f"seeds.{source}": number for source, number in sources}


def _settings_of_plan(config: RunConfig, seed_kind: Sequence[str]) -> dict[str, Any]:
    """What all runs of a variant on a data set have in common: settings, and fixed seeds if another
    kind of seeds varies."""
    flat = {key: value for key, value in flatten(to_dict(config)).items() if not is_seed(key)}
    for key in NOT_OF_A_PLAN:
        flat.pop(key, None)
    for key, number in _seeds(config).items():
        if key not in seed_kind and number is not None:
            flat[key] = number
    plan_settings: dict[str, Any] = json.loads(json.dumps(flat))  # as study.json gives it back
    return plan_settings
