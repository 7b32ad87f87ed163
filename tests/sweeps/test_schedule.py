"""A sweep, carried out: every run once, whoever else is at work and whatever fails."""

import time
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from conftest import SMOKE, Pretend, finished

from attnexp.config.schema import RunConfig
from attnexp.runs import manifest, store
from attnexp.runs.result import Run
from attnexp.sweeps import executors, schedule
from attnexp.sweeps.executors import Executor, Outcome, do
from attnexp.sweeps.plan import Job, Sweep, plan
from attnexp.sweeps.schedule import Entry, notes_on_code, run_sweep, scan


def small(tmp_path: Path, *words: str) -> Sweep:
    """Runs of a second, one after another in this process."""
    return plan([*SMOKE, "train.epochs=1", f"out={tmp_path}", "executor.workers=1", *words])


def test_finished_runs_are_loaded_and_missing_ones_done(tmp_path: Path, done: list[str]) -> None:
    first = run_sweep(small(tmp_path, "position=none,sinusoidal"))
    second = run_sweep(small(tmp_path, "position=none,sinusoidal", "seed=0,1"))
    assert done == ["none 0", "sinusoidal 0", "none 1", "sinusoidal 1"]
    assert finished(second)[:2] == finished(first)
    assert [entry.before for entry in second] == [True, True, False, False]
    assert [run.label for run in finished(second)] == ["position=none", "position=sinusoidal"] * 2


def test_a_scan_changes_nothing_on_disk(tmp_path: Path) -> None:
    (entry,) = scan(small(tmp_path))
    assert (entry.before, entry.outcome) == (False, None)
    assert not [*tmp_path.iterdir()]


@pytest.mark.usefixtures("done")
def test_the_manifest_says_which_runs_are_which_variant(tmp_path: Path) -> None:
    entries = run_sweep(small(tmp_path, "study=blog", "seed=0,1"))
    study = manifest.load(tmp_path / "blog")
    assert study is not None
    assert {(one.variant, one.seed, one.run_id) for one in study.runs} == {
        (entry.job.label, entry.job.seed, entry.path.name) for entry in entries
    }
    labels = ["no_pe", "no_pe", "pe", "pe"]
    assert [run.label for run in manifest.load_runs([tmp_path / "blog"])] == labels


def test_two_names_for_one_variant_are_one_run_under_two_labels(
    tmp_path: Path, done: list[str]
) -> None:
    study = tmp_path / "mine.yaml"
    study.write_text("baseline: a\nvariants: {a: [], twin: [position=none]}")
    for _ in range(2):  # done, then loaded
        found = finished(run_sweep(small(tmp_path, f"study={study}", "seed=0,1")))
        assert done == ["none 0", "none 1"]
        assert [run.label for run in found] == ["a", "twin"] * 2
        assert found[0].path == found[1].path


@pytest.mark.parametrize(("stop", "num_done"), [(False, 2), (True, 1)])
def test_one_failed_run_does_not_lose_the_others(
    tmp_path: Path, pretend: Pretend, stop: bool, num_done: int
) -> None:
    pretend(fails=lambda config: config.seed == 1)
    entries = run_sweep(small(tmp_path, "seed=range(3)"), stop_on_error=stop)
    assert len(finished(entries)) == num_done
    assert entries[1].outcome == "the loss is nan"
    assert (entries[2].outcome is None) == stop


class Given(Executor):
    """Two slots whose outcomes, or errors, are given in turn."""

    slots = 2

    def __init__(self, *outcomes: Outcome | Exception) -> None:
        self.left, self.began = [*outcomes], list[Job]()

    def submit(self, jobs: Sequence[Job]) -> list[Future[Any]]:
        futures = [Future[Any]() for _ in jobs]
        for job, future in zip(jobs, futures, strict=True):
            self.began.append(job)
            outcome = self.left.pop(0)
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
        return futures

    def wait(self, futures: Sequence[Any]) -> list[Any]:
        return [*futures]


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Any:
    def use(*outcomes: Outcome | Exception) -> Given:
        executor = Given(*outcomes)
        monkeypatch.setattr(schedule, "open_executor", lambda *_: executor)
        return executor

    return use


def test_after_a_failure_nothing_begins_that_was_being_done_elsewhere(
    tmp_path: Path, given: Any
) -> None:
    """Here seed 1 comes back to the queue as seed 0 fails."""
    executor = given("the loss is nan", None)
    entries = run_sweep(small(tmp_path, "seed=0,1"), stop_on_error=True)
    assert [entry.outcome for entry in entries] == ["the loss is nan", None]
    assert len(executor.began) == 2


