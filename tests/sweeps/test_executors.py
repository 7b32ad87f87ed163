"""Executors: how many runs at a time, what Slurm is asked for, and what happens to processes."""

import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
from slurm_node import queue, slurm_node
from sweeping import SMOKE, outcomes, result_of, sweeping

from attnexp.base.errors import UserError
from attnexp.config.schema import ExecutorConfig, ExecutorKind
from attnexp.runs import store
from attnexp.sweeps import executors
from attnexp.sweeps.executors import num_slots
from attnexp.sweeps.plan import plan
from attnexp.sweeps.schedule import open_executor
from attnexp.sweeps.slurm import sbatch_script

SIX = [*SMOKE, "position=none,sinusoidal", "seed=range(3)", "train.device=cpu", "train.epochs=6"]
TWO_AT_A_TIME = [*SIX, "executor.workers=2"]


def test_a_run_for_each_core_or_share_of_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    many = plan([*SMOKE, "seed=range(99)"]).jobs  # with train.threads=1
    assert num_slots(ExecutorConfig(), many) == len(os.sched_getaffinity(0))
    assert num_slots(ExecutorConfig(), plan(["seed=0,1", "train.threads=999"]).jobs) == 1
    assert num_slots(ExecutorConfig(workers=7), many) == 7
    assert num_slots(ExecutorConfig(workers=7), many[:3]) == 3
    assert num_slots(ExecutorConfig(kind=ExecutorKind.slurm), many) == 99
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert num_slots(ExecutorConfig(), many) == 2
    assert num_slots(ExecutorConfig(gpu=0.1), many) == 20


def test_slots_share_the_gpus_and_end_with_the_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    gpus: list[str] = []
    pools: list[ThreadPoolExecutor] = []
    all_have_begun = Barrier(4)

    class Pool(ThreadPoolExecutor):
        def __init__(self, size: int, context: object, begin: object, args: tuple[object, str]):
            super().__init__(size)
            gpus.append(args[1])
            pools.append(self)

        def submit(self, *job: object) -> Future[Any]:  # type: ignore[override]
            return super().submit(all_have_begun.wait, 60)

    monkeypatch.setattr(executors, "ProcessPoolExecutor", Pool)
    executor = executors.SideBySide(4)
    jobs = plan([*SMOKE, "seed=range(4)"]).jobs
    for _ in range(2):  # the second time in the slots that are free again
        places: list[Any] = [future.result() for future in executor.submit(jobs)]
        assert sorted(places) == [0, 1, 2, 3]
    executor.close()
    assert sorted(gpus) == ["3", "3", "5", "5"]
    assert all(pool._shutdown for pool in pools)


