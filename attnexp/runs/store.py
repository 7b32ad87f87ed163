"""Runs on disk, each once, under its id: `OUT/runs/ID/`.

It holds `config.yaml` (resolved), `code/` (the source of the user's code), `metrics.jsonl` (a line
an epoch), `model.safetensors`, `predictions.safetensors`, `vocabulary.txt`, `run.log`, while it is
under way a checkpoint to go on from, and `result.json`, which is written last: a run has finished
when this is there.
"""

import itertools
import json
import re
import shutil
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path

import yaml
from filelock import FileLock, Timeout
from pydantic import TypeAdapter

from attnexp.base import reads
from attnexp.base.errors import Busy, UserError
from attnexp.base.files import atomic_write, reading, writing
from attnexp.config.schema import RunConfig, to_dict
from attnexp.runs import predictions
from attnexp.runs.identity import CODE, Identity
from attnexp.runs.labels import default_label, departures
from attnexp.runs.result import SCHEMA, Run, RunResult

RESULT = "result.json"
METRICS = "metrics.jsonl"
LOG = "run.log"
FAILED = "The run failed."  # the last line of its log, where no user or machine stopped it
CONFIG = "config.yaml"
VOCABULARY = "vocabulary.txt"
CHECKPOINT = "checkpoint.pt"
RUNS = "runs"  # the folder of all runs, under `out`
SCHEMA_WITHOUT_LABEL = 4  # it differs from 5 by `label` and `departures` alone
NOT_A_RESULT = (ValueError, LookupError, TypeError, AttributeError)  # raised by half a document
CHECKED_RESULT = TypeAdapter(RunResult)

RUN_ID = re.compile(r"[0-9a-f]{12}-[0-9a-f]{8}(-[0-9]+)?")
"""Name of a run's folder."""


def run_dir(out: str | Path, run_id: str) -> Path:
    """Folder of a run, finished or not."""
    return Path(out) / RUNS / run_id


def has_finished(path: Path) -> bool:
    """Whether a folder holds a finished run."""
    return (path / RESULT).exists()


def find_place(out: str | Path, run_id: str) -> tuple[Path, str]:
    """Folder of the run that finished with the files of today, else the first of ID, ID-2, ... with
    no finished run; and the file that changed since an older one finished, or nothing."""
    changed = ""
    for number in itertools.count(1):
        path = run_dir(out, run_id if number == 1 else f"{run_id}-{number}")
        if not has_finished(path):
            return path, changed
        latest = reads.changed_file(load_result(path).read_files)
        if not latest:
            return path, ""
        changed = latest
    raise AssertionError


@contextmanager
def lock_place(out: str | Path, run_id: str) -> Iterator[tuple[Path, str]]:
    """Lock the place of a run. Raises as `lock` does."""
    path = None
    while path is None:
        place, changed = find_place(out, run_id)
        with lock(place):
            if find_place(out, run_id)[0] == place:  # else another process has just finished it
                path = place
                yield path, changed


def has_failed(path: Path) -> bool:
    """Whether the last attempt at a run ended by an error of its own."""
    log = path / LOG
    return log.exists() and log.read_text(errors="replace").rstrip().endswith(FAILED)


@contextmanager
def lock(path: Path, *, wait: float = 0.0) -> Iterator[None]:
    """Lock a run or a study against other processes, until the process ends, however that ends.
    wait: seconds. Raises `Busy` if another still holds it then, `UserError` where the disk refuses
    what is written within."""
    file = _lock_file(path)
    with writing(path):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings("ignore", "flock not supported")  # then the file is a mark
                held = FileLock(file).acquire(timeout=wait)
            with held:
                yield
        except Timeout:
            raise Busy(
                f"Another process is at {path} ({describe_lock(path)}). Wait for it, or give "
                "another place with out=DIR."
            ) from None


def _lock_file(path: Path) -> Path:
    return path.parent / ".locks" / f"{path.name}.lock"


def describe_lock(path: Path) -> str:
    """The file that locks a run, and, where the disk has no locks, the process that made it."""
    file = _lock_file(path)
    try:
        pid, host = file.read_text().split()[:2]
    except (OSError, ValueError):
        return f"{file} is locked"
    return f"process {pid} on {host} made {file}; if it has ended, delete the file"


