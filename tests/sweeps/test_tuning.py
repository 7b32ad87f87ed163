"""A search before a study: every variant at its best, chosen by neither its seeds nor the test."""

from dataclasses import replace
from pathlib import Path

import pytest
from sweeping import finished

from attnexp.base.errors import RunFailed, UserError
from attnexp.runs.result import Run
from attnexp.sweeps.schedule import run_sweep, scan
from attnexp.sweeps.tuning import Tuning, choose_settings, plan_tuning

GRID = ["tune=train.lr=1e-9,5e-2", "tune.seeds=7,8"]


def small(tmp_path: Path, *words: str) -> Tuning:
    start = ["study=blog", "data=contrast", "train.epochs=2", "seed=0,1", "executor.workers=1"]
    return plan_tuning([*start, *(words or GRID), f"out={tmp_path}"])


@pytest.mark.usefixtures("done")
def test_each_variant_runs_as_chosen_on_held_out_data_and_nothing_runs_twice(
    tmp_path: Path,
) -> None:
    tuning = small(tmp_path)
    searched = run_sweep(tuning.search)
    configs = [run.result.config for run in finished(searched)]
    assert [(config["train"]["protocol"], config["seed"]) for config in configs[::4]] == [
        ("holdout", 7), ("holdout", 8)
    ]  # fmt: skip
    study, lines = choose_settings(tuning, searched)
    assert [*study.variants] == ["no_pe, train.lr=0.05 of 2", "pe, train.lr=0.05 of 2"]
    assert len(lines) == 4
    runs = [
        (run.label[:5], run.result.seed, run.result.config["train"]["lr"])
        for run in finished(run_sweep(study))
    ]
    assert runs == [("no_pe", 0, 0.05), ("pe, t", 0, 0.05), ("no_pe", 1, 0.05), ("pe, t", 1, 0.05)]
    assert {job.config.train.protocol for job in study.jobs} == {"blog"}
    assert all(entry.before for entry in (*scan(tuning.search), *scan(study)))
    assert {path.name for path in tmp_path.glob("[!.]*")} == {"runs", "blog_tuning", "blog_tuned"}


@pytest.mark.parametrize(("protocol", "best"), [("blog", "0.01"), ("holdout", "0.003")])
def test_the_highest_mean_on_held_out_data_is_chosen_without_failed_runs(
    tmp_path: Path, template: Run, protocol: str, best: str
) -> None:
    """The mean of the last epoch counts, or of the best one where the study chooses epochs."""
    tuning = small(tmp_path, "tune=train.lr=1e-3,3e-3,1e-2,3e-2", f"train={protocol}")
    entries = scan(tuning.search)
    first_row, last_row = template.result.epochs
    accuracies = {1e-3: (0.5, 0.6), 3e-3: (0.9, 0.5), 1e-2: (0.7, 0.7), 3e-2: (0.99, 0.99)}
    for entry in entries:
        first, last = accuracies[entry.job.config.train.lr]
        high = replace(first_row, val_accuracy=max(first, last))
        final = replace(last_row, val_accuracy=last)
        result = replace(template.result, best=high, final=final)
        entry.outcome = Run(path=entry.path, result=result)
        if (entry.job.config.seed, entry.job.config.train.lr) == (1001, 3e-2):
            entry.outcome = "the loss is nan"
    study, _ = choose_settings(tuning, entries)
    assert [*study.variants] == [f"{name}, train.lr={best} of 4" for name in ("no_pe", "pe")]
    assert {job.config.train.lr for job in study.jobs} == {float(best)}
    for entry in entries:
        entry.outcome = "the loss is nan"
    with pytest.raises(RunFailed, match="no_pe: every setting of the search has a failed run"):
        choose_settings(tuning, entries)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["tune=train.lr=1e-3,1e-2", "tune.seeds=range(3)"], "other seeds than those"),
        (["tune=position=none,rotary"], "varies this setting itself"),
        (["tune.seeds=range(3)"], "Write tune=KEY=V1,V2"),
        (["tune.seed=3", "tune=train.lr=1,2"], "Write tune=KEY=V1,V2"),
        (["tune=train.rate=1,2"], "train.rate"),
        (["tune=seed=5,6"], "tune=seed: the sweep itself sets this"),
    ],
)
def test_a_wrong_search_is_told_before_it_starts(
    tmp_path: Path, words: list[str], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        small(tmp_path, *words)
