"""Slurm: what it is asked for, what is said of its jobs, and a real one of one node."""

import os
import shutil
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from conftest import Capture, Patch
from sweeping import SIX, SMOKE, Figures, message_of, outcomes, sweeping, wait_for

from attnexp.runs import store
from attnexp.runs.result import Run
from attnexp.sweeps.executor import JobKilled
from attnexp.sweeps.plan import plan
from attnexp.sweeps.slurm import SlurmQueue

pytestmark = pytest.mark.slow  # `make test` does without submitit
submitit = pytest.importorskip("submitit")
Environment = dict[str, str]


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
    executor.next_query = 0  # at the next `wait`; a submission does not put it off
    future, *_ = executor.submit(planned.jobs)
    return executor, future


@pytest.mark.usefixtures("answers")
def test_what_sbatch_is_asked_for(tmp_path: Path) -> None:
    words = ["train.threads=2", "train.device=cuda", "seed=range(4)", "executor.workers=3"]
    options = "{mem: null, mail-type: END, setup: [module load python]}"
    executor, _ = start(tmp_path, *words, f"executor.slurm={options}")
    text = next(executor.folder.glob("*.sh")).read_text()
    for line in ("array=0-3%3", "time=120", "cpus-per-task=2", "gpus-per-node=1", "mail-type=END"):
        assert f"#SBATCH --{line}\n" in text
    assert "--mem" not in text
    assert "\nmodule load python\n" in text


def look(executor: SlurmQueue) -> None:
    executor.next_query = 0
    executor.wait([])


@pytest.mark.parametrize(
    ("answer", "error", "state"),
    [
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


def end(executor: SlurmQueue, *outcome: object) -> None:
    """Let the first job write its outcome, as submitit does."""
    submitit.core.utils.cloudpickle_dump(outcome, executor.folder / "7_0_result.pkl")
    executor.wait([])


def test_results_are_taken(tmp_path: Path, answers: Path, template: Run, capfd: Capture) -> None:
    executor, future = start(tmp_path)
    (answers / "squeue.txt").write_text("7|PENDING|Resources\n")
    executor.wait([])
    assert executor.status == "Slurm: 0 run, 1 wait (Resources)"
    (answers / "squeue").write_text("#!/bin/sh\nexit 1\n")
    look(executor)
    assert executor.status == "squeue does not answer"
    end(executor, "success", template)
    assert future.result(timeout=0) == template
    (answers / "scancel").write_text("#!/bin/sh\nexit 1\n")
    executor.close()
    assert f"Remove them: scancel --name={executor.name}" in capfd.readouterr().err
    assert not executor.folder.exists()
    executor, future = start(tmp_path)
    end(executor, "error", "ImportError: attnexp")
    with pytest.raises(RuntimeError, match="job 7 ended: FAILED"):
        future.result(timeout=0)


CONFIG = """
ClusterName=attnexp
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmdPort={ports[1]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerParameters=batch_sched_delay=0
KillWait=10
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory=2048
PartitionName=main Nodes=ALL Default=YES MaxTime=180
"""


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Environment]:
    """The environment in which Slurm's commands find a cluster of one node, this machine."""
    folder = tmp_path / "node"
    path = f"{os.environ['PATH']}{os.pathsep}/usr/sbin"
    programs = [shutil.which(name, path=path) for name in ("slurmctld", "slurmd")]
    if None in programs:
        pytest.skip("no Slurm here (Debian: slurm-wlm)")
    environment = {**os.environ, "SLURM_CONF": str(configure(folder))}
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("w"))
        for program in programs:
            daemon = subprocess.Popen([str(program), "-D"], env=environment, stderr=log)
            stack.callback(daemon.wait, 60)
            stack.callback(daemon.terminate)
        try:
            wait_for(lambda: ask(environment, "sinfo", "--noheader", "--format=%T") == "idle")
        except AssertionError:
            pytest.skip(f"Slurm does not begin here: {(folder / 'log').read_text()[-500:]}")
        yield environment
        ask(environment, "scancel", "--me")


def configure(folder: Path) -> Path:
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    host = socket.gethostname().partition(".")[0]
    cores = len(os.sched_getaffinity(0))
    any_port = ("127.0.0.1", 0)
    with socket.create_server(any_port) as first, socket.create_server(any_port) as second:
        ports = [first.getsockname()[1], second.getsockname()[1]]
    text = CONFIG.format(host=host, ports=ports, user=folder.owner(), folder=folder, cores=cores)
    config = folder / "slurm.conf"
    config.write_text(text)
    return config


def ask(environment: Environment, *words: str) -> str:
    return subprocess.run(words, env=environment, capture_output=True, text=True).stdout.strip()


def test_slurm_changes_no_figure(tmp_path: Path, undisturbed: Figures, node: Environment) -> None:
    """The first sweep is stopped while it awaits sbatch, and cancels its jobs. Two share runs."""
    folder = tmp_path / "out"
    words = [*SIX, "executor=slurm", "executor.slurm={mem: 1GB}"]
    sbatch = tmp_path / "sbatch"
    sbatch.write_text(f'#!/bin/sh\n{shutil.which("sbatch")} "$@"; sleep 2')
    sbatch.chmod(0o755)
    slow = {"PATH": f"{tmp_path}{os.pathsep}{node['PATH']}"}
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where nohup runs the tests
    first = sweeping(folder, *words, **node | slow)
    signal.signal(signal.SIGHUP, before)
    wait_for(lambda: ask(node, "squeue", "--noheader"))
    first.send_signal(signal.SIGHUP)  # its terminal goes away
    message_of(first, 130)
    wait_for(lambda: not ask(node, "squeue", "--noheader"))
    both = [sweeping(folder, *words, **node) for _ in range(2)]
    for process in both:
        assert "squeue does not answer" not in message_of(process)
    assert outcomes(folder) == undisturbed
    logs = [file.read_text() for file in folder.glob(f"runs/*/{store.LOG}")]
    assert [log.count("epoch 1/6") for log in logs] == [1] * 6
