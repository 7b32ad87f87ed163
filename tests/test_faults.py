"""Runs and sweeps that are killed, and disks that fill up, at every moment there is.

The counts are in docs/reliability.md.
"""

import os
import random
import resource
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import forked
import pytest
from forked import PROGRAM
from samples import outcomes, sweeping, without_clock

from attnexp.inspect import doctor
from attnexp.runs import checkpoint, manifest, predictions, store
from attnexp.runs.arrays import WEIGHTS

pytestmark = pytest.mark.trial

RUN = ["train=holdout", "data=contrast", "position=sinusoidal", "train.threads=1", "train.epochs=6",
       "data.limit_train=512", "data.limit_test=256"]  # fmt: skip
KILLS = int(os.environ.get("KILLS", "3"))
"""How often a sweep is killed; docs/reliability.md has the counts of 10."""
SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)


def attnexp(folder: Path, words: list[str], kill: Callable[[int], None] | None = None) -> int:
    """The exit code of a run in a folder; kill: is given its process id while it is at work."""
    log = folder.with_suffix(".log")
    process = forked.start(
        forked.attnexp, "train", "--json", *words, f"out={folder}",
        cwd=folder.parent, stdout=log, stderr=log, environment={**os.environ},
    )  # fmt: skip
    assert process.pid is not None
    if kill is not None:
        kill(process.pid)
    process.join(120)
    assert process.exitcode is not None, log.read_text()
    assert "Traceback" not in log.read_text()
    return process.exitcode


def outcome(folder: Path) -> tuple[object, ...]:
    """All that a run came to, less clocks and memory."""
    (file,) = folder.rglob(store.RESULT)
    result = store.load(file.parent)
    kept = [(file.parent / name).read_bytes() for name in (WEIGHTS, predictions.FILE)]
    return without_clock(result.epochs), result.test, kept


def after(
    folder: Path, epochs: int, seconds: float, number: signal.Signals
) -> Callable[[int], None]:
    """A kill so many seconds after the run has started or resumed and has this many epochs."""

    def written() -> int:
        return sum(file.stat().st_size for file in folder.glob(f"runs/*.part/{store.LOG}"))

    before = written()

    def kill(pid: int) -> None:
        while (written() == before or rows(folder) < epochs) and _is_there(pid):
            time.sleep(0.001)
        time.sleep(seconds)
        _end(pid, number)

    return kill


def inside_a_save(folder: Path, number: signal.Signals) -> Callable[[int], None]:
    """While a checkpoint is being written."""

    def kill(pid: int) -> None:
        before = saves(folder)
        while set(saves(folder)) <= set(before) and _is_there(pid):
            time.sleep(0.0005)
        _end(pid, number)

    return kill


def saves(folder: Path) -> list[Path]:
    """Checkpoints that are not whole yet."""
    return list(folder.glob(f"runs/*.part/.{checkpoint.FILE}.*"))


