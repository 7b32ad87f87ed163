"""Executors: how many runs at a time, what Slurm is asked for, and what happens to processes."""

import os
import signal
import sys
from pathlib import Path

import pytest
from conftest import Patch
from sweeping import SMOKE, TWO_AT_A_TIME, Figures, message_of, outcomes, sweeping, wait_for

from attnexp.base.errors import UserError
from attnexp.config.schema import ExecutorConfig, ExecutorKind
from attnexp.runs import store
from attnexp.sweeps.executor import num_slots
from attnexp.sweeps.local import SideBySide
from attnexp.sweeps.plan import plan
from attnexp.sweeps.schedule import open_executor


def test_a_run_for_each_core_or_share_of_a_gpu(monkeypatch: Patch) -> None:
    many = plan([*SMOKE, "seed=range(99)"]).jobs  # with train.threads=1
    wide = plan(["seed=0,1", "train.threads=999"]).jobs
    usual = ExecutorConfig()
    assert num_slots(usual, many) == len(os.sched_getaffinity(0))
    assert num_slots(usual, wide) == 1
    assert num_slots(ExecutorConfig(workers=7), many) == 7
    assert num_slots(ExecutorConfig(workers=7), many[:3]) == 3
    assert num_slots(ExecutorConfig(kind=ExecutorKind.slurm), many) == 99
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert num_slots(usual, many) == 2
    assert num_slots(ExecutorConfig(gpu=0.1), many) == 20


@pytest.mark.slow
def test_processes_share_the_gpus(monkeypatch: Patch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    jobs = plan([*SMOKE, "seed=range(4)"]).jobs
    executor = SideBySide(ExecutorConfig(workers=4), jobs)
    executor.submit(jobs)
    gpus = [worker.gpu for worker in executor.workers.values()]
    executor.close()
    assert gpus == ["3", "5", "3", "5"]


def test_a_missing_extra_gives_the_install_line(monkeypatch: Patch) -> None:
    monkeypatch.setitem(sys.modules, "submitit", None)
    with pytest.raises(UserError, match=r"pip install 'attnexp\[slurm\]'"):
        open_executor(ExecutorConfig(kind=ExecutorKind.slurm), plan([*SMOKE]).jobs, [])


def children(pid: int) -> list[int]:
    files = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for file in files for child in file.read_text().split()]


def workers(pid: int) -> list[int]:
    """Processes that train: a child of the sweep, a server, has forked them."""
    return [worker for child in children(pid) for worker in children(child)]


def is_training(folder: Path) -> bool:
    begun = folder.glob(f"runs/*/{store.METRICS}")
    return not all(store.has_finished(file.parent) for file in begun)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_stopped_sweep_goes_on(tmp_path: Path, number: int, undisturbed: Figures) -> None:
    """Ctrl-C reaches all processes, here while they import; the others reach one that has begun."""
    is_ctrl_c = number == signal.SIGINT
    process = sweeping(tmp_path, *TWO_AT_A_TIME)
    wait_for(lambda: len(workers(process.pid)) == 2 and (is_ctrl_c or is_training(tmp_path)))
    pids = workers(process.pid)
    kill = os.killpg if is_ctrl_c else os.kill
    kill(process.pid, number)
    message_of(process, 130, -signal.SIGKILL)
    wait_for(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    message_of(sweeping(tmp_path, *TWO_AT_A_TIME))
    assert outcomes(tmp_path) == undisturbed


@pytest.mark.slow
def test_a_killed_process_is_replaced(tmp_path: Path, undisturbed: Figures) -> None:
    process = sweeping(tmp_path, *TWO_AT_A_TIME)
    wait_for(lambda: is_training(tmp_path))
    os.kill(workers(process.pid)[0], signal.SIGKILL)
    message = message_of(process)
    assert message.count("its process was killed (out of memory?). It goes on from epoch ") == 1
    assert outcomes(tmp_path) == undisturbed


@pytest.mark.slow
def test_ray_gives_the_figures_of_processes_here(tmp_path: Path, undisturbed: Figures) -> None:
    pytest.importorskip("ray")
    message_of(sweeping(tmp_path, *TWO_AT_A_TIME, "executor=ray"))
    assert outcomes(tmp_path) == undisturbed
