"""Executors on this machine: how many runs at a time, and what happens to their processes."""

import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sweeping import SMOKE, outcomes, result_of, sweeping

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config.schema import ExecutorConfig, ExecutorKind
from attnexp.runs import store
from attnexp.runs.result import Run
from attnexp.sweeps.executors import local, num_slots, processes
from attnexp.sweeps.plan import Job, plan
from attnexp.sweeps.schedule import run_sweep

LONG = [*SMOKE, "train.epochs=100000", "executor.workers=2"]
SIX = [*SMOKE, "position=none,sinusoidal", "seed=range(3)", "executor.workers=2"]


def test_local_takes_a_run_for_each_core_and_no_more_than_there_are() -> None:
    many = plan([*SMOKE, "seed=range(99)", "train.device=cpu"]).jobs
    assert num_slots(ExecutorConfig(), many) == len(os.sched_getaffinity(0))
    assert num_slots(ExecutorConfig(threads=1000), many) == 1
    assert num_slots(ExecutorConfig(workers=7), many) == 7
    assert num_slots(ExecutorConfig(workers=7), many[:3]) == 3
    assert num_slots(ExecutorConfig(kind=ExecutorKind.slurm), many) is None


def test_gpus_are_shared_and_dealt_to_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    many, given = plan([*SMOKE, "seed=range(99)"]).jobs, list[str]()
    assert num_slots(ExecutorConfig(), many) == 2
    assert num_slots(ExecutorConfig(gpu=0.1), many) == 20

    class Pool:
        def __init__(self, size: int, context: object, begin: object, args: tuple[object, str]):
            given.append(args[1])

        def submit(self, *job: object) -> object:
            return type("Busy", (), {"done": lambda self: False})()

    monkeypatch.setattr("attnexp.sweeps.executors.ProcessPoolExecutor", Pool)
    local(ExecutorConfig(gpu=0.5), many).submit(many[:4])
    assert given == ["3", "5", "3", "5"]


def test_one_run_at_a_time_is_quiet_without_a_terminal_and_has_torch_s_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = list[tuple[int | None, bool]]()

    def do(job: Job) -> str:
        seen.append((job.config.train.threads, progress.console.quiet))
        return "failed"

    monkeypatch.setattr("attnexp.sweeps.executors.do", do)
    run_sweep(plan(["experiment=smoke", f"out={tmp_path}", "executor.workers=1"]))
    assert (seen, progress.console.quiet) == ([(None, True)], False)


@pytest.mark.parametrize(("kind", "extra"), [("ray", "ray"), ("slurm", "slurm")])
def test_a_missing_extra_gives_the_install_line_and_leaves_no_study(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, extra: str
) -> None:
    for module in ("ray", "submitit"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=rf"pip install 'attnexp\[{extra}\]'"):
        run_sweep(plan([*SMOKE, "seed=0,1", f"executor={kind}", f"out={tmp_path}"]))
    assert not [*tmp_path.rglob("study.json")]


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    """Processes that train: those that a process started, but the one that tracks semaphores."""
    pids = map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
    return [pid for pid in pids if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]


def num_begun(folder: Path) -> int:
    begun = [file.parent for file in folder.glob(f"runs/*/{store.METRICS}")]
    return sum(not store.has_finished(path) for path in begun)


@pytest.mark.slow
def test_a_process_that_is_killed_ends_its_own_run_alone_and_another_takes_its_place(
    tmp_path: Path,
) -> None:
    executor = processes(2)
    try:
        first, second = executor.submit(plan([*LONG, "seed=0,1", f"out={tmp_path}"]).jobs)
        wait_for(lambda: num_begun(tmp_path) == 2)
        os.kill(children(os.getpid())[0], signal.SIGKILL)
        wait_for(lambda: executor.wait([first, second]))
        assert first.exception() is not None
        assert not second.done()
        (third,) = executor.submit(plan([*SMOKE, f"out={tmp_path}"]).jobs)
        assert isinstance(third.result(60), Run)
    finally:
        executor.close()
    assert not children(os.getpid())


@pytest.mark.slow
def test_a_sweep_survives_the_kill_of_a_process(tmp_path: Path) -> None:
    process = sweeping(tmp_path, *SIX, "train.epochs=20")
    wait_for(lambda: num_begun(tmp_path) == 2)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    code, message = result_of(process)
    assert code == 0, message
    assert message.count("its process was killed. It is tried once more.") == 1
    assert len(outcomes(tmp_path)) == 6


@pytest.mark.slow
@pytest.mark.parametrize("seconds", [0.0, 1.0, 4.0])
def test_ctrl_c_ends_all_processes_and_says_one_thing(tmp_path: Path, seconds: float) -> None:
    """The signal reaches all processes, also those that still import."""
    process = sweeping(tmp_path, *LONG, "seed=0,1")
    wait_for(lambda: len(children(process.pid)) == 2)
    pids = children(process.pid)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    code, message = result_of(process)
    assert code == 130, message
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_sweep_that_is_stopped_ends_its_processes_and_goes_on_to_the_same_figures(
    tmp_path: Path, number: signal.Signals
) -> None:
    words = [*SIX, "train.epochs=6"]
    assert result_of(sweeping(tmp_path / "undisturbed", *words))[0] == 0
    process = sweeping(tmp_path / "stopped", *words)
    wait_for(lambda: num_begun(tmp_path / "stopped"))
    pids = children(process.pid)
    process.send_signal(number)
    assert result_of(process)[0] in (130, -number)
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    code, message = result_of(sweeping(tmp_path / "stopped", *words))
    assert code == 0, message
    assert outcomes(tmp_path / "stopped") == outcomes(tmp_path / "undisturbed")


@pytest.mark.slow
def test_two_sweeps_in_one_folder_do_each_run_once(tmp_path: Path) -> None:
    assert result_of(sweeping(tmp_path / "alone", *SIX))[0] == 0
    both = [sweeping(tmp_path / "both", *SIX) for _ in range(2)]
    messages = [result_of(process) for process in both]
    assert [code for code, _ in messages] == [0, 0], messages
    assert outcomes(tmp_path / "both") == outcomes(tmp_path / "alone")
    assert sum(message.count("texts/s") for _, message in messages) == 6
