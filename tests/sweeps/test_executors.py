"""Executors for real: submitit's local one, Ray on this machine, and sweeps that share a folder."""

import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from forked import PROGRAM
from samples import outcomes, sweeping

from attnexp.base.errors import UserError
from attnexp.config.schema import ExecutorConfig, ExecutorKind
from attnexp.sweeps.executors.choose import for_executor, local_slots, open_executor
from attnexp.sweeps.executors.local import InThisProcess, Processes, available_cores
from attnexp.sweeps.plan import Sweep, plan
from attnexp.sweeps.schedule import run_sweep

SMALL = ["experiment=smoke", "train.threads=1"]
TWELVE = [*SMALL, "position=none,sinusoidal", "seed=range(6)"]


def sweep(*words: str) -> Sweep:
    return plan([*SMALL, *words])


def test_local_takes_a_run_for_each_core_and_no_more_than_there_are() -> None:
    many = sweep("seed=range(99)").jobs
    config = ExecutorConfig()
    assert local_slots(config, many) == available_cores()
    assert local_slots(ExecutorConfig(threads=10_000), many) == 1
    assert local_slots(ExecutorConfig(workers=7), many) == 7
    assert local_slots(ExecutorConfig(workers=7), many[:3]) == 3


def test_one_run_at_a_time_needs_no_process_and_keeps_torchs_threads() -> None:
    planned = plan(["experiment=smoke", "seed=0,1", "executor.workers=1"])
    executor = open_executor(planned.executor, planned.jobs)
    assert isinstance(executor, InThisProcess)
    job = planned.jobs[0]
    assert for_executor(job, planned.executor, alone=True).config.train.threads is None
    assert for_executor(job, planned.executor, alone=False).config.train.threads == 1


def test_a_gpu_is_dealt_out_by_index_and_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr("attnexp.sweeps.executors.choose.DRIVERS", ["/dev/null"])
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    jobs = sweep("seed=range(99)").jobs
    assert local_slots(ExecutorConfig(), jobs) == 2
    assert local_slots(ExecutorConfig(gpu=0.25), jobs) == 8
    assert local_slots(ExecutorConfig(), sweep("seed=range(99)", "train.device=cpu").jobs) == (
        available_cores()
    )
    given: list[str] = []

    class Recorded:
        def __init__(self, *, args: tuple[Any, dict[str, str]], name: str, **_: Any) -> None:
            self.name = name
            given.append(args[1]["CUDA_VISIBLE_DEVICES"])

        def start(self) -> None: ...

    monkeypatch.setattr("attnexp.sweeps.executors.local._spawn.Process", Recorded)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    executor = Processes(4, gpus=2)
    for _ in range(4):
        executor._new_worker()
    assert sorted(given) == ["3", "3", "5", "5"]


@pytest.mark.parametrize(
    ("kind", "module", "extra"), [("ray", "ray", "ray"), ("submitit", "submitit", "slurm")]
)
def test_a_missing_extra_gives_the_install_line_and_leaves_no_study(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UserError, match=rf"pip install 'attnexp\[{extra}\]'"):
        run_sweep(sweep("seed=0,1", f"executor={kind}", f"out={tmp_path}"))
    assert not [*tmp_path.rglob("study.json")]


def test_a_ray_cluster_that_does_not_answer_is_told_at_once() -> None:
    pytest.importorskip("ray")
    config = ExecutorConfig(kind=ExecutorKind.ray, address="127.0.0.1:9")  # nobody listens there
    with pytest.raises(UserError, match=r"No Ray cluster answers at 127\.0\.0\.1:9"):
        open_executor(config, sweep("seed=0,1").jobs)


def test_no_slurm_here_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("submitit")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UserError, match="login node"):
        open_executor(ExecutorConfig(kind=ExecutorKind.slurm), sweep(f"out={tmp_path}").jobs)


def run(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PROGRAM, "sweep", *words, f"out={folder}"], capture_output=True, text=True, timeout=400
    )


def endless(folder: Path) -> subprocess.Popen[str]:
    """Two runs side by side that would take for ever, both under way."""
    words = [*SMALL, "train.epochs=100000", "seed=0,1", "executor.workers=2"]
    sweep = sweeping(folder, words)
    deadline = time.monotonic() + 120
    while len(list(folder.rglob("metrics.jsonl"))) < 2:
        assert time.monotonic() < deadline
        assert sweep.poll() is None
        time.sleep(0.05)
    return sweep


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("undisturbed")
    done = run(*TWELVE, folder=folder)
    assert done.returncode == 0, done.stderr
    found = outcomes(folder)
    assert len(found) == 12
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("executor", "module"), [("executor=submitit", "submitit"), ("executor=ray", "ray")]
)
def test_another_executor_gives_the_same_figures(
    tmp_path: Path, undisturbed: dict[str, object], executor: str, module: str
) -> None:
    pytest.importorskip(module)
    done = run(*TWELVE, executor, "executor.workers=2", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert outcomes(tmp_path) == undisturbed


@pytest.mark.slow
def test_the_processes_of_a_killed_sweep_end_with_it(tmp_path: Path) -> None:
    sweep = endless(tmp_path)
    sweep.kill()
    sweep.communicate()
    time.sleep(2)
    sizes = [file.stat().st_size for file in tmp_path.rglob("metrics.jsonl")]
    time.sleep(2)
    assert [file.stat().st_size for file in tmp_path.rglob("metrics.jsonl")] == sizes


@pytest.mark.slow
@pytest.mark.parametrize("number", [2, 8])
def test_sweeps_on_one_folder_share_the_work(
    tmp_path: Path, undisturbed: dict[str, object], number: int
) -> None:
    sweeps = [sweeping(tmp_path, [*TWELVE, "executor.workers=2"]) for _ in range(number)]
    message = [sweep.communicate(timeout=400)[1] for sweep in sweeps]
    assert [sweep.returncode for sweep in sweeps] == [0] * number, message
    assert outcomes(tmp_path) == undisturbed
    trained = sum(line.count(": final") for line in message)
    assert trained == 12, message
