"""Executors: how many runs at a time, what Slurm is asked for, and what happens to processes."""

import os
import pickle
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
from conftest import Patch
from sweeping import SMOKE, TWO_AT_A_TIME, Figures, outcomes, result_of, sweeping, wait_for

from attnexp.base.errors import UserError
from attnexp.config.schema import ExecutorConfig, ExecutorKind
from attnexp.runs import store
from attnexp.sweeps import executors
from attnexp.sweeps.plan import plan
from attnexp.sweeps.schedule import open_executor
from attnexp.training.inputs import load_data


def test_a_run_for_each_core_or_share_of_a_gpu(monkeypatch: Patch) -> None:
    many = plan([*SMOKE, "seed=range(99)"]).jobs  # with train.threads=1
    assert executors.num_slots(ExecutorConfig(), many) == len(os.sched_getaffinity(0))
    assert executors.num_slots(ExecutorConfig(), plan(["seed=0,1", "train.threads=999"]).jobs) == 1
    assert executors.num_slots(ExecutorConfig(workers=7), many) == 7
    assert executors.num_slots(ExecutorConfig(workers=7), many[:3]) == 3
    assert executors.num_slots(ExecutorConfig(kind=ExecutorKind.slurm), many) == 99
    monkeypatch.setattr("torch.cuda.device_count", lambda: 2)
    assert executors.num_slots(ExecutorConfig(), many) == 2
    assert executors.num_slots(ExecutorConfig(gpu=0.1), many) == 20


def name_place(
    job: bytes, pipe: Connection, environment: dict[str, str], caches: tuple[dict[Any, Any], ...]
) -> None:
    """In place of training: the GPU of a process and the data that it was handed, or no outcome."""
    if pickle.loads(job).config.seed == 4:
        os.kill(os.getpid(), signal.SIGKILL)
    (dataset,) = caches[0].values()
    pipe.send((environment["CUDA_VISIBLE_DEVICES"], dataset.fingerprint))


@pytest.mark.slow
def test_processes_share_the_gpus_and_what_the_sweep_has_read(monkeypatch: Patch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    monkeypatch.setattr(executors, "_work", name_place)
    jobs = plan([*SMOKE, "seed=range(5)"]).jobs
    fingerprint = load_data(jobs[0].config.data).fingerprint
    executor = executors.SideBySide(ExecutorConfig(workers=5), jobs)
    futures = [*executor.submit(jobs)]
    while not all(future.done() for future in futures):
        executor.wait(futures)
    assert isinstance(futures.pop().exception(), executors.JobKilled)
    outcomes: list[Any] = [future.result() for future in futures]
    assert sorted(outcomes) == [("3", fingerprint)] * 2 + [("5", fingerprint)] * 2
    assert not executor.workers


@pytest.mark.parametrize("kind", ["ray", "slurm"])
def test_a_missing_extra_gives_the_install_line(monkeypatch: Patch, kind: str) -> None:
    monkeypatch.setitem(sys.modules, {"ray": "ray", "slurm": "submitit"}[kind], None)
    with pytest.raises(UserError, match=rf"pip install 'attnexp\[{kind}\]'"):
        open_executor(ExecutorConfig(kind=ExecutorKind(kind)), plan([*SMOKE]).jobs, [])


def children(pid: int) -> list[int]:
    """Processes that train: those that the server of a process has forked."""
    servers = [child for child in children_of(pid) if "forkserver" in command_of(child)]
    return [child for server in servers for child in children_of(server)]


def children_of(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split()]


def command_of(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_text()


def num_begun(folder: Path) -> int:
    begun = [file.parent for file in folder.glob(f"runs/*/{store.METRICS}")]
    return sum(not store.has_finished(path) for path in begun)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_stopped_sweep_ends_its_processes_and_goes_on(
    tmp_path: Path, number: signal.Signals, undisturbed: Figures
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
def test_a_killed_process_is_replaced_and_its_run_goes_on(
    tmp_path: Path, undisturbed: Figures
) -> None:
    process = sweeping(tmp_path, *TWO_AT_A_TIME)
    wait_for(lambda: num_begun(tmp_path))
    os.kill(children(process.pid)[0], signal.SIGKILL)
    code, message = result_of(process)
    assert code == 0, message
    assert message.count("its process was killed (out of memory?). It goes on from epoch ") == 1
    assert outcomes(tmp_path) == undisturbed


@pytest.mark.slow
def test_ray_gives_the_figures_of_processes_here(tmp_path: Path, undisturbed: Figures) -> None:
    pytest.importorskip("ray")
    code, message = result_of(sweeping(tmp_path, *TWO_AT_A_TIME, "executor=ray"))
    assert code == 0, message
    assert outcomes(tmp_path) == undisturbed