def test_a_killed_process_s_run_is_tried_once_more(
    tmp_path: Path, given: Any, template: Run
) -> None:
    dead, sweep = BrokenProcessPool("terminated abruptly"), small(tmp_path, "seed=0,1")
    good = Run(path=scan(sweep)[1].path, result=template.result)
    executor = given(dead, dead, dead, good)
    entries = run_sweep(sweep)
    assert [job.config.seed for job in executor.began] == [0, 1, 0, 1]
    assert entries[0].outcome == "its process was killed twice (out of memory?)"
    assert entries[1].outcome == good


def test_what_a_cluster_does_to_a_job_is_a_failure(tmp_path: Path, given: Any) -> None:
    given(RuntimeError("job 7 was cancelled\nmore"))
    assert run_sweep(small(tmp_path))[0].outcome == "job 7 was cancelled"


def test_a_run_of_changed_code_is_not_what_was_planned(
    tmp_path: Path, given: Any, template: Run
) -> None:
    given(template)
    assert "changed since the sweep began" in str(run_sweep(small(tmp_path))[0].outcome)


@pytest.mark.parametrize("error", [OSError(28, "No space left"), MemoryError("much")])
def test_whatever_a_run_raises_is_a_failure_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*given: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr("attnexp.training.run.train_run", fail)
    outcome = do(small(tmp_path).jobs[0])
    assert isinstance(outcome, str)
    assert str(error) in outcome


def test_a_run_that_another_sweep_is_at_is_awaited_and_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, done: list[str]
) -> None:
    """The other sweep holds seed 0 until this one has done seed 1."""
    sweep = small(tmp_path, "seed=0,1")
    held, pretended = scan(sweep)[0], executors.do
    lock = store.lock(held.path)
    lock.__enter__()

    def release(job: Job) -> Outcome:
        outcome = pretended(job)
        pretended(held.job)  # as the other sweep does
        lock.__exit__(None, None, None)
        return outcome

    monkeypatch.setattr(executors, "do", release)
    entries = run_sweep(sweep)
    assert done == ["none 1", "none 0"]
    assert len(finished(entries)) == 2
    assert [entry.before for entry in entries] == [True, False]


def test_a_worker_that_finds_the_run_locked_lets_the_sweep_wait(tmp_path: Path) -> None:
    (entry,) = scan(small(tmp_path))
    with store.lock(entry.path):
        assert do(entry.job) is None


def test_runs_of_other_code_are_named_and_taken_if_asked(tmp_path: Path, done: list[str]) -> None:
    sweep = small(tmp_path, "position=none,rotary", "seed=0,1")
    entries = run_sweep(sweep)
    for entry in entries[:3]:  # as if a file had been another one then
        old = entry.path.with_name(f"{entry.identity.settings}-0000aaaa")
        entry.path.rename(old)
        result = store.load(old)
        result.code[min(result.code)] = "aaaa"
        store.save(old, result)
    found = scan(sweep)
    assert [entry.before for entry in found] == [False, False, False, True]
    lines = notes_on_code(sweep, found)
    assert all("changed since" in line and "--any-code takes such runs" in line for line in lines)
    done.clear()
    taken = run_sweep(sweep, any_code=True)
    assert [entry.before for entry in taken] == [True] * 4
    assert not done
    assert [run.path.name[-8:] for run in finished(taken)[:3]] == ["0000aaaa"] * 3
    study = manifest.load(sweep.directory)
    assert study is not None
    assert {one.run_id for one in study.runs} == {entry.path.name for entry in taken}
    assert len(finished(run_sweep(sweep))) == 4
    assert len(done) == 3  # made again


def test_chosen_entries_are_done_until_there_are_none(tmp_path: Path, done: list[str]) -> None:
    """With one executor for all of them."""

    def choose(planned: list[Entry]) -> list[Entry]:
        return [entry for entry in planned if entry.outcome is None][:1] if len(done) < 2 else []

    entries = run_sweep(small(tmp_path, "seed=range(5)"), choose=choose)
    assert done == ["none 0", "none 1"]
    assert len(finished(entries)) == 2
    study = manifest.load(tmp_path / "sweep")
    assert study is not None
    assert len(study.runs) == 2


def test_ctrl_c_closes_the_executor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pretend: Pretend
) -> None:
    def interrupt(config: RunConfig) -> None:
        raise KeyboardInterrupt

    closed = list[float]()
    monkeypatch.setattr(Executor, "close", lambda self: closed.append(time.monotonic()))
    pretend(fails=interrupt)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(small(tmp_path, "seed=range(3)"))
    assert len(closed) == 1
