"""Sweeps that results direct: seeds added until it is decided, and a search before a study."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import Capture, Patch
from samples import stored_study
from sweeping import Pretend, finished

from attnexp.analysis.families import difference
from attnexp.base.errors import RunFailed
from attnexp.runs.result import Run
from attnexp.sweeps import sequential
from attnexp.sweeps.plan import Sweep
from attnexp.sweeps.schedule import SweepEntry, run_sweep, scan
from attnexp.sweeps.tuning import Tuning, choose_settings, plan_tuning

GRID = ["tune=train.lr=1e-9,5e-2", "tune.seeds=7,8"]
STUDY = """
baseline: slow
variants:
  slow: [train.lr=1e-9]
  fast: [train.lr=3e-2]
  noisy: [train.lr=1e-9, model.heads=2]
overrides: [data=contrast, train.epochs=2]
"""
"""What learns is far better than what does not; the noisy variant is as bad as the baseline."""


def sweep(tmp_path: Path, *words: str) -> Sweep:
    (tmp_path / "mine.yaml").write_text(STUDY)
    start = [f"study={tmp_path}/mine.yaml", f"out={tmp_path}", "executor.workers=1"]
    return sequential.plan_until_decided([*start, *words])


def seeds(planned: Sweep) -> dict[str, int]:
    entries = sequential.run_until_decided(planned)
    return Counter(run.label for run in finished(entries))


@pytest.mark.usefixtures("done")
def test_what_is_clear_ends_and_what_is_open_goes_on(tmp_path: Path, capsys: Capture) -> None:
    """With the statistics of today."""
    assert seeds(sweep(tmp_path, "seed=range(9)")) == {"slow": 9, "noisy": 9, "fast": 8}
    told = capsys.readouterr().err
    assert told.count("fast − slow, 8 seeds: helps") == 2
    assert "All seeds are used, and not every variant is decided." in told
    study = stored_study(tmp_path / "mine")
    assert study.sequential
    assert Counter(run.variant for run in study.runs) == {"slow": 9, "noisy": 9, "fast": 8}
    assert study.commands[-1].endswith("'seed=range(9)' --until decided")
    more = sweep(tmp_path, "seed=range(10)")  # the budget may be raised
    assert seeds(more) == {"slow": 10, "noisy": 10, "fast": 8}


FAILING = [("fast", 2), ("slow", 2), ("noisy", 0), ("fast", 0)]
"""Variants and seeds of runs that fail."""


@pytest.mark.parametrize(
    ("slots", "failing", "num_seeds"),
    [
        (7, [], [10, 10, 10]),  # two at a time: 8, then 10
        (1, FAILING[:1], [9, 9, 7]),  # A failed run stops its variant,
        (1, FAILING[1:2], [7, 8, 8]),  # that of the baseline all,
        (1, FAILING[2:], [8, 7, 7]),  # and those of all variants the baseline.
    ],
)
def test_seeds_fill_the_executor_and_a_failed_run_gets_no_more(
    tmp_path: Path, pretend: Pretend, monkeypatch: Patch, slots: int, failing: Any, num_seeds: Any
) -> None:
    def judge(sweep: Sweep, entries: Sequence[SweepEntry]) -> list[SimpleNamespace]:
        """Every variant is decided at nine seeds."""
        rows = []
        for variant, n in Counter(run.label for run in finished([*entries])).items():
            word = "undecided" if n < 9 else "helps"
            row = {"contrast": difference(variant, "slow"), "interval": SimpleNamespace(n=n)}
            rows.append(SimpleNamespace(**row, verdict=word, words=word))
        return rows

    monkeypatch.setattr(sequential, "judge", judge)
    monkeypatch.setattr(sequential, "num_slots", lambda *_: slots)
    planned = sweep(tmp_path)
    assert len(planned.jobs) == 3 * 64
    runs = [job.config for job in planned.jobs if (job.label, job.config.seed) in failing]
    pretend(fails=lambda config: config in runs)
    assert seeds(planned) == dict(zip(["slow", "noisy", "fast"], num_seeds, strict=True))


def tuning_of(tmp_path: Path, *words: str) -> Tuning:
    start = ["study=blog", "data=contrast", "train.epochs=2", "seed=0,1", "executor.workers=1"]
    return plan_tuning([*start, *(words or GRID), f"out={tmp_path}"])


@pytest.mark.usefixtures("done")
def test_each_variant_runs_as_chosen_and_nothing_runs_twice(tmp_path: Path) -> None:
    tuning = tuning_of(tmp_path)
    searched = run_sweep(tuning.search)
    configs = [run.result.config for run in finished(searched)]
    protocols = [(config["train"]["protocol"], config["seed"]) for config in configs[::4]]
    assert protocols == [("holdout", 7), ("holdout", 8)]
    study, lines = choose_settings(tuning, searched)
    assert [*study.variants] == ["no_pe, train.lr=0.05 of 2", "pe, train.lr=0.05 of 2"]
    assert len(lines) == 4
    runs = [(run.label[:5], run.result.seed) for run in finished(run_sweep(study))]
    assert runs == [("no_pe", 0), ("pe, t", 0), ("no_pe", 1), ("pe, t", 1)]
    assert {job.config.train.lr for job in study.jobs} == {0.05}
    assert {job.config.train.protocol for job in study.jobs} == {"blog"}
    assert all(entry.before for entry in (*scan(tuning.search), *scan(study)))
    assert {path.name for path in tmp_path.glob("[!.]*")} == {"runs", "blog_tuning", "blog_tuned"}


@pytest.mark.parametrize(("protocol", "best"), [("blog", "0.01"), ("holdout", "0.003")])
def test_the_best_mean_is_chosen(tmp_path: Path, template: Run, protocol: str, best: str) -> None:
    """On held-out data, without failed runs: the mean of the last epoch, or of the best one where
    the study chooses epochs."""
    tuning = tuning_of(tmp_path, "tune=train.lr=1e-3,3e-3,1e-2,3e-2", f"train={protocol}")
    entries = scan(tuning.search)
    first_row, last_row = template.result.epochs
    accuracies = {1e-3: (0.5, 0.6), 3e-3: (0.9, 0.5), 1e-2: (0.7, 0.7), 3e-2: (0.99, 0.99)}
    for entry in entries:
        first, last = accuracies[entry.job.config.train.lr]
        high = replace(first_row, val_accuracy=max(first, last))
        final = replace(last_row, val_accuracy=last)
        result = replace(template.result, own_best=high, final=final)
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
