"""A sweep, carried out: every run once, whoever else is at work and whatever fails."""

import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from attnexp.config.schema import OnError
from attnexp.errors import RunFailed
from attnexp.runs import store
from attnexp.runs.result import EpochRow, Run
from attnexp.sweeps.executors.local import Processes
from attnexp.sweeps.executors.task import Failure, do
from attnexp.sweeps.plan import Sweep, plan
from attnexp.sweeps.schedule import Entry, Status, carry_out, survey
from attnexp.training import run as train
from attnexp.training.loop import fit


def small(tmp_path: Path, *words: str) -> Sweep:
    """Runs of a second, one after another in this process."""
    start = ["experiment=smoke", "train.epochs=1", f"out={tmp_path}", "executor.workers=1"]
    return plan([*start, "train.threads=1", *words])


def results(entries: list[Entry]) -> list[Run]:
    return [entry.outcome for entry in entries if isinstance(entry.outcome, Run)]


def figures(entries: list[Entry]) -> list[tuple[str, list[float]]]:
    def losses(rows: list[EpochRow]) -> list[float]:
        return [loss for row in rows for loss in (row.train_loss, row.val_loss)]

    return [(run.path.name, losses(run.result.epochs)) for run in results(entries)]


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Labels and seeds of the runs that were really trained, as they come."""
    seen: list[str] = []
    real = train.train_run

    def watch(config, **more):  # type: ignore[no-untyped-def]
        seen.append(f"{more['label']} {config.seed}")
        return real(config, **more)

    monkeypatch.setattr(train, "train_run", watch)
    return seen


def test_finished_runs_are_taken_up_and_missing_ones_done(
    tmp_path: Path, trained: list[str]
) -> None:
    first = carry_out(small(tmp_path, "position=none,sinusoidal"))
    second = carry_out(small(tmp_path, "position=none,sinusoidal", "seed=0,1"))
    assert len(trained) == 4
    assert results(second)[:2] == results(first)
    assert [entry.before for entry in second] == [True, True, False, False]
    assert len(list(tmp_path.rglob("result.json"))) == 4


def test_a_survey_changes_nothing_on_disk(tmp_path: Path) -> None:
    assert [entry.status for entry in survey(small(tmp_path))] == [Status.waiting]
    assert not list(tmp_path.rglob("*.json"))
    assert not (tmp_path / "runs").exists()


def test_a_run_under_another_label_moves_to_its_new_name(
    tmp_path: Path, trained: list[str]
) -> None:
    (old,) = results(carry_out(small(tmp_path, "position=none")))
    new, _ = results(carry_out(small(tmp_path, "position=none,sinusoidal")))
    assert trained == ["contrast attention none 0", "position=sinusoidal 0"]
    assert not old.path.exists()
    assert new.path.name.startswith("position-none-s0-")
    assert new.result == replace(old.result, label="position=none")
    assert store.load(new.path) == new.result


def test_two_names_for_one_variant_are_one_run_and_two_results(
    tmp_path: Path, trained: list[str]
) -> None:
    planned = small(tmp_path, "seed=0,1")
    twins = [replace(job, label="twin", order=1) for job in planned.jobs]
    sweep = replace(planned, jobs=[*planned.jobs, *twins])
    for _ in range(2):  # done, then taken up
        found = results(carry_out(sweep))
        assert len(trained) == 2
        assert len({run.path for run in found}) == 4
        assert [run.result.label for run in found[2:]] == ["twin", "twin"]
        assert found[0].result.epochs == found[2].result.epochs
    assert len(store.load_all([tmp_path])) == 4


@pytest.mark.parametrize(("on_error", "num_done"), [(OnError.proceed, 2), (OnError.stop, 1)])
def test_one_failed_run_does_not_lose_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_error: OnError, num_done: int
) -> None:
    real = train.train_run

    def fail(config, **more):  # type: ignore[no-untyped-def]
        if config.seed == 1:
            raise RunFailed("the loss is nan")
        return real(config, **more)

    monkeypatch.setattr(train, "train_run", fail)
    entries = carry_out(small(tmp_path, "seed=range(3)"), on_error=on_error)
    assert len(results(entries)) == num_done
    assert entries[1].outcome == Failure(entries[1].job, "the loss is nan")
    last = Status.done if on_error is OnError.proceed else Status.waiting
    assert [entry.status for entry in entries] == [Status.done, Status.failed, last]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), MemoryError("much")])
def test_whatever_a_run_raises_is_a_failure_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(config, **more):  # type: ignore[no-untyped-def]
        raise error

    monkeypatch.setattr(train, "train_run", fail)
    (job,) = small(tmp_path).jobs
    outcome = do(job)
    assert isinstance(outcome, Failure)
    assert str(error) in outcome.reason


def test_ctrl_c_says_what_is_kept_and_how_to_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = train.train_run

    def interrupt(config, **more):  # type: ignore[no-untyped-def]
        if config.seed == 1:
            raise KeyboardInterrupt
        return real(config, **more)

    monkeypatch.setattr(train, "train_run", interrupt)
    with pytest.raises(KeyboardInterrupt, match=r"1 of 3 runs are done.*the other 2"):
        carry_out(small(tmp_path, "seed=range(3)"))


def test_a_run_that_another_sweep_is_at_is_awaited_and_taken_up(
    tmp_path: Path, trained: list[str]
) -> None:
    """The other sweep holds seed 0, finishes it after a while, and seed 1 is done meanwhile."""
    sweep = small(tmp_path, "seed=0,1")
    held, _ = survey(sweep)
    began, seen = threading.Event(), []

    def other_sweep() -> None:
        job = held.job
        with train.open_run(job.config, folder=job.folder, label=job.label) as run:
            began.set()
            time.sleep(1.0)
            model = run.build()
            for row, logits in fit(model, run.train, run.val, job.config.train, run.shuffle()):
                run.add(row, logits, model.state_dict())
            run.finish(model)

    other = threading.Thread(target=other_sweep)
    other.start()
    assert began.wait(10)
    entries = carry_out(
        sweep, watch=lambda entries, _: seen.append([entry.status for entry in entries])
    )
    other.join()
    assert [entry.status for entry in entries] == [Status.done, Status.done]
    assert trained == ["contrast attention none 1"]
    assert entries[0].before
    assert [Status.elsewhere, Status.running] in seen


def test_two_processes_cannot_be_at_one_run(tmp_path: Path) -> None:
    with store.claim(tmp_path, "abc"):
        assert store.is_claimed(tmp_path, "abc")
        assert not store.is_claimed(tmp_path, "abd")
    assert not store.is_claimed(tmp_path, "abc")


def test_processes_give_the_same_figures_as_one_after_another(tmp_path: Path) -> None:
    words = ["position=none,sinusoidal", "seed=0,1"]
    alone = carry_out(small(tmp_path / "alone", *words))
    together = carry_out(small(tmp_path / "together", *words, "executor.workers=2"))
    assert figures(together) == figures(alone)
    assert len(results(together)) == 4


def test_a_process_that_is_killed_fails_its_run_alone(tmp_path: Path) -> None:
    jobs = small(tmp_path, "seed=0,1", "train.epochs=1000").jobs
    short = small(tmp_path, "seed=2").jobs
    executor = Processes(2)
    try:
        executor.start(jobs)
        first, second = executor.workers
        first.process.kill()
        ((job, outcome),) = executor.wait(30)
        assert job is jobs[0]
        assert isinstance(outcome, Failure)
        assert "SIGKILL (out of memory?)" in outcome.reason
        executor.start(short)
        ((job, outcome),) = executor.wait(60)
        assert job is short[0]
        assert isinstance(outcome, Run)
    finally:
        executor.close()
    assert not second.process.is_alive()
