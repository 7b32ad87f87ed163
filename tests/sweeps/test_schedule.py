"""A sweep, carried out: every run once, whoever else is at work and whatever fails."""

from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import torch
from conftest import Capture, Patch
from samples import stored_study
from sweeping import finished, small

from attnexp.base import progress
from attnexp.config.schema import ExecutorConfig
from attnexp.runs import store
from attnexp.runs.result import Run
from attnexp.sweeps import executors, schedule
from attnexp.sweeps.executors import Executor, JobKilled, Outcome, train_job
from attnexp.sweeps.plan import Job
from attnexp.sweeps.schedule import SweepEntry, run_sweep, scan


def test_finished_runs_are_loaded_and_missing_ones_done(tmp_path: Path, done: list[str]) -> None:
    scan(small(tmp_path))
    assert not [*tmp_path.iterdir()]
    first = run_sweep(small(tmp_path, "study=blog", "seed=0"))
    second = run_sweep(small(tmp_path, "study=blog", "seed=0,1"))
    assert done == ["none 0", "sinusoidal 0", "none 1", "sinusoidal 1"]
    assert finished(second)[:2] == finished(first)
    assert [entry.before for entry in second] == [True, True, False, False]
    planned = stored_study(tmp_path / "blog").runs
    assert {(run.variant, run.seed, run.run_id) for run in planned} == {
        (entry.job.label, entry.job.seed, entry.path.name) for entry in second
    }


class Cluster(Executor):
    """Takes runs one by one; each ends as `endings` says."""

    def __init__(self, *endings: Outcome | Exception, metrics: Path | None = None) -> None:
        super().__init__(ExecutorConfig(workers=1), [])
        self.endings = iter(endings)
        self.metrics = metrics  # file to which each run adds an epoch

    def submit(self, jobs: Sequence[Job]) -> list[Future[Outcome]]:
        print("words of a library")
        future = Future[Outcome]()
        ending = next(self.endings)
        if isinstance(ending, Exception):
            future.set_exception(ending)
        else:
            future.set_result(ending)
        if self.metrics:
            with self.metrics.open("a") as file:
                file.write("{}\n")
        return [future]


def end_as(monkeypatch: Patch, *endings: Outcome | Exception, metrics: Path | None = None) -> None:
    """Let runs end as is said, on a cluster."""
    cluster = Cluster(*endings, metrics=metrics)
    monkeypatch.setattr(schedule, "open_executor", lambda *_: cluster)


def test_a_clusters_errors_fail(
    tmp_path: Path, monkeypatch: Patch, template: Run, capsys: Capture
) -> None:
    end_as(monkeypatch, RuntimeError("job 7 was cancelled\nmore"), template)
    first, second = run_sweep(small(tmp_path, "seed=0,1"))
    assert first.outcome == "job 7 was cancelled"
    assert "changed since the sweep began" in str(second.outcome)
    assert capsys.readouterr().out == ""


def test_a_killed_run_goes_on_while_it_gets_further(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    sweep = small(tmp_path)
    kills = [JobKilled("its process was killed") for _ in range(4)]
    end_as(monkeypatch, *kills[:2])
    (entry,) = run_sweep(sweep)
    assert entry.outcome == "killed again before an epoch was done: its process was killed"
    assert "its process was killed. It goes on from epoch 0" in capsys.readouterr().err
    entry.path.mkdir(parents=True)
    end_as(monkeypatch, *kills, "the loss is nan", metrics=entry.path / store.METRICS)
    (entry,) = run_sweep(sweep)
    assert entry.outcome == "the loss is nan"
    assert "its process was killed. It goes on from epoch 4." in capsys.readouterr().err


def test_what_a_run_raises_is_its_why(tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    def fail(*given: Any, **options: Any) -> None:
        progress.note("epoch 1")
        raise MemoryError(f"{torch.get_num_threads()} thread")  # as in processes side by side

    monkeypatch.setattr(executors, "train_run", fail)
    torch.set_num_threads(2)
    (entry,) = run_sweep(small(tmp_path))
    assert entry.outcome == "MemoryError: 1 thread"
    assert capsys.readouterr() == ("", "")


def test_a_run_elsewhere_is_awaited(tmp_path: Path, monkeypatch: Patch, done: list[str]) -> None:
    sweep = small(tmp_path, "seed=0,1")
    held = scan(sweep)[0]
    lock = store.lock(held.path)
    lock.__enter__()
    statuses: list[str] = []

    def observe(entries: list[SweepEntry], status: str) -> None:
        if status and not statuses:
            executors.train_job(held.job)  # as the other sweep does
            lock.__exit__(None, None, None)
            statuses.append(status)

    entries = run_sweep(sweep, observe=observe)
    assert done == ["none 1", "none 0"]
    assert not any(entry.before for entry in entries)  # both count in the time per run
    assert statuses[0].startswith("another sweep does 1 of them (")
    lock = store.lock(held.path)  # as if both had begun it at one moment
    lock.__enter__()
    monkeypatch.setattr("time.sleep", lambda _: lock.__exit__(None, None, None))
    assert isinstance(train_job(held.job), Run)


def test_runs_of_other_code_can_be_taken(tmp_path: Path, done: list[str], capsys: Capture) -> None:
    sweep = small(tmp_path, "position=none,rotary", "seed=0,1")
    for entry in run_sweep(sweep)[:3]:  # as if a file had been another one then
        old = entry.path.with_name(f"{entry.path.name.partition('-')[0]}-0000aaaa")
        entry.path.rename(old)
        result = store.load_result(old)
        result.code[min(result.code)] = "aaaa"
        store.save_result(old, result)
    assert [entry.before for entry in scan(sweep)] == [False, False, False, True]
    assert "changed since 3 of these runs. --any-code takes such runs" in capsys.readouterr().err
    done.clear()
    taken = run_sweep(sweep, any_code=True)
    assert not done
    assert [run.path.name[-8:] for run in finished(taken)[:3]] == ["0000aaaa"] * 3
    planned = stored_study(sweep.directory).runs
    assert {run.run_id for run in planned} == {entry.path.name for entry in taken}
    assert len(finished(run_sweep(sweep))) == 4
    assert len(done) == 3  # made again
