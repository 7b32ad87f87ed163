"""Runs on disk, each under its id: `OUT/runs/ID/`, or `ID-2` once a file that it read changed.

A folder holds `config.json`, `code/` (the Python files that it read), `metrics.jsonl` (a line an
epoch), `model.safetensors`, `predictions.safetensors`, `vocabulary.txt`, `run.log`, while it is
under way a checkpoint, and `result.json`, which is written last: with it the run has finished."""

import json
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import TypeAdapter

from attnexp.base import digests
from attnexp.base.errors import Busy, UserError, on_one_line
from attnexp.base.files import atomic_write, reading, writing
from attnexp.config.schema import RunConfig, to_dict
from attnexp.runs.result import SCHEMA, Run, RunResult

RESULT = "result.json"
CODE = "code"  # folder of the Python files that a run read
METRICS = "metrics.jsonl"
LOG = "run.log"
CONFIG = "config.json"
VOCABULARY = "vocabulary.txt"
CHECKPOINT = "checkpoint.pt"
RUNS = "runs"  # the folder of all runs, under `out`
CHECKED_RESULT = TypeAdapter(RunResult)
RUN_ID = re.compile(r"([0-9a-f]{12}-[0-9a-f]{8})(-[0-9]+)?")  # the id; a number for other files


def settings_digest_of(run_id: str) -> str:
    """First part of an id: `identity.Identity.settings_digest`."""
    return run_id.partition("-")[0]


def run_dir(out: str | Path, run_id: str) -> Path:
    """Folder of a run, finished or not."""
    return Path(out, RUNS, run_id)


def has_finished(path: Path) -> bool:
    """Whether a folder holds a finished run."""
    return (path / RESULT).exists()


def choose_folder(out: str | Path, run_id: str) -> tuple[Path, str]:
    """The first of ID, ID-2, ... with no finished run, or with one whose files are as they were;
    and what has become of a file since the run before it finished, or nothing."""
    path = run_dir(out, run_id)
    number = 1
    change = ""
    while has_finished(path):
        change = digests.change_since(load_result(path).read_files)
        if not change:
            break
        number += 1
        path = run_dir(out, f"{run_id}-{number}")
    return path, change


@contextmanager
def lock(path: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Lock a run or a study within the block; a killed process holds no lock. wait: seconds. Raises
    `Busy` if another still holds it then, `UserError` where the disk refuses the lock's file."""
    file = lock_file(path)
    with writing(path):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            acquired = FileLock(file).acquire(timeout=wait)
        except Timeout:
            raise Busy(
                f"Another process is at {path} ({file} is locked). Wait for it, or give another "
                f"place with out=DIR."
            ) from None
    with acquired:
        yield


def lock_file(path: Path) -> Path:
    """File by which a study, or a run in whichever of its folders, is locked."""
    run = RUN_ID.fullmatch(path.name)
    name = run[1] if run else path.name
    return path.parent / ".locks" / f"{name}.lock"


def is_locked(path: Path) -> bool:
    """Whether a process is doing this run now. Writes nothing. Whoever may not open the lock's file
    for writing, as in a folder of somebody else, cannot tell, and is answered no."""
    if not lock_file(path).exists():
        return False
    try:
        with lock(path):
            return False
    except Busy:
        return True
    except UserError:
        return False


def create(path: Path, config: RunConfig) -> None:
    """Make the folder of a locked run, or take up an earlier attempt's, and write its config."""
    links = filter(Path.is_symlink, [path, *path.glob("*")])  # They lead elsewhere.
    # What a killed process was writing, and what was measured of an earlier model.
    for old in [*links, *path.glob(".*.*.[0-9]*"), *path.glob("probe_*.json")]:
        old.unlink(missing_ok=True)
    path.mkdir(parents=True, exist_ok=True)
    with atomic_write(path / CONFIG) as file:
        file.write(json.dumps(to_dict(config), indent=1).encode())


def save_code(path: Path, files: Mapping[str, bytes]) -> None:
    """Keep Python files that a run has read, in place of those of an earlier attempt."""
    shutil.rmtree(path / CODE, ignore_errors=True)
    for name, content in files.items():
        copy = path / CODE / name.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)


def load_vocabulary(run: Run) -> list[str]:
    """Vocabulary of a run. Raises `UserError` if it cannot be read."""
    file = run.path / VOCABULARY
    with reading(file, "Train again."):
        return file.read_bytes().decode().split("\n")[:-1]


def save_result(path: Path, result: RunResult) -> None:
    """Write `result.json`, whole or not at all, which finishes the run."""
    with atomic_write(path / RESULT) as file:
        file.write(json.dumps(asdict(result), indent=1).encode())
    (path / CHECKPOINT).unlink(missing_ok=True)


def load_result(path: Path) -> RunResult:
    """The result of a finished run. Raises `UserError` when there is none that can be read."""
    file = path / RESULT
    with reading(file, f"Delete {path}; train again."):
        tree = json.loads(file.read_bytes())
        if tree["schema"] != SCHEMA:
            raise ValueError(f"it has schema {tree['schema']}; this attnexp reads {SCHEMA}")
        return CHECKED_RESULT.validate_python(tree)


@contextmanager
def leaving_out(path: Path, left_out: Callable[[str], object]) -> Iterator[None]:
    """Go on after whatever the reading of a path raises. left_out: gets a message that names it."""
    try:
        yield
    except Exception as error:  # What is damaged, or another program's, may raise anything.
        message = on_one_line(error)
        if not isinstance(error, UserError):
            message = f"{path} ({type(error).__name__}: {message})"
        left_out(f"left out: {message}")


def newest_finished(out: str | Path) -> dict[str, Path]:
    """The run under `out` that finished last, of whatever code, by the settings in its id."""
    files = Path(out, RUNS).glob(f"*/{RESULT}")
    in_order = sorted(files, key=lambda file: file.stat().st_mtime)
    return {settings_digest_of(file.parent.name): file.parent for file in in_order}
