"""What one sees of a sweep: beforehand, while it runs, and when it has ended."""

import io
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from conftest import PUBLISHED, Command, Patch
from rich.console import Console
from sweeping import SMOKE, Pretend

from attnexp.analysis.read_runs import load_groups
from attnexp.base import progress
from attnexp.config.schema import to_dict
from attnexp.runs import store
from attnexp.runs.result import Run
from attnexp.sweeps.forecast import PUBLISHED_SD
from attnexp.sweeps.plan import plan
from attnexp.sweeps.schedule import scan
from attnexp.sweeps.watch import Watch, preview_sweep


def test_each_run_is_told_in_a_line(tmp_path: Path, template: Run, monkeypatch: Patch) -> None:
    """Without a terminal. Two of five took 5.2 s, so three more take 7.8 s."""
    entries = scan(plan(["study=blog", "data=contrast", "seed=range(3)", f"out={tmp_path}"]))
    final = replace(template.result.final, val_accuracy=0.8431, examples_per_second=2310.4)
    result = replace(template.result, final=final, wall_seconds=45.2)
    entries[0].before = True
    entries[0].outcome = entries[1].outcome = Run(path=tmp_path, result=result)
    entries[2].outcome = "the loss is nan"
    console = Console(file=io.StringIO(), width=80)
    monkeypatch.setattr(progress, "console", console)
    with Watch() as view:
        view.began -= 5.2
        for _ in range(2):
            view(entries, "Slurm: 3 wait (Resources)")
    count = "2 done, 1 failed, 3 left, about 8 s"
    assert console.file.getvalue().splitlines() == [  # type: ignore[attr-defined]
        f"no_pe on contrast, seed 0: final accuracy 84.31 %, finished before ({count})",
        f"pe on contrast, seed 0: final accuracy 84.31 %, 45 s, 2,310 texts/s ({count})",
        f"no_pe on contrast, seed 1: failed: the loss is nan ({count})",
        f"{count}; Slurm: 3 wait (Resources)",  # once a minute
    ]


def test_time_and_power_come_from_finished_runs(tmp_path: Path, template: Run) -> None:
    """The time of those with as many threads; seeds that vary by one point find two and a half."""
    words = [*SMOKE, "study=blog", "seed=range(6)", "executor.workers=2", f"out={tmp_path}"]
    planned = plan(words)
    record: Any = preview_sweep(planned, planned, as_json=True)
    assert record["differences"] == []  # nothing is known of such small data
    assert 0 < record["seconds"] < 60  # by a trial
    baseline = [entry for entry in scan(planned) if entry.job.label == "no_pe"]
    for entry, seconds, points in zip(baseline, (10.0, 20.0, 30.0), (49, 50, 51), strict=False):
        final = replace(template.result.final, val_accuracy=points / 100)
        config = to_dict(entry.job.config)
        result = replace(template.result, config=config, final=final, wall_seconds=seconds)
        entry.path.mkdir(parents=True)
        store.save_result(entry.path, replace(result, seed=entry.job.config.seed))
    lines = preview_sweep(planned, planned)
    assert str(lines).splitlines() == [
        "no_pe on contrast: 6 runs, 3 finished",
        "pe on contrast: 6 runs, 0 finished",
        "9 runs to do, executor=local, 2 at a time: about 2 min.",
        "contrast, 6 seeds, 2 variants: differences from about 2 points are found in four of five "
        "cases, by finished runs.",
    ]
    record = preview_sweep(planned, planned, as_json=True)
    assert (record["to_do"], record["seconds"]) == (9, 90.0)
    (difference,) = record["differences"]
    assert difference["sd"] == pytest.approx(0.01 * 2**0.5)


def test_the_published_spread_is_that_of_the_published_studies() -> None:
    for name in ("blog", "blog_data"):
        for group in load_groups([PUBLISHED / name]):
            values = group.values("final", "accuracy")
            sd = (values["pe"] - values["no_pe"]).std()
            assert PUBLISHED_SD[group.data] == pytest.approx(sd, rel=0.03)


@pytest.fixture
def sweep(here: Command) -> Command:
    return partial(here, "sweep", *SMOKE, "executor.workers=1")


def test_a_dry_run_says_what_is_wrong_and_what_slurm_gets(tmp_path: Path, sweep: Command) -> None:
    words = [f"out={tmp_path}", "position=none,sinusoidal", "seed=0,1", "--dry-run"]
    done = sweep(*words)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 3)
    assert "A verdict takes three seeds" in done.stderr
    tuned = sweep(*words, "tune=train.lr=1e-3,1e-2")
    assert "12 runs to do, " in tuned.stdout
    assert "After this search: 4 runs" in tuned.stderr
    declared = sweep(*words, "seed=range(7)", "--until", "decided")
    assert "14 runs to do at most, " in declared.stdout
    pytest.importorskip("submitit")
    slurm = ["executor=slurm", "executor.slurm={qos: long}"]
    assert "#SBATCH --qos=long" in sweep(*words, *slurm).stdout
    assert not [*tmp_path.iterdir()]


def test_a_sweep_ends_with_the_answer(tmp_path: Path, pretend: Pretend, sweep: Command) -> None:
    words = [f"out={tmp_path}", "study=blog", "seed=range(3)"]
    pretend(fails=lambda config: config.seed == 0)  # the first to end
    failed = sweep(*words)
    assert failed.returncode == 1
    assert f"More: attnexp report {tmp_path}/blog" in failed.stdout
    assert failed.stderr.count("Trained for 4 steps, in which few models learn much.") == 1
    assert "2 of 6 runs failed.\nno_pe on contrast, seed 0: the loss is nan\n" in failed.stderr
    pretend()
    assert json.loads(sweep(*words, "--json").stdout)["differences"]
    tuned = sweep(*words, "tune=train.lr=1e-9,5e-2", "tune.seeds=7,8")
    assert "pe train.lr=0.05: held-out accuracy 90.05 % (final epoch)" in tuned.stderr
    assert "pe, train.lr=0.05 of 2" in tuned.stdout


@pytest.mark.usefixtures("done")
def test_seeds_that_cannot_decide_are_told_before_more_are_trained(sweep: Command) -> None:
    """A test set of 256 texts shows nothing finer than 0.4 points."""
    words = ["position=none,rotary", "--margin", "0.001"]
    assert "by the spread" not in sweep(*words, "seed=0,2,4,9").stderr
    told = sweep(*words, "seed=range(5)").stderr
    assert "256 texts): by the spread between seeds, ±0.001 points take up to 10,000 seeds" in told
    assert told.index("by the spread") < told.index("seed 1:")
    assert "by the spread" not in sweep(*words, "seed=range(5)").stderr  # nothing is left to train
    assert "by the spread" not in sweep(words[0], "seed=range(6)", "--margin", "2").stderr
