"""A sweep, carried out: every run once, whoever else is at work and whatever fails."""

from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from sweeping import SMOKE, Pretend, finished

from attnexp.runs import manifest, store
from attnexp.runs.result import Run
from attnexp.sweeps import executors, schedule
from attnexp.sweeps.executors import Executor, Outcome, do
from attnexp.sweeps.plan import Job, Sweep, plan
from attnexp.sweeps.schedule import notes_on_code, run_sweep, scan


def small(tmp_path: Path, *words: str) -> Sweep:
    """Runs of a second, one after another in this process."""
    return plan([*SMOKE, "train.epochs=1", f"out={tmp_path}", "executor.workers=1", *words])


def test_finished_runs_are_loaded_and_missing_ones_done(tmp_path: Path, done: list[str]) -> None:
    scan(small(tmp_path))
    assert not [*tmp_path.iterdir()]
    first = run_sweep(small(tmp_path, "study=blog", "seed=0"))
    second = run_sweep(small(tmp_path, "study=blog", "seed=0,1"))
    assert done == ["none 0", "sinusoidal 0", "none 1", "sinusoidal 1"]
    assert finished(second)[:2] == finished(first)
    assert [entry.before for entry in second] == [True, True, False, False]
    study = manifest.load(tmp_path / "blog")
    assert study is not None
    assert {(one.variant, one.seed, one.run_id) for one in study.runs} == {
        (entry.job.label, entry.job.seed, entry.path.name) for entry in second
    }


def test_two_names_for_one_variant_are_one_run_under_two_labels(
    tmp_path: Path, done: list[str]
) -> None:
    study = tmp_path / "mine.yaml"
    study.write_text("baseline: a\nvariants: {a: [], twin: [position=none]}")
    for _ in range(2):  # done, then loaded
        found = finished(run_sweep(small(tmp_path, f"study={study}", "seed=0,1")))
        assert done == ["none 0", "none 1"]
        assert [run.label for run in found] == ["a", "twin"] * 2


@pytest.mark.parametrize(("stop", "num_done"), [(False, 2), (True, 1)])
def test_one_failed_run_does_not_lose_the_others(
    tmp_path: Path, pretend: Pretend, stop: bool, num_done: int
) -> None:
    pretend(fails=lambda config: config.seed == 1)
    entries = run_sweep(small(tmp_path, "seed=range(3)"), stop_on_error=stop)
    assert len(finished(entries)) == num_done
    assert entries[1].outcome == "the loss is nan"
    assert (entries[2].outcome is None) == stop


Given = Any


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> Given:
    """An executor of two slots whose outcomes, or errors, are given in turn; the seeds it did."""

    def use(*outcomes: Outcome | Exception) -> list[int]:
        left, seeds = [*outcomes], list[int]()

        def submit(jobs: Sequence[Job]) -> list[Future[Any]]:
            futures = [Future[Any]() for _ in jobs]
            for job, future in zip(jobs, futures, strict=True):
                seeds.append(job.config.seed)
                outcome = left.pop(0)
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
            return futures

        executor = Executor(2, submit, wait=lambda futures: futures)
        monkeypatch.setattr(schedule, "open_executor", lambda *_: executor)
        return seeds

    return use


def test_after_a_failure_nothing_begins_that_was_being_done_elsewhere(
    tmp_path: Path, given: Given
) -> None:
    """Here seed 1 comes back to the queue as seed 0 fails."""
    seeds = given("the loss is nan", None)
    entries = run_sweep(small(tmp_path, "seed=0,1"), stop_on_error=True)
    assert [entry.outcome for entry in entries] == ["the loss is nan", None]
    assert seeds == [0, 1]


def test_a_killed_process_s_run_is_tried_once_more(
    tmp_path: Path, given: Given, template: Run
) -> None:
    dead, sweep = BrokenProcessPool("terminated abruptly"), small(tmp_path, "seed=0,1")
    good = Run(path=scan(sweep)[1].path, result=template.result)
    seeds = given(dead, dead, dead, good)
    entries = run_sweep(sweep)
    assert seeds == [0, 1, 0, 1]
    assert entries[0].outcome == "its process was killed twice (out of memory?)"
    assert entries[1].outcome == good


def test_an_error_of_a_cluster_and_a_run_of_changed_code_are_failures(
    tmp_path: Path, given: Given, template: Run
) -> None:
    given(RuntimeError("job 7 was cancelled\nmore"), template)
    first, second = run_sweep(small(tmp_path, "seed=0,1"))
    assert first.outcome == "job 7 was cancelled"
    assert "changed since the sweep began" in str(second.outcome)


def test_whatever_a_run_raises_is_a_failure_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry,) = scan(small(tmp_path))
    with store.lock(entry.path):
        assert do(entry.job) is None  # another sweep is at it

    def fail(*given: Any, **options: Any) -> None:
        raise MemoryError("much")

    monkeypatch.setattr("attnexp.training.run.train_run", fail)
    assert do(entry.job) == "MemoryError: much"


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
    assert [entry.before for entry in entries] == [True, False]


def test_runs_of_other_code_are_named_and_taken_if_asked(tmp_path: Path, done: list[str]) -> None:
    sweep = small(tmp_path, "position=none,rotary", "seed=0,1")
    for entry in run_sweep(sweep)[:3]:  # as if a file had been another one then
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
    assert not done
    assert [run.path.name[-8:] for run in finished(taken)[:3]] == ["0000aaaa"] * 3
    study = manifest.load(sweep.directory)
    assert study is not None
    assert {one.run_id for one in study.runs} == {entry.path.name for entry in taken}
    assert len(finished(run_sweep(sweep))) == 4
    assert len(done) == 3  # made again