def _is_there(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


def _end(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it was quicker
        os.kill(pid, number)


def test_killed_at_any_moment_a_run_ends_with_the_same_figures(tmp_path: Path) -> None:
    """At random moments, and in every third run inside a save; one of each signal in every run."""
    assert attnexp(tmp_path / "undisturbed", RUN) == 0
    undisturbed = outcome(tmp_path / "undisturbed")
    (file,) = tmp_path.rglob(store.RESULT)
    seconds = store.load(file.parent).wall_seconds
    chance, counts = random.Random(0), Counter[str]()
    for trial in range(2 * KILLS):
        folder = tmp_path / str(trial)
        for i, number in enumerate(SIGNALS):
            if trial % 3 == 0:
                kill, where = inside_a_save(folder, number), "inside a save"
            else:
                epochs, moment = 2 * i + chance.randrange(2), chance.uniform(0, seconds / 6)
                kill, where = after(folder, epochs, moment, number), "anywhere"
            code = attnexp(folder, RUN, kill)
            assert code in (0, 130, -number), code
            counts[f"{number.name} {where}: exit {code}"] += 1
            counts["torn saves left behind"] += len(saves(folder))
        assert attnexp(folder, RUN) == 0
        assert outcome(folder) == undisturbed
        lines = folder.with_suffix(".log").read_text().splitlines()
        counts["went on"] += sum(line.startswith("goes on from") for line in lines)
        assert not list(folder.rglob(".checkpoint*"))
        shutil.rmtree(folder)
        print(trial, dict(counts), flush=True)
    assert counts["torn saves left behind"] >= KILLS // 2
    assert counts["went on"] >= 2 * KILLS


CALLS = ("write", "fsync", "rename", "mkdir")


def traced(folder: Path, *options: str) -> tuple[subprocess.CompletedProcess[str], list[str]]:
    """A run under strace, and the calls of its first thread, which alone writes files."""
    trace = folder.with_suffix(".trace")
    strace = ["strace", "-f", "--seccomp-bpf", "-y", "-o", str(trace), *options]
    done = untraced(folder, *strace)
    calls = [line.split(maxsplit=1) for line in trace.read_text().splitlines()]
    return done, [call for pid, call in calls if pid == calls[-1][0]]  # it ends last


def untraced(folder: Path, *before: str) -> subprocess.CompletedProcess[str]:
    words = [*RUN[:4], "train.epochs=2", "data.limit_train=64", "data.limit_test=32"]
    return subprocess.run(
        [*before, PROGRAM, "train", "--json", *words, f"out={folder}"],
        capture_output=True, text=True, timeout=240,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )  # fmt: skip


def test_a_disk_that_is_full_at_any_write_costs_nothing_but_time(tmp_path: Path) -> None:
    """Every write, sync, rename and new folder of a run is refused in turn, by the kernel, or of
    these only some, with fewer than ten `KILLS`.
    """
    if shutil.which("strace") is None:
        pytest.skip("no strace here")
    done, lines = traced(tmp_path / "undisturbed", "-e", f"trace={','.join(CALLS)}")
    if "ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    assert done.returncode == 0, done.stderr
    undisturbed = outcome(tmp_path / "undisturbed")
    faults: list[tuple[str, int]] = []
    seen = Counter[str]()
    for line in lines:
        call = line.partition("(")[0]
        seen[call] += 1
        if f"{tmp_path}/undisturbed/" in line:
            faults.append((call, seen[call]))
    counts = Counter(call for call, _ in faults)
    assert min(counts[call] for call in CALLS) > 0
    for number, (call, nth) in enumerate(faults[:: max(1, 10 // KILLS)]):
        folder = tmp_path / f"full{number}"
        inject = f"inject={call}:error=ENOSPC:when={nth}"
        done, lines = traced(folder, "-e", f"trace={call}", "-e", inject)
        (injected,) = [line for line in lines if "(INJECTED)" in line]
        where = f"{injected}\n{done.stderr}"
        assert f"{folder}/" in injected, where
        if done.returncode == 0:
            counts[f"did no harm: {call}"] += 1
        else:
            assert done.returncode == 2, where
            assert "No space left on device" in done.stderr, where
            assert "Traceback" not in done.stderr, where
            assert not [file for file in folder.rglob(store.RESULT) if ".part" not in str(file)]
            again = untraced(folder)
            assert again.returncode == 0, where + again.stderr
        assert outcome(folder) == undisturbed, where
        shutil.rmtree(folder)
    print(dict(counts))


SWEEP = [*RUN, "train.epochs=6", "seed=range(3)", "executor.workers=2"]
EXECUTORS = {
    "processes": [],
    "submitit": ["executor=submitit"],
    "ray": ["executor=ray"],
    "ray_cluster": ["executor=ray"],
}


@pytest.fixture
def ray_cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of one of two cores, that outlives its sweeps."""
    pytest.importorskip("ray")
    monkeypatch.setenv("RAY_AUTH_MODE", "token")
    monkeypatch.setenv("RAY_AUTH_TOKEN", secrets.token_hex())
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--head", "--block", "--node-ip-address=127.0.0.1", f"--port={port}", "--num-cpus=2",
             "--include-dashboard=false", "--disable-usage-stats"]  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="ray") as folder:  # paths of sockets are short
        head = subprocess.Popen(
            [sys.executable, "-m", "ray.scripts.scripts", "start", *words, f"--temp-dir={folder}"],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert head.stdout is not None
        for line in head.stdout:
            if "Ray runtime started" in line:
                break
        yield f"127.0.0.1:{port}"
        head.terminate()
        head.communicate(timeout=60)


def rows(folder: Path) -> int:
    """Epochs that its runs have come to."""
    found = 0
    with suppress(FileNotFoundError):  # a run has just finished, and changed its name
        for file in folder.rglob(store.METRICS):
            found += len(file.read_bytes().splitlines())
    return found


@pytest.mark.parametrize("executor", EXECUTORS)
def test_a_sweep_killed_at_any_moment_ends_with_the_same_figures(
    tmp_path: Path, executor: str, request: pytest.FixtureRequest
) -> None:
    """Kills of the command or, as a terminal does, of all its processes."""
    words = EXECUTORS[executor]
    if executor == "ray_cluster":
        words = [*words, f"executor.address={request.getfixturevalue(executor)}"]
    elif executor != "processes":
        pytest.importorskip(executor)
    said = sweeping(tmp_path / "undisturbed", [*SWEEP, *words]).communicate(timeout=240)[1]
    undisturbed, num_rows = outcomes(tmp_path / "undisturbed"), rows(tmp_path / "undisturbed")
    assert len(undisturbed) == 3, said
    assert num_rows == 18
    chance, counts = random.Random(1), Counter[str]()
    for trial in range(KILLS):
        folder, number = tmp_path / str(trial), SIGNALS[trial % 3]
        process = sweeping(folder, [*SWEEP, *words])
        wanted = chance.randrange(num_rows)
        while rows(folder) < wanted and process.poll() is None:
            time.sleep(0.01)
        everyone = number is signal.SIGINT
        (os.killpg if everyone else os.kill)(process.pid, number)
        said = process.communicate(timeout=60)[1]
        assert process.returncode in (0, 130, -number), said
        assert "Traceback" not in said
        counts[f"{number.name} {process.returncode}"] += 1
        counts["had finished"] += len(outcomes(folder))
        process = sweeping(folder, [*SWEEP, *words])
        said = process.communicate(timeout=240)[1]
        assert process.returncode == 0, said
        assert outcomes(folder) == undisturbed
        for log in folder.rglob(store.LOG):
            counts["went on"] += log.read_text().count("\ngoes on from")
    print(dict(counts))


@pytest.mark.parametrize("seconds", [0.0, 0.2, 0.5, 1.0])
def test_ctrl_c_while_processes_start_says_one_thing(tmp_path: Path, seconds: float) -> None:
    """The signal reaches all processes, also those that still import."""
    process = sweeping(tmp_path, SWEEP)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    while len(children.read_text().split()) < 2:  # the first but watches over semaphores
        assert process.poll() is None
        time.sleep(0.001)
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGINT)
    said = process.communicate(timeout=60)[1]
    assert process.returncode == 130, said
    assert "Traceback" not in said


def test_five_hundred_runs_take_the_memory_and_files_of_one_hundred(tmp_path: Path) -> None:
    """The command and its processes are counted together."""
    words = ["data=contrast", "data.limit_train=32", "data.limit_test=32", "train.epochs=1",
             "model.d_model=8", "data.vocab_size=300", "seed=range(500)"]  # fmt: skip
    process = sweeping(tmp_path, [*SWEEP, *words])
    taken, said = dict[int, tuple[float, int]](), None
    while said is None:
        with suppress(subprocess.TimeoutExpired):  # its lines are read, or it waits for ever
            said = process.communicate(timeout=0.5)[1]
        done = len(list(tmp_path.glob(f"runs/*/{store.RESULT}")))
        with suppress(FileNotFoundError, ProcessLookupError):  # one of them has just ended
            taken[done] = of_session(process.pid)
    assert process.returncode == 0, said
    megabytes, files = zip(*(taken[done] for done in sorted(taken) if done >= 100), strict=True)
    few, many = len(megabytes) // 4, -len(megabytes) // 4
    print(f"{max(megabytes[:few]):.0f}, {max(megabytes[many:]):.0f} MB; {max(files)} files")
    assert max(megabytes[many:]) < max(megabytes[:few]) + 16
    assert max(files[many:]) < max(files[:few]) + 16


def of_session(leader: int) -> tuple[float, int]:
    """Memory in MB and open files of a process and of those it has started."""
    stats = {int(stat.parent.name): stat for stat in Path("/proc").glob("[0-9]*/stat")}
    members = [
        pid
        for pid, stat in stats.items()
        if int(stat.read_text().rpartition(")")[2].split()[3]) == leader
    ]
    pages = sum(int(Path(f"/proc/{pid}/statm").read_text().split()[1]) for pid in members)
    files = sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in members)
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6, files


def test_a_full_disk_during_an_export_is_told_once(tmp_path: Path) -> None:
    """No file may grow beyond 100 bytes: as on a full disk, each write is refused."""
    assert untraced(tmp_path / "outputs").returncode == 0
    for target in ("hub", "tensorboard"):
        done = subprocess.run(
            [PROGRAM, "export", "outputs/runs", "--to", target, "--into", "there"],
            cwd=tmp_path, capture_output=True, text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100)),
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (2, ""), done
        assert len(done.stderr.splitlines()) == 1, done.stderr
        assert "Give another place with --into DIR" in done.stderr


def test_a_run_that_is_renamed_meanwhile_stops_no_report(tmp_path: Path) -> None:
    """The run is read, or left out with a message that names it."""
    for number in range(2):
        assert attnexp(tmp_path / "outputs", [*RUN, "train.epochs=1", f"seed={number}"]) == 0
    moving, _ = sorted((tmp_path / "outputs" / store.RUNS).glob("*-*"))
    ended, counts = threading.Event(), Counter[str]()

    def rename() -> None:
        while not ended.is_set():
            moving.rename(moving.with_suffix(".replaced"))
            moving.with_suffix(".replaced").rename(moving)

    thread = threading.Thread(target=rename)
    thread.start()
    try:
        for _ in range(200):
            left_out: list[str] = []
            runs = manifest.load_runs([tmp_path / "outputs" / store.RUNS], left_out.append)
            counts[f"{len(runs)} read"] += 1
            assert all(str(moving) in line for line in left_out)
            doctor.examine(tmp_path / "outputs")
    finally:
        ended.set()
        thread.join()
    print(dict(counts))
