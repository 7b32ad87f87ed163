"""A sweep, carried out: every run once, whoever else is at work and whatever fails."""

import threading
import time
from pathlib import Path

import pytest
from samples import fail_with, finished, pretend

from attnexp.base.errors import RunFailed
from attnexp.config.schema import RunConfig
from attnexp.runs.manifest import load_runs
from attnexp.runs.result import Run
from attnexp.sweeps import schedule
from attnexp.sweeps.executors.local import InThisProcess, Processes
from attnexp.sweeps.executors.task import Elsewhere, Failure, Outcome, do
from attnexp.sweeps.plan import Job, Sweep, plan
from attnexp.sweeps.schedule import Status, run_sweep, scan
from attnexp.training import run as train


def small(tmp_path: Path, *words: str) -> Sweep:
    """Runs of a second, one after another in this process."""
    start = ["experiment=smoke", "train.epochs=1", f"out={tmp_path}", "executor.workers=1"]
    return plan([*start, "train.threads=1", *words])


def test_finished_runs_are_taken_up_and_missing_ones_done(tmp_path: Path, done: list[str]) -> None:
    first = run_sweep(small(tmp_path, "position=none,sinusoidal"))
    second = run_sweep(small(tmp_path, "position=none,sinusoidal", "seed=0,1"))
    assert len(done) == 4
    assert finished(second)[:2] == finished(first)
    assert [entry.before for entry in second] == [True, True, False, False]
    assert len(list(tmp_path.rglob("result.json"))) == 4


def test_a_scan_changes_nothing_on_disk(tmp_path: Path) -> None:
    assert [entry.status for entry in scan(small(tmp_path))] == [Status.waiting]
    assert not list(tmp_path.rglob("*.json"))
    assert not (tmp_path / "runs").exists()


def test_sweeps_and_single_runs_share_what_they_have_in_common(
    tmp_path: Path, done: list[str]
) -> None:
    """A run keeps its place, whoever asks for it and under which name."""
    path, result = train.train_run(small(tmp_path, "position=none").jobs[0].config)
    for words, label in (
        (["position=none,sinusoidal"], "position=none"),
        (["study=blog_scaled"], "no_pe"),
    ):
        run = finished(run_sweep(small(tmp_path, *words, "seed=0")))[0]
        assert (run.path, run.result, run.label) == (path, result, label)
    assert done == ["sinusoidal 0"]
    assert len(list(tmp_path.rglob("result.json"))) == 2


def test_two_names_for_one_variant_are_one_run_under_two_labels(
    tmp_path: Path, done: list[str]
) -> None:
    study = tmp_path / "mine.yaml"
    study.write_text("baseline: a\nvariants: {a: [], twin: [position=none]}")
    for _ in range(2):  # done, then taken up
        found = finished(run_sweep(small(tmp_path, f"study={study}", "seed=0,1")))
        assert done == ["none 0", "none 1"]
        assert [run.label for run in found] == ["a", "twin"] * 2
        assert found[0].path == found[1].path
    labels = ["a", "a", "twin", "twin"]
    assert [run.label for run in load_runs([tmp_path / "mine"])] == labels
    both = load_runs([tmp_path / "mine", tmp_path / "runs"])  # no run twice
    assert [run.label for run in both] == labels


@pytest.mark.parametrize(("stop", "num_done"), [(False, 2), (True, 1)])
def test_one_failed_run_does_not_lose_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop: bool, num_done: int
) -> None:
    pretend(monkeypatch, fails=lambda config: config.seed == 1)
    entries = run_sweep(small(tmp_path, "seed=range(3)"), stop_on_error=stop)
    assert len(finished(entries)) == num_done
    assert entries[1].outcome == Failure(entries[1].job, "the loss is nan")
    last = Status.waiting if stop else Status.done
    assert [entry.status for entry in entries] == [Status.done, Status.failed, last]


def test_after_a_failure_nothing_begins_that_was_being_done_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here seed 1 comes back to the list as seed 0 fails."""
    began = []

    class Both:
        slots = 2

        def start(self, jobs: list[Job]) -> None:
            began.extend(jobs)

        def wait(self, seconds: float) -> list[tuple[Job, Outcome]]:
            first, second = began
            return [(first, Failure(first, "the loss is nan")), (second, Elsewhere())]

        def close(self) -> None: ...

    monkeypatch.setattr(schedule, "open_executor", lambda *_: Both())
    entries = run_sweep(small(tmp_path, "seed=0,1"), stop_on_error=True)
    assert [entry.job.config.seed for entry in entries] == [0, 1]
    assert [bool(entry.outcome) for entry in entries] == [True, False]
    assert len(began) == 2


@pytest.mark.parametrize(
    "error",
    [RunFailed("the loss is nan"), OSError(28, "No space left on device"), MemoryError("much")],
)
def test_whatever_a_run_raises_is_a_failure_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    fail_with(monkeypatch, error, seed=0)
    (job,) = small(tmp_path).jobs
    outcome = do(job)
    assert isinstance(outcome, Failure)
    assert str(error) in outcome.reason


@pytest.mark.parametrize("again", [False, True])
def test_ctrl_c_says_what_is_kept_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    """Also a second one, while processes are being ended."""

    def close(executor: InThisProcess) -> None:
        raise KeyboardInterrupt

    def interrupt(config: RunConfig) -> bool:
        if config.seed == 1:
            raise KeyboardInterrupt
        return False

    if again:
        monkeypatch.setattr(InThisProcess, "close", close)
    pretend(monkeypatch, fails=interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"1 of 3 runs are done.*the other 2"):
        run_sweep(small(tmp_path, "seed=range(3)"))


def test_a_run_that_another_sweep_is_at_is_awaited_and_taken_up(tmp_path: Path) -> None:
    """The other sweep holds seed 0, finishes it after a while, and seed 1 is done meanwhile."""
    sweep = small(tmp_path, "seed=0,1")
    held, _ = scan(sweep)
    began, seen = threading.Event(), []

    def other_sweep() -> None:
        with train.open_run(train.prepare(held.job.config)) as run:
            began.set()
            time.sleep(1.0)
            train.train(run)

    other = threading.Thread(target=other_sweep)
    other.start()
    assert began.wait(10)
    entries = run_sweep(
        sweep, observe=lambda entries, _: seen.append([entry.status for entry in entries])
    )
    other.join()
    assert [entry.status for entry in entries] == [Status.done, Status.done]
    assert entries[0].before
    assert [Status.elsewhere, Status.running] in seen


@pytest.mark.slow
def test_a_process_that_is_killed_fails_its_run_alone(tmp_path: Path) -> None:
    jobs = small(tmp_path, "seed=0,1", "train.epochs=1000").jobs
    short = small(tmp_path, "seed=2,3").jobs
    executor = Processes(2)
    try:
        executor.start(jobs)
        first, second = executor.workers
        first.process.kill()
        ((job, outcome),) = executor.wait(30)
        assert job is jobs[0]
        assert isinstance(outcome, Failure)
        assert "SIGKILL (out of memory?)" in outcome.reason
        for job_of_seed in short:
            executor.start([job_of_seed])
            ((job, outcome),) = executor.wait(60)
            assert job is job_of_seed
            assert isinstance(outcome, Run)
            idle = executor.workers[-1].process
            idle.kill()  # while it has nothing to do: another takes its place
            idle.join()
    finally:
        executor.close()
    assert not second.process.is_alive()
