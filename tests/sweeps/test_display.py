"""What one sees of a sweep: beforehand, while it runs, and when it has ended."""

import io
import json
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from conftest import Command, Json, Patch
from rich.console import Console
from samples import stored_study
from sweeping import SMOKE, Pretend

from attnexp.base import progress
from attnexp.runs.result import Run
from attnexp.sweeps.display import SweepDisplay
from attnexp.sweeps.plan import plan
from attnexp.sweeps.schedule import scan


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
    display = SweepDisplay()
    display.began -= 5.2
    with display.bar:
        for _ in range(2):
            display.show(entries, "Slurm: 3 wait (Resources)")
    count = "2 done, 1 failed, 3 left, about 8 s"
    assert console.file.getvalue().splitlines() == [  # type: ignore[attr-defined]
        f"no_pe on contrast, seed 0: final accuracy 84.31 %, finished before ({count})",
        f"pe on contrast, seed 0: final accuracy 84.31 %, 45 s, 2,310 texts/s ({count})",
        f"no_pe on contrast, seed 1: failed: the loss is nan ({count})",
        f"{count}; Slurm: 3 wait (Resources)",  # once
    ]


@pytest.fixture
def sweep(here: Command) -> Command:
    return partial(here, "sweep", *SMOKE, "executor.workers=1")


def test_a_dry_run_lists_runs(tmp_path: Path, sweep: Command) -> None:
    words = [f"out={tmp_path}", "position=none,sinusoidal", "seed=0,1", "--dry-run"]
    done = sweep(*words)
    assert done.stdout.splitlines() == [
        "position=none on contrast: 0 of 2 runs finished",
        "position=sinusoidal on contrast: 0 of 2 runs finished",
        "Runs to do: 4, executor=local, 1 at a time.",
    ]
    assert "A verdict takes three seeds" in done.stderr
    tuned = sweep(*words, "tune=train.lr=1e-3,1e-2")
    assert "Runs to do: 12, " in tuned.stdout
    assert "After this search: 4 runs" in tuned.stderr
    sequential = sweep(*words, "seed=range(7)", "--until", "decided")
    assert "Runs to do: at most 14, " in sequential.stdout
    assert not [*tmp_path.iterdir()]


@pytest.mark.usefixtures("done")
def test_a_dry_run_counts_what_has_finished(sweep: Command, here_json: Json) -> None:
    words = ["study=blog", "executor.workers=1"]
    assert sweep(*words, "seed=range(3)").returncode == 0
    lines = sweep(*words, "seed=range(4)", "--dry-run").stdout.splitlines()
    assert lines[0] == "no_pe on contrast: 3 of 4 runs finished"
    document = here_json("sweep", *SMOKE, *words, "seed=range(4)", "--dry-run")
    assert (document["runs"], document["to_do"], document["at_a_time"]) == (8, 2, 1)
    assert document["variants"]["pe on contrast"] == {"runs": 4, "finished": 3}


def test_a_sweep_ends_with_the_answer(tmp_path: Path, pretend: Pretend, sweep: Command) -> None:
    words = [f"out={tmp_path}", "study=blog", "seed=range(3)"]
    pretend(fails=lambda config: config.seed == 0)  # the first to end
    failed = sweep(*words)
    assert failed.returncode == 1
    assert "Missing: no_pe, 1 of 3 planned (seed 0)." in " ".join(failed.stdout.split())
    assert f"More: attnexp report {tmp_path}/blog" in failed.stdout
    assert failed.stderr.count("Trained for 4 steps, in which few models learn much.") == 1
    assert "2 of 6 runs failed.\nno_pe on contrast, seed 0: the loss is nan\n" in failed.stderr
    pretend()
    assert json.loads(sweep(*words, "--json").stdout)["differences"]
    tuned = sweep(*words, "tune=train.lr=1e-9,5e-2", "tune.seeds=7,8")
    assert "pe train.lr=0.05: held-out accuracy 90.05 %" in tuned.stderr
    assert "pe, train.lr=0.05 of 2" in tuned.stdout


@pytest.mark.usefixtures("done")
def test_the_margin_is_of_the_plan(tmp_path: Path, here: Command, sweep: Command) -> None:
    """A report judges by the margin of the study; by another one it names both."""
    words = [f"out={tmp_path}", "study=blog", "seed=range(3)", "name=s"]
    swept = sweep(*words, "--margin", "2")
    assert "margin ±2" in swept.stdout
    answer = swept.stdout.partition("\nResults")[0].split()
    assert here("report", f"{tmp_path}/s").stdout.split() == answer
    other = " ".join(here("report", f"{tmp_path}/s", "--margin", "1").stdout.split())
    assert "margin ±1" in other
    assert "Planned: accuracy ±2. This judges accuracy ±1." in other
    assert sweep(*words, "--margin", "2.0").returncode == 0


def test_runs_on_one_data_set_are_not_missing_in_another(
    tmp_path: Path, sweep: Command, here: Command
) -> None:
    """Each data set has a variant of its own; the folder of a run on one of them is deleted."""
    rows = [f"word{n},{'pos' if n % 2 else 'neg'}\n" for n in range(40)]
    (tmp_path / "my.csv").write_text(f"text,label\n{''.join(rows)}")
    own = f"[data=files, data.path={tmp_path}/my.csv, data.limit_train=null, data.limit_test=null]"
    (tmp_path / "s.yaml").write_text(f"baseline: a\nvariants: {{a: [], b: {own}}}")
    done = sweep(f"study={tmp_path}/s.yaml", "seed=range(3)", "train.epochs=1", f"out={tmp_path}")
    assert (done.returncode, "Missing" in done.stdout) == (0, False), done.stderr
    runs = stored_study(tmp_path / "s").runs
    (deleted,) = [run.run_id for run in runs if (run.variant, run.seed) == ("b", "2")]
    shutil.rmtree(tmp_path / "runs" / deleted)
    report = here("report", f"{tmp_path}/s")
    assert report.returncode == 1
    assert report.stdout.count("Missing: ") == 1
    assert "Missing: b, 1 of 3 planned (seed 2)." in report.stdout