@pytest.mark.parametrize("kind", ["ray", "slurm"])
def test_a_missing_extra_gives_the_install_line(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setitem(sys.modules, {"ray": "ray", "slurm": "submitit"}[kind], None)
    with pytest.raises(UserError, match=rf"pip install 'attnexp\[{kind}\]'"):
        open_executor(ExecutorConfig(kind=ExecutorKind(kind)), plan([*SMOKE]).jobs)


def test_the_script_for_slurm_has_what_is_asked_for_and_what_is_passed_on(tmp_path: Path) -> None:
    pytest.importorskip("submitit")
    words = "executor=slurm executor.workers=3 train.threads=2".split()
    passed = "executor.slurm={partition: long, mail-type: END, time: 30}"
    planned = plan([*SMOKE, "seed=range(4)", *words, passed, f"out={tmp_path}"])
    lines = sbatch_script(planned.executor, planned.jobs).splitlines()
    wanted = """array=0-3%3 partition=long time=30 mem=8GB cpus-per-task=2 mail-type=END
    gpus-per-node=1"""
    assert {f"#SBATCH --{option}" for option in wanted.split()} <= {*lines}
    assert any(line.startswith("srun") and f"{tmp_path}/runs/.jobs" in line for line in lines)
    on_cpu = plan([*SMOKE, "train.device=cpu"])
    assert "gpus" not in sbatch_script(on_cpu.executor, on_cpu.jobs)


def wait_for(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def children(pid: int) -> list[int]:
    """Processes that train: those that a process started, but the one that tracks semaphores."""
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    pids = [int(pid) for task in tasks for pid in task.read_text().split()]
    return [pid for pid in pids if "spawn_main" in Path(f"/proc/{pid}/cmdline").read_text()]


def num_begun(folder: Path) -> int:
    begun = [file.parent for file in folder.glob(f"runs/*/{store.METRICS}")]
    return sum(not store.has_finished(path) for path in begun)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    """Figures of the six, by two processes here."""
    folder = tmp_path_factory.mktemp("undisturbed")
    assert result_of(sweeping(folder, *TWO_AT_A_TIME))[0] == 0
    return outcomes(folder)


@pytest.mark.slow
def test_a_sweep_survives_the_kill_of_a_process(
    tmp_path: Path, undisturbed: dict[str, object]
) -> None:
    process = sweeping(tmp_path, *TWO_AT_A_TIME)
    wait_for(lambda: num_begun(tmp_path) == 2)
    os.kill(children(process.pid)[0], signal.SIGKILL)
    code, message = result_of(process)
    assert (code, message.count("its process was killed.")) == (0, 1), message
    assert outcomes(tmp_path) == undisturbed


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_sweep_that_is_stopped_ends_its_processes_and_goes_on_to_the_same_figures(
    tmp_path: Path, number: signal.Signals, undisturbed: dict[str, object]
) -> None:
    """Ctrl-C reaches all processes, here while they import; the others reach one that has begun."""
    process, is_ctrl_c = sweeping(tmp_path, *TWO_AT_A_TIME), number == signal.SIGINT
    wait_for(lambda: len(children(process.pid)) == 2 and (is_ctrl_c or num_begun(tmp_path)))
    pids = children(process.pid)
    (os.killpg if is_ctrl_c else os.kill)(process.pid, number)
    assert result_of(process)[0] in (130, -signal.SIGKILL)
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    code, message = result_of(sweeping(tmp_path, *TWO_AT_A_TIME))
    assert code == 0, message
    assert outcomes(tmp_path) == undisturbed


@pytest.mark.slow
def test_two_sweeps_in_one_folder_do_each_run_once(
    tmp_path: Path, undisturbed: dict[str, object]
) -> None:
    both = [sweeping(tmp_path, *TWO_AT_A_TIME) for _ in range(2)]
    messages = [result_of(process) for process in both]
    assert [code for code, _ in messages] == [0, 0], messages
    assert outcomes(tmp_path) == undisturbed
    logs = [file.read_text() for file in tmp_path.glob(f"runs/*/{store.LOG}")]
    assert [log.count("epoch 1/6") for log in logs] == [1] * 6


@pytest.mark.slow
def test_slurm_gives_the_figures_of_processes_here(
    tmp_path: Path, undisturbed: dict[str, object]
) -> None:
    """The first sweep is stopped while submitit waits for sbatch, and cancels what it queued."""
    pytest.importorskip("submitit")
    words = [*SIX, "executor=slurm", "executor.slurm={mem: 1GB}"]
    with slurm_node(tmp_path / "slurm") as environment:
        (tmp_path / "sbatch").write_text(f'#!/bin/sh\n{shutil.which("sbatch")} "$@"; sleep 2')
        (tmp_path / "sbatch").chmod(0o755)
        environment["PATH"] = f"{tmp_path}{os.pathsep}{environment['PATH']}"
        first = sweeping(tmp_path / "out", *words, **environment)
        wait_for(lambda: queue(environment))
        first.terminate()
        assert result_of(first)[0] == 130
        wait_for(lambda: not queue(environment))
        code, message = result_of(sweeping(tmp_path / "out", *words, **environment))
        assert code == 0, message
        assert outcomes(tmp_path / "out") == undisturbed


@pytest.mark.slow
def test_ray_gives_the_figures_of_processes_here(
    tmp_path: Path, undisturbed: dict[str, object]
) -> None:
    pytest.importorskip("ray")
    code, message = result_of(sweeping(tmp_path, *TWO_AT_A_TIME, "executor=ray"))
    assert code == 0, message
    assert outcomes(tmp_path) == undisturbed
