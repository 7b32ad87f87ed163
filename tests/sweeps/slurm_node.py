"""A Slurm cluster of one node, this machine, in a folder of its own and without accounting."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

Environment = dict[str, str]
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
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory={megabytes}
PartitionName=main Nodes=ALL Default=YES MaxTime=180
"""


@contextmanager
def slurm_node(folder: Path) -> Iterator[Environment]:
    """The environment in which Slurm's commands find it. The test is skipped where it cannot be."""
    path = f"{os.environ['PATH']}{os.pathsep}/usr/sbin"
    programs = [shutil.which(name, path=path) for name in ("slurmctld", "slurmd")]
    if None in programs:
        pytest.skip("no Slurm here (Debian: slurm-wlm)")
    environment = {**os.environ, "SLURM_CONF": str(_configure(folder))}
    with ExitStack() as stack:
        log = stack.enter_context((folder / "log").open("w"))
        for program in programs:
            daemon = subprocess.Popen([str(program), "-D"], env=environment, stdout=log, stderr=log)
            stack.callback(daemon.wait, 60)
            stack.callback(daemon.terminate)
        deadline = time.monotonic() + 30
        while ask(environment, "sinfo", "--noheader", "--format=%T") != "idle":
            if time.monotonic() > deadline:
                pytest.skip(f"no Slurm here: {(folder / 'log').read_text()[-500:]}")
            time.sleep(0.2)
        yield environment
        ask(environment, "scancel", "--me")


def queue(environment: Environment) -> str:
    return ask(environment, "squeue", "--noheader")


def ask(environment: Environment, *words: str) -> str:
    done = subprocess.run(words, env=environment, capture_output=True, text=True)
    return done.stdout.strip()


def _configure(folder: Path) -> Path:
    for name in ("state", "spool"):
        (folder / name).mkdir(parents=True)
    with socket.socket() as first, socket.socket() as second:
        for free in (first, second):
            free.bind(("127.0.0.1", 0))
        ports = [free.getsockname()[1] for free in (first, second)]
    megabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    config = folder / "slurm.conf"
    config.write_text(
        CONFIG.format(
            host=socket.gethostname().partition(".")[0], ports=ports, user=Path(folder).owner(),
            folder=folder, cores=len(os.sched_getaffinity(0)), megabytes=megabytes,
        )
    )  # fmt: skip
    return config
