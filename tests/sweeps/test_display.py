"""What one sees of a sweep: beforehand, while it runs, and when it has ended."""

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from conftest import Capture, Command, Json
from samples import but, result, row
from sweeping import SMOKE, Pretend

from attnexp.sweeps.display import SweepDisplay
from attnexp.sweeps.folder import assign_folder
from attnexp.sweeps.plan import plan
from attnexp.sweeps.schedule import scan


def test_each_run_is_told_in_a_line(tmp_path: Path, capsys: Capture) -> None:
    """Without a terminal. Two of five took 5.2 s, so three more take 7.8 s."""
    words = ["study=blog", "data=contrast", "seed=range(3)", f"out={tmp_path}"]
    entries = scan(assign_folder(plan(words)))
    final = replace(row(1, 0.8431), examples_per_second=2310.4)
    run = but(result("", 0, [0.5]), final=final, wall_seconds=45.2)
    entries[0].finished_before = True
    entries[0].outcome = entries[1].outcome = run
    entries[2].outcome = "the loss is nan"
    display = SweepDisplay()
    display.began -= 5.2
    with display.bar:
        for _ in range(2):
            display.show(entries, "Slurm: 3 wait (Resources)")
    count = "2 done, 1 failed, 3 left, about 8 s"
    assert capsys.readouterr().err.splitlines()[-4:] == [
        f"no_pe on contrast, seed 0: final accuracy 84.31 %, finished before ({count})",
        f"pe on contrast, seed 0: final accuracy 84.31 %, 45 s, 2,310 texts/s ({count})",
        f"no_pe on contrast, seed 1: failed: the loss is nan ({count})",
        f"{count}; Slurm: 3 wait (Resources)",  # once
    ]


@pytest.fixture
def sweep(here: Command) -> Command:
    return partial(here, "sweep", *SMOKE, "executor.workers=1")


@pytest.mark.usefixtures("done")
def test_a_dry_run_counts_runs(tmp_path: Path, sweep: Command, here_json: Json) -> None:
    words = ["study=blog", f"out={tmp_path}", "--dry-run"]
    sweep(*words, "seed=0,1")
    assert not [*tmp_path.iterdir()]
    assert sweep(*words[:2], "seed=range(3)").returncode == 0
    assert sweep(*words, "seed=range(4)").stdout.splitlines() == [
        "no_pe on contrast: 3 of 4 runs finished",
        "pe on contrast: 3 of 4 runs finished",
        "Runs to do: 2, executor=local, 1 at a time.",
    ]
    document = here_json("sweep", *SMOKE, *words, "seed=range(4)", "executor.workers=1")
    assert (document["runs"], document["to_do"], document["at_a_time"]) == (8, 2, 1)
    tuned = sweep(*words, "seed=0,1", "tune=train.lr=1e-3,1e-2")
    assert "Runs to do: 12, " in tuned.stdout
    assert "After this search: 4 runs" in tuned.stderr
    assert "to do: at most 8, " in sweep(*words, "seed=range(7)", "--until", "decided").stdout


def test_an_answer_comes_whatever_fails(tmp_path: Path, pretend: Pretend, sweep: Command) -> None:
    words = [f"out={tmp_path}", "study=blog", "seed=range(3)"]
    pretend(fails=lambda config: config.seed == 0)  # the first to end
    failed = sweep(*words)
    assert failed.returncode == 1
    assert "Missing: no_pe, 1 of 3 planned (seed 0)." in " ".join(failed.stdout.split())
    assert failed.stderr.count("Trained for 4 steps. Few models learn much") == 1
    assert "2 of 6 runs failed.\nno_pe on contrast, seed 0: the loss is nan\n" in failed.stderr
    pretend()
    fewer = sweep(*words[:2], "seed=1,2")
    assert fewer.returncode == 0
    assert "Missing" not in fewer.stdout
    tuned = sweep(*words, "tune=train.lr=1e-9,5e-2", "tune.seeds=7,8")
    assert "pe train.lr=0.05: held-out accuracy 90.05 %" in tuned.stderr
    assert "pe, train.lr=0.05 (best of 2)" in tuned.stdout
