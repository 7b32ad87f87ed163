"""Folder of a sweep, which holds one plan, so that seeds join only those that they compare with."""

import json
from collections.abc import Sequence
from dataclasses import replace

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config.schema import RunConfig, is_seed, to_dict
from attnexp.config.settings import Tree, flatten
from attnexp.runs import manifest, store
from attnexp.runs.labels import NOT_COMPARED
from attnexp.runs.manifest import Manifest, PlannedRun
from attnexp.sweeps.plan import Jobs, Sweep
from attnexp.training.inputs import read_inputs


def assign_folder(sweep: Sweep) -> Sweep:
    """The sweep in the first folder of NAME, NAME-2, ... that is free or holds its plan. There it
    goes on with the study. Raises `UserError` where a NAME that was given holds another plan."""
    configs = {job.inputs_key: job.config for job in sweep.jobs}  # Those of one key read the same.
    fingerprints = {key: read_inputs(config).fingerprint for key, config in configs.items()}
    sweep = replace(sweep, fingerprints=fingerprints)
    planned = manifest_of(sweep)
    folder = sweep.directory
    reason = manifest.describe_other_plan(folder, planned)
    if reason and sweep.is_named:
        raise UserError(f"{reason} Give another name=NAME.")
    number = 1
    while manifest.describe_other_plan(folder, planned):
        number += 1
        folder = sweep.directory.with_name(f"{sweep.directory.name}-{number}")
    if reason:
        progress.note(f"{reason} This one is in {folder}.")
    stored = manifest.load_manifest(folder)
    if stored:
        sweep = _continue_study(stored, sweep)
    return replace(sweep, directory=folder)


def _continue_study(stored: Manifest, sweep: Sweep) -> Sweep:
    """A sweep that goes on with a study, sequential if either is. A complete study of fixed seeds
    has given an answer, so reports name all seeds that are added from then on."""
    paths = [store.run_dir(sweep.jobs[0].config.out, run.run_id) for run in stored.runs]
    is_complete = not stored.sequential and all(map(store.has_finished, paths))
    was_complete = bool(stored.added_seeds)  # Otherwise none would have been noted.
    added_seeds = list(stored.added_seeds)
    if is_complete or was_complete:
        stored_seeds = {run.seed for run in stored.runs}
        seeds = [job.seed_name for job in sweep.jobs]
        added_seeds += [seed for seed in seeds if seed not in stored_seeds]
    sequential = sweep.sequential or stored.sequential
    return replace(sweep, sequential=sequential, added_seeds=tuple(dict.fromkeys(added_seeds)))


def manifest_of(sweep: Sweep, runs: Sequence[PlannedRun] = ()) -> Manifest:
    """The manifest of a sweep, with these of its runs."""
    seeds = {run.seed for run in runs}
    varied_seeds = _varied_seeds(sweep.jobs)
    variants = {}
    for label, levels in sweep.levels_by_label.items():
        variants[label] = levels if len(levels) == 2 else {}  # Reports cross two factors or none.
    return Manifest(
        variants=variants,
        settings=_settings_of_plan(sweep, varied_seeds),
        seed_kind=" x ".join(varied_seeds),
        commands=[sweep.command],
        runs=list(runs),
        sequential=sweep.sequential,
        added_seeds=[seed for seed in sweep.added_seeds if seed in seeds],
        metric=sweep.metric.name,
        margin=sweep.metric.margin,
    )


def _varied_seeds(jobs: Jobs) -> list[str]:
    """Keys of the seeds that differ between jobs; else those of `seeds.*` given; else `seed`."""
    first, *others = [flatten(job.seeds) for job in jobs]
    varied = [key for key in first if any(other[key] != first[key] for other in others)]
    given = [key for key in first if key != "seed" and first[key] is not None]
    return sorted(varied or given) or ["seed"]


def _settings_of_plan(sweep: Sweep, varied_seeds: Sequence[str]) -> dict[str, Tree]:
    """Settings by variant and data set, each with the fingerprint of its data."""
    by_variant: dict[str, Tree] = {label: {} for label in sweep.levels_by_label}
    for job in sweep.jobs:
        by_data = by_variant[job.label]
        data = job.config.data.title
        if data not in by_data:  # The next jobs differ in seed alone.
            by_data[data] = _common_settings(job.config, varied_seeds)
            by_data[data][manifest.FINGERPRINT] = sweep.fingerprints[job.inputs_key]
    return by_variant


def _common_settings(config: RunConfig, varied_seeds: Sequence[str]) -> Tree:
    """Settings, and other seeds, that a variant's runs on a data set have in common."""
    common = {}
    for key, value in flatten(to_dict(config)).items():
        is_unset = is_seed(key) and value is None
        if key not in NOT_COMPARED and key not in varied_seeds and not is_unset:
            common[key] = value
    return dict(json.loads(json.dumps(common)))  # Plans are compared as study.json holds them.
