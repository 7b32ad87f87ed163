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
from attnexp.sweeps.executors import JobKilled, TimeLimitReached
from attnexp.sweeps.plan import plan
from attnexp.sweeps.slurm import SlurmQueue, sbatch_script

pytestmark = pytest.mark.slow  # `make test` does without submitit
submitit = pytest.importorskip("submitit")


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: Patch) -> Path:
    """Folder with a file for each command of Slurm, such as `squeue.txt`: what it answers."""
    folder = tmp_path / "slurm"
    folder.mkdir()
    for name in "sbatch srun squeue scancel sinfo".split():
        (folder / name).write_text('#!/bin/sh\ncat "$0.txt"\n')
        (folder / name).chmod(0o755)
        (folder / f"{name}.txt").touch()
    (folder / "sbatch.txt").write_text("Submitted batch job 7")
    monkeypatch.setenv("PATH", str(folder), prepend=os.pathsep)
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    return folder


def script(*words: str, **options: str) -> list[str]:
    planned = plan([*SMOKE, "seed=0,1", "executor=slurm", *words])
    return sbatch_script(planned.executor, planned.jobs).splitlines()


def asked(*words: str) -> set[str]:
    marks = [line.partition("#SBATCH --") for line in script(*words)]
    return {option for _, mark, option in marks if mark}


def test_the_script_has_what_is_asked_for_and_what_is_passed_on(tmp_path: Path) -> None:
    words = "executor.workers=3 train.threads=2 seed=range(4)".split()
    passed = "executor.slurm={partition: long, mail-type: END, time: 30}"
    wanted = "array=0-3%3 partition=long time=30 mem=8GB cpus-per-task=2 mail-type=END"
    assert {*wanted.split()} <= asked(*words, passed)
    lines = script(f"out={tmp_path}")
    assert any(line.startswith("srun") and f"{tmp_path}/runs/.jobs" in line for line in lines)


def test_options_are_taken_away_and_replaced() -> None:
    names = {option.partition("=")[0] for option in asked("executor.slurm={mem: null}")}
    assert "time" in names
    assert "mem" not in names
    options = asked("executor.slurm={mem-per-cpu: 2GB, gres: gpu:a100:1, requeue: true}")
    assert {"mem-per-cpu=2GB", "gres=gpu:a100:1", "requeue"} <= options
    assert not any(option.startswith(("mem=", "gpus-per-node")) for option in options)
    assert "module load x" in script("executor.slurm={setup: module load x}")
    assert "b" in script("executor.slurm={setup: [a, b]}")


@pytest.mark.parametrize(
    ("answer", "wanted", "unwanted"),
    [
        ("main*|1:00:00|(null)\nbig|infinite|gpu:4\n", "time=1:00:00", "gpus-per-node=1"),
        ("main*|3-00:00:00|gpu:a100:4(S:0)\n", "time=120", "time=3-00:00:00"),
        ("main*|infinite|gpu:4\n", "gpus-per-node=1", "time=infinite"),
        ("", "time=120", "gpus-per-node=1"),  # no such partition
    ],
)
def test_the_cluster_says_its_limit(answers: Path, answer: str, wanted: str, unwanted: str) -> None:
    (answers / "sinfo.txt").write_text(answer)
    options = asked()
    assert wanted in options
    assert unwanted not in options
    assert not any(option.startswith("gpus") for option in asked("train.device=cpu"))


def queue_one(tmp_path: Path) -> tuple[SlurmQueue, Any]:
    """A queue with one job, of id 7, and its future."""
    planned = plan([*SMOKE, "executor=slurm", f"out={tmp_path}"])
    executor = SlurmQueue(planned.executor, planned.jobs)
    (future,) = executor.submit(planned.jobs)
    (executor.folder / "7_0_log.err").write_text("one\ntwo\nout\n\nof memory\n")
    return executor, future


def look(executor: SlurmQueue) -> None:
    executor.next_query = 0
    executor.wait([])


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        ("OUT_OF_MEMORY", JobKilled, r"exit code -9. Its log ends: two . out . of memory"),
        ("CANCELLED", RuntimeError, "7: CANCELLED"),
        ("TIMEOUT", TimeLimitReached, "Slurm's time limit of 2:00 ended it"),
    ],
)
def test_a_job_that_slurm_ended_is_said_with_its_state_and_log(
    tmp_path: Path, answers: Path, state: str, error: type[Exception], message: str
) -> None:
    executor, future = queue_one(tmp_path)
    (answers / "squeue.txt").write_text("7|RUNNING|2:00|0|None\n")
    look(executor)
    assert not future.done()
    (answers / "squeue.txt").write_text(f"7|{state}|2:00|9|None\n")
    look(executor)
    with pytest.raises(error, match=message) as raised:
        future.result(timeout=0)
    assert raised.type is error
    executor.close()
    assert (executor.folder / "7_0_log.err").exists()


def test_a_job_is_given_up_when_slurm_knows_it_no_more(tmp_path: Path, answers: Path) -> None:
    executor, future = queue_one(tmp_path)
    (answers / "squeue").write_text("#!/bin/sh\nexit 1\n")
    look(executor)
    assert executor.status == "squeue does not answer"
    assert not future.done()
    (answers / "squeue").write_text("#!/bin/sh\n")
    look(executor)
    with pytest.raises(JobKilled, match="7: UNKNOWN"):
        future.result(timeout=0)


def test_a_job_twice_completed_without_a_result_was_killed(tmp_path: Path, answers: Path) -> None:
    executor, future = queue_one(tmp_path)
    (answers / "squeue.txt").write_text("7|COMPLETED|2:00|0|None\n")
    look(executor)
    assert not future.done()  # its result may be on the way
    look(executor)
    with pytest.raises(JobKilled, match=r"7: COMPLETED without a result.* log ends: two . out"):
        future.result(timeout=0)


def test_results_are_taken(tmp_path: Path, answers: Path, template: Run, capfd: Capture) -> None:
    executor, future = queue_one(tmp_path)
    (answers / "squeue.txt").write_text("7|PENDING|2:00|0|Resources\n")
    look(executor)
    assert executor.status == "Slurm: 0 run, 1 wait (Resources)"
    result = executor.folder / "7_0_result.pkl"
    submitit.core.utils.cloudpickle_dump(("success", template), result)
    executor.wait([])
    assert future.result(timeout=0) == template
    (answers / "scancel").write_text("#!/bin/sh\nexit 1\n")
    executor.close()
    assert f"Remove them: scancel --name={executor.name}" in capfd.readouterr().err
    assert not executor.folder.parent.exists()
    executor, future = queue_one(tmp_path)
    result = executor.folder / "7_0_result.pkl"
    submitit.core.utils.cloudpickle_dump(("error", "ImportError: attnexp"), result)
    executor.wait([])
    with pytest.raises(RuntimeError, match=r"job 7 failed: Its log ends: two . out . of memory"):
        future.result(timeout=0)
    assert capfd.readouterr().out == ""


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
