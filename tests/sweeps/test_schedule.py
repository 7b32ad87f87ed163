"""A sweep, carried out: every run once, whoever else is at work and whatever fails."""

from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path

from conftest import Capture, Patch
from samples import stored_study
from sweeping import finished, small

from attnexp.config.schema import ExecutorConfig
from attnexp.runs import store
from attnexp.runs.result import Run
from attnexp.sweeps import schedule
from attnexp.sweeps.executor import Executor, JobKilled, Outcome, train_job
from attnexp.sweeps.plan import Job
from attnexp.sweeps.schedule import SweepEntry, run_sweep, scan


def test_finished_runs_are_loaded_and_missing_ones_done(tmp_path: Path, done: list[str]) -> None:
    first = run_sweep(small(tmp_path, "study=blog", "seed=0"))
    second = run_sweep(small(tmp_path, "study=blog", "seed=0,1"))
    assert done == ["none 0", "sinusoidal 0", "none 1", "sinusoidal 1"]
    assert finished(second)[:2] == finished(first)


class Cluster(Executor):
    """Takes runs one by one; each ends as `endings` says."""

    endings: Iterator[Outcome | Exception]

    def submit(self, jobs: Sequence[Job]) -> list[Future[Outcome]]:
        print("words of a library")
        future = Future[Outcome]()
        ending = next(self.endings)
        if isinstance(ending, Exception):
            future.set_exception(ending)
        else:
            future.set_result(ending)
        return [future]


def end_as(monkeypatch: Patch, *endings: Outcome | Exception) -> None:
    cluster = Cluster(ExecutorConfig(workers=1), [])
    cluster.endings = iter(endings)
    monkeypatch.setattr(schedule, "open_executor", lambda *_: cluster)


def test_a_clusters_errors_fail_and_it_is_closed(
    tmp_path: Path, monkeypatch: Patch, template: Run, capsys: Capture
) -> None:
    steps: list[object] = []
    monkeypatch.setattr(Cluster, "close", lambda _: steps.append("close"))
    monkeypatch.setattr(schedule, "record_runs", lambda *_, has_ended: steps.append(has_ended))
    end_as(monkeypatch, RuntimeError("job 7 was cancelled\nmore"), template)
    first, second = run_sweep(small(tmp_path, "seed=0,1"))
    assert steps == [False, "close", True]  # Its jobs do not wait for the study's lock.
    assert first.outcome == "job 7 was cancelled"
    assert "changed since the sweep began" in str(second.outcome)
    assert capsys.readouterr().out == ""


def test_a_killed_run_goes_on(tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
    sweep = small(tmp_path)
    kill = JobKilled("its process was killed")
    end_as(monkeypatch, kill, kill)
    (entry,) = run_sweep(sweep)
    assert entry.outcome == "killed again before an epoch was done: its process was killed"
    assert "It goes on from epoch 0." in capsys.readouterr().err

    def do_an_epoch(entries: list[SweepEntry], status: str) -> None:
        entries[0].path.mkdir(parents=True, exist_ok=True)
        with (entries[0].path / store.METRICS).open("a") as file:
            file.write("{}\n")

    end_as(monkeypatch, kill, kill, kill, "the loss is nan")
    (entry,) = run_sweep(sweep, observe=do_an_epoch)
    assert entry.outcome == "the loss is nan"
    assert "It goes on from epoch 3." in capsys.readouterr().err


def test_a_run_elsewhere_is_awaited(tmp_path: Path, monkeypatch: Patch, done: list[str]) -> None:
    sweep = small(tmp_path, "seed=0,1")
    held = scan(sweep)[0]
    lock = ExitStack()
    lock.enter_context(store.lock(held.path))
    statuses: list[str] = []

    def observe(entries: list[SweepEntry], status: str) -> None:
        if status and not statuses:
            lock.close()
            run_sweep(sweep, [held.job])  # as the other sweep does
            statuses.append(status)

    run_sweep(sweep, observe=observe)
    assert done == ["none 1", "none 0"]
    assert statuses[0].startswith(f"another sweep does {held.job} (")
    lock.enter_context(store.lock(held.path))  # as if both had begun it at one moment
    monkeypatch.setattr("time.sleep", lambda _: lock.close())
    assert isinstance(train_job(held.job), Run)


def test_runs_of_other_code_can_be_taken(tmp_path: Path, done: list[str], capsys: Capture) -> None:
    sweep = small(tmp_path, "position=none,rotary", "seed=0,1")
    for entry in run_sweep(sweep)[:3]:  # as if a file had been another one then
        settings = entry.path.name.split("-")[0]
        entry.path.rename(entry.path.with_name(f"{settings}-0000aaaa"))
    assert [entry.finished_before for entry in scan(sweep)] == [False, False, False, True]
    assert (
        "changed since 3 of these runs finished. --any-code takes such runs"
        in capsys.readouterr().err
    )
    done.clear()
    taken = run_sweep(sweep, any_code=True)
    assert not done
    taken_ids = {run.path.name for run in finished(taken)}
    assert len(taken_ids) == 4
    assert {run.run_id for run in stored_study(sweep.directory).runs} == taken_ids
    run_sweep(sweep)
    assert len(done) == 3  # made again
