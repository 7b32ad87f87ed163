"""Slurm: what it is asked for, what is said of its jobs, and a real one of one node."""

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import Capture, Patch
from slurm_node import Environment, ask, queue, slurm_node
from sweeping import SIX, SMOKE, Figures, outcomes, result_of, sweeping, wait_for

from attnexp.runs import store
from attnexp.runs.result import Run
from attnexp.sweeps.executors import JobKilled
from attnexp.sweeps.plan import plan
from attnexp.sweeps.slurm import SlurmQueue

pytestmark = pytest.mark.slow  # `make test` does without submitit
submitit = pytest.importorskip("submitit")


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: Patch) -> Path:
    """Folder with a file for each command of Slurm, such as `squeue.txt`: what it answers."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    for name in "sbatch srun squeue scancel".split():
        (folder / name).write_text('#!/bin/sh\ncat "$0.txt"\n')
        (folder / name).chmod(0o755)
        (folder / f"{name}.txt").touch()
    (folder / "sbatch.txt").write_text("Submitted batch job 7")
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return folder


def start(tmp_path: Path, *words: str) -> tuple[SlurmQueue, Any]:
    """A queue with jobs, from id 7 on, and the future of the first."""
    planned = plan([*SMOKE, "executor=slurm", f"out={tmp_path}", *words])
    executor = SlurmQueue(planned.executor, planned.jobs)
    future, *_ = executor.submit(planned.jobs)
    return executor, future


def asked(tmp_path: Path, *words: str) -> set[str]:
    """What the script that is submitted asks of sbatch, and the commands in it."""
    executor, _ = start(tmp_path, *words)
    script = next(executor.folder.glob("*.sh"))
    return {line.removeprefix("#SBATCH --") for line in script.read_text().splitlines()}


@pytest.mark.usefixtures("answers")
def test_what_sbatch_is_asked_for(tmp_path: Path) -> None:
    words = ["executor.workers=3", "train.threads=2", "seed=range(4)"]
    default = asked(tmp_path / "default", *words)
    assert {"array=0-3%3", "time=120", "mem=8GB", "cpus-per-task=2"} <= default
    assert not any(line.startswith("gpus") for line in default)
    assert "gpus-per-node=1" in asked(tmp_path / "cuda", "train.device=cuda")
    options = "{mem: null, time: 30, mail-type: END, mem_per_cpu: 2GB, requeue: true, setup: a}"
    chosen = asked(tmp_path / "chosen", f"executor.slurm={options}")
    assert {"time=30", "mail-type=END", "mem-per-cpu=2GB", "requeue", "a"} <= chosen
    assert not any(line.startswith("mem=") for line in chosen)
    assert {"a", "b"} <= asked(tmp_path / "list", "executor.slurm={setup: [a, b]}")


def look(executor: SlurmQueue) -> None:
    executor.next_query = 0
    executor.wait([])


@pytest.mark.parametrize(
    ("answer", "error", "state"),
    [
        ("7|OUT_OF_MEMORY|None", JobKilled, "OUT_OF_MEMORY"),
        ("7|TIMEOUT|None", JobKilled, "TIMEOUT"),
        ("7|CANCELLED|None", RuntimeError, "CANCELLED"),
        ("", JobKilled, "UNKNOWN"),  # Slurm has forgotten it.
    ],
)
def test_a_job_that_slurm_ended_is_said_with_its_state_and_log(
    tmp_path: Path, answers: Path, answer: str, error: type[Exception], state: str
) -> None:
    executor, future = start(tmp_path)
    for goes_on in ("RUNNING", "COMPLETED"):  # A result may come later.
        (answers / "squeue.txt").write_text(f"7|{goes_on}|None\n")
        look(executor)
        assert not future.done()
    (answers / "squeue.txt").write_text(answer)
    look(executor)
    with pytest.raises(error, match=f"job 7 ended: {state}. Its log: .*7_0_log.err") as raised:
        future.result(timeout=0)
    assert raised.type is error
    executor.close()
    assert executor.folder.exists()


def test_results_are_taken(tmp_path: Path, answers: Path, template: Run, capfd: Capture) -> None:
    executor, future = start(tmp_path)
    (answers / "squeue.txt").write_text("7|PENDING|Resources\n")
    look(executor)
    assert executor.status == "Slurm: 0 run, 1 wait (Resources)"
    (answers / "squeue").write_text("#!/bin/sh\nexit 1\n")
    look(executor)
    assert executor.status == "squeue does not answer"
    result = executor.folder / "7_0_result.pkl"
    submitit.core.utils.cloudpickle_dump(("success", template), result)
    executor.wait([])
    assert future.result(timeout=0) == template
    (answers / "scancel").write_text("#!/bin/sh\nexit 1\n")
    executor.close()
    assert f"Remove them: scancel --name={executor.name}" in capfd.readouterr().err
    assert not executor.folder.exists()
    executor, future = start(tmp_path)
    result = executor.folder / "7_0_result.pkl"
    submitit.core.utils.cloudpickle_dump(("error", "ImportError: attnexp"), result)
    executor.wait([])
    with pytest.raises(RuntimeError, match="job 7 ended: FAILED"):
        future.result(timeout=0)


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Environment]:
    with slurm_node(tmp_path_factory.mktemp("slurm")) as environment:
        yield environment


def test_slurm_gives_the_same_figures(
    tmp_path: Path, undisturbed: Figures, node: Environment
) -> None:
    """The first sweep is stopped while submitit waits for sbatch, and cancels what it queued. Then
    two at once share their runs."""
    words = [*SIX, "executor=slurm", "executor.slurm={mem: 1GB}"]
    (tmp_path / "sbatch").write_text(f'#!/bin/sh\n{shutil.which("sbatch")} "$@"; sleep 2')
    (tmp_path / "sbatch").chmod(0o755)
    environment = node | {"PATH": f"{tmp_path}{os.pathsep}{node['PATH']}"}
    first = sweeping(tmp_path / "out", *words, **environment)
    wait_for(lambda: queue(environment))
    first.terminate()
    assert result_of(first)[0] == 130
    wait_for(lambda: not queue(environment))
    both = [sweeping(tmp_path / "out", *words, **node) for _ in range(2)]
    messages = [result_of(process) for process in both]
    assert [code for code, _ in messages] == [0, 0], messages
    assert outcomes(tmp_path / "out") == undisturbed
    logs = [file.read_text() for file in tmp_path.glob(f"out/runs/*/{store.LOG}")]
    assert [log.count("epoch 1/6") for log in logs] == [1] * 6


def test_slurm_says_why_a_run_waits_and_why_it_ended(tmp_path: Path, node: Environment) -> None:
    """The first sweep asks for more time than the partition gives, and its terminal goes away."""
    words = [*SMOKE, "train.device=cpu", "train.epochs=5000", "executor=slurm"]
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where nohup runs the tests
    first = sweeping(tmp_path, *words, "executor.slurm={mem: 1GB, time: 999}", **node)
    signal.signal(signal.SIGHUP, before)
    assert first.stderr
    assert any("1 wait (PartitionTimeLimit)" in line for line in first.stderr)
    first.send_signal(signal.SIGHUP)
    assert result_of(first)[0] == 130
    wait_for(lambda: not queue(node))
    second = sweeping(tmp_path, *words, "executor.slurm={mem: 1GB}", **node)
    wait_for(lambda: " R " in queue(node))
    ask(node, "scancel", "--me")
    code, message = result_of(second)
    assert code == 1
    assert "CANCELLED" in message
