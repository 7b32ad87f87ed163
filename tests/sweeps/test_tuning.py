"""A search before a study: every variant at its best, chosen by neither its seeds nor the test."""

import random
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import pytest
from sweeping import finished

from attnexp.base.errors import RunFailed, UserError
from attnexp.runs.result import Run
from attnexp.sweeps.schedule import run_sweep, scan
from attnexp.sweeps.tuning import Tuning, choose, plan_tuning

WORDS = ["study=blog", "data=contrast", "train.epochs=2", "seed=0,1", "executor.workers=1"]
GRID = ["tune=train.lr=1e-9,5e-2", "tune.seeds=7,8"]


def small(tmp_path: Path, *words: str) -> Tuning:
    return plan_tuning([*WORDS, *(words or GRID), f"out={tmp_path}"])


@pytest.mark.usefixtures("done")
def test_each_variant_runs_as_chosen_on_held_out_data_and_nothing_runs_twice(
    tmp_path: Path,
) -> None:
    tuning = small(tmp_path)
    searched = run_sweep(tuning.search)
    configs = [run.result.config for run in finished(searched)]
    assert len(configs) == 8
    assert {config["train"]["protocol"] for config in configs} == {"holdout"}
    assert {config["seed"] for config in configs} == {7, 8}
    study, lines = choose(tuning, searched)
    assert [*study.variants] == ["no_pe, train.lr=0.05 of 2", "pe, train.lr=0.05 of 2"]
    assert len(lines) == 4
    entries = run_sweep(study)
    found = [
        (run.label.partition(",")[0], run.result.seed, run.result.config["train"]["lr"])
        for run in finished(entries)
    ]
    assert found == [("no_pe", 0, 0.05), ("pe", 0, 0.05), ("no_pe", 1, 0.05), ("pe", 1, 0.05)]
    assert {run.result.config["train"]["protocol"] for run in finished(entries)} == {"blog"}
    assert all(entry.before for entry in (*scan(tuning.search), *scan(study)))
    assert {path.name for path in tmp_path.iterdir()} == {"runs", "blog_tuning", "blog_tuned"}


@pytest.mark.parametrize("protocol", ["blog", "holdout"])
def test_the_highest_mean_on_held_out_data_is_chosen(
    tmp_path: Path, template: Run, protocol: str
) -> None:
    """The mean of the last epoch counts, or of the best one where the study chooses epochs."""
    tuning = small(tmp_path, "tune=train.lr=1e-3,3e-3,1e-2", f"train={protocol}")
    entries, chance = scan(tuning.search), random.Random(0)
    assert len(entries) == 2 * 3 * 3
    for _ in range(20):
        counted: dict[str, list[float]] = {}
        for entry in entries:
            rows = [replace(one, val_accuracy=chance.random()) for one in template.result.epochs]
            best = max(rows, key=lambda one: one.val_accuracy)
            result = replace(template.result, epochs=rows, final=rows[-1], best=best)
            entry.outcome = Run(path=entry.path, result=result)
            value = (rows[-1] if protocol == "blog" else best).val_accuracy
            counted.setdefault(entry.job.label, []).append(value)
        study, _ = choose(tuning, entries)
        for variant, label in zip(("no_pe", "pe"), study.variants, strict=True):
            own = {name: fmean(found) for name, found in counted.items()}
            best_name = max((n for n in own if n.startswith(f"{variant} ")), key=own.__getitem__)
            assert label == f"{best_name.replace(' ', ', ')} of 3"
            lr = float(best_name.partition("train.lr=")[2])
            assert {job.config.train.lr for job in study.jobs if job.label == label} == {lr}


def test_a_setting_with_a_failed_run_is_not_chosen(tmp_path: Path, template: Run) -> None:
    tuning = small(tmp_path)
    entries = scan(tuning.search)
    for entry in entries:
        fails = (entry.job.config.seed, entry.job.config.train.lr) == (7, 5e-2)
        entry.outcome = "the loss is nan" if fails else template
    study, _ = choose(tuning, entries)
    assert [*study.variants] == ["no_pe, train.lr=1e-09 of 2", "pe, train.lr=1e-09 of 2"]
    for entry in entries:
        entry.outcome = "the loss is nan"
    with pytest.raises(RunFailed, match="no_pe: every setting of the search has a failed run"):
        choose(tuning, entries)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tune=train.lr=1e-3,1e-2", "tune.seeds=range(3)"], "other seeds than those"),
        (["tune=train.lr=1e-3,1e-2", "position=none"], "varies this setting itself"),
        (["tune=position=none,rotary"], "varies this setting itself"),
        (["tune.seeds=range(3)"], "Write tune=KEY=V1,V2"),
        (["tune.seed=3", "tune=train.lr=1,2"], "Write tune=KEY=V1,V2"),
        (["tune=train.rate=1,2"], "train.rate"),
    ],
)
def test_a_wrong_search_is_told_before_it_starts(
    tmp_path: Path, words: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        small(tmp_path, *words)