def is_locked(path: Path) -> bool:
    """Whether a process is doing this run now. Writes nothing."""
    if not _lock_file(path).exists():
        return False
    try:
        with lock(path):
            return False
    except Busy:
        return True


def create(path: Path, config: RunConfig) -> None:
    """Make the folder of a locked run, or take up an earlier attempt's, and write its config."""
    path.mkdir(parents=True, exist_ok=True)
    for link in filter(Path.is_symlink, path.iterdir()):  # of whoever made the folder
        link.unlink()
    for name in (CONFIG, CHECKPOINT, RESULT, predictions.WEIGHTS, predictions.FILE):
        for part in path.glob(f".{name}.[0-9]*"):  # what a killed process was writing
            part.unlink()
    tree = to_dict(config)
    with atomic_write(path / CONFIG) as file:
        file.write(yaml.safe_dump(tree, sort_keys=False).encode())


def save_code(path: Path, files: Mapping[str, bytes]) -> None:
    """Keep Python files that a run has read, in place of those of an earlier attempt."""
    shutil.rmtree(path / CODE, ignore_errors=True)
    for name, content in files.items():
        copy = path / CODE / name.lstrip("/")
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_bytes(content)


def load_vocabulary(run: Run) -> list[str]:
    """Vocabulary of a run. Raises `UserError` if it cannot be read."""
    with reading(run.path / VOCABULARY, "Train again."):
        return run.read(VOCABULARY).decode().split("\n")[:-1]


def save_result(path: Path, result: RunResult) -> None:
    """Write `result.json`, whole or not at all, which finishes the run."""
    with atomic_write(path / RESULT) as file:
        file.write(json.dumps(asdict(result), indent=1).encode())
    (path / CHECKPOINT).unlink(missing_ok=True)


def load_result(path: Path) -> RunResult:
    """The result of a finished run. Raises `UserError` when there is none that can be read."""
    file = path / RESULT
    if not file.exists():
        raise UserError(f"{path} holds no finished run: there is no {RESULT}.")
    with reading(file, f"Delete {path}; train again."):
        tree = json.loads(file.read_bytes())
        if tree["schema"] == SCHEMA_WITHOUT_LABEL:
            config = tree["config"]
            tree["label"] = default_label(config)
            tree["departures"] = departures(config)
            tree["schema"] = SCHEMA
        if tree["schema"] != SCHEMA:
            raise ValueError(f"it has schema {tree['schema']}; this attnexp reads {SCHEMA}")
        if "best" in tree:  # as runs before called it
            tree["own_best"] = tree.pop("best")
        return CHECKED_RESULT.validate_python(tree)


def list_finished(out: str | Path) -> list[Path]:
    """Folders of the finished runs under `out`, the newest first."""
    files = Path(out, RUNS).glob(f"*/{RESULT}")
    newest_first = sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)
    return [file.parent for file in newest_first]


def finished_by_settings(out: str | Path) -> defaultdict[str, list[Path]]:
    """Folders of the finished runs under `out`, the newest first, by the settings in their ids:
    those of one list differ in code alone."""
    folders = defaultdict[str, list[Path]](list)
    for path in list_finished(out):
        digest, _, _ = path.name.partition("-")
        folders[digest].append(path)
    return folders


def describe_outdated_runs(
    finished: Mapping[str, Sequence[Path]], missing: Iterable[Identity]
) -> list[str]:
    """Changes of the code since runs with the settings of missing ones finished: a line for each
    change. finished: as `finished_by_settings` gives it."""
    runs_by_change = defaultdict[str, set[Path]](set)
    for identity in missing:
        paths = finished.get(identity.settings)
        if not paths:
            continue
        newest = paths[0]
        with suppress(UserError):  # a run that cannot be read says nothing
            result = load_result(newest)
            files = {file for file, _ in result.code.items() ^ identity.code.items()}
            change = ", ".join(sorted(files)) or reads.changed_file(result.read_files)
            runs_by_change[change].add(newest)
    changes = runs_by_change.items()
    return [f"{files} changed since {len(paths)} of these runs." for files, paths in changes]
