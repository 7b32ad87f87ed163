"""A run on disk: its id, its folder, its result and where that came from.

`RUN/` holds `config.yaml` (resolved), `overrides.yaml`, `metrics.jsonl` (a line an epoch),
`model.safetensors`, `predictions.safetensors`, `vocabulary.txt`, `run.log` and `result.json`. The
last is written last and whole: a folder with a `result.json` is a finished run.
"""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path

from filelock import FileLock, Timeout

from attnexp.config.schema import RunConfig, to_dict
from attnexp.errors import Busy, UserError
from attnexp.files import atomic_write
from attnexp.runs.identity import replicate
from attnexp.runs.result import SCHEMA, EpochRow, Run, RunResult

RESULT, METRICS, LOG = "result.json", "metrics.jsonl", "run.log"
VOCABULARY = "vocabulary.txt"


def run_dir(config: RunConfig, run_id: str, *, folder: str, label: str) -> Path:
    """`OUT/FOLDER/LABEL-sSEED-ID`: readable, unique, and without an `=`."""
    safe = "".join(c if c.isalnum() or c in "._-" else "-" for c in label)
    return Path(config.out) / folder / f"{safe[:60]}-s{replicate(to_dict(config))}-{run_id[:8]}"


def find_finished(folder: Path, run_id: str) -> list[Run]:
    """The finished runs with this id: one, or one for each label that it goes by."""
    found = sorted(folder.glob(f"*-{run_id[:8]}/{RESULT}"))
    loaded = [Run(path=file.parent, result=load(file.parent)) for file in found]
    return [run for run in loaded if run.result.run_id == run_id]


def adopt(run: Run, path: Path, *, label: str, order: int, copy: bool) -> Run:
    """A finished run under another label, in the folder `path` that goes with it.

    copy: leave the old one too, where both labels are wanted.
    """
    result = replace(run.result, label=label, order=order)
    with writing(path):
        if run.path != path:
            shutil.rmtree(path, ignore_errors=True)  # of an attempt that did not finish
            if copy:
                part = path.with_name(f".{path.name}.{os.getpid()}")
                shutil.copytree(run.path, part, dirs_exist_ok=True)
                part.rename(path)
            else:
                run.path.rename(path)
        save(path, result)
    return Run(path=path, result=result)


@contextmanager
def claim(folder: Path, run_id: str) -> Iterator[None]:
    """Nobody else does this run in this folder meanwhile. Raises `Busy` where somebody does.

    The lock is the operating system's and ends with the process, however that ends.
    """
    lock = FileLock(folder / ".locks" / f"{run_id}.lock")
    with writing(folder):
        Path(lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise Busy(
                f"Another process is at this run ({lock.lock_file} is locked). Wait for it, or "
                f"give another place with out=DIR."
            ) from None
    try:
        yield
    finally:
        lock.release()


def is_claimed(folder: Path, run_id: str) -> bool:
    """Whether some process is at this run now."""
    try:
        with claim(folder, run_id):
            return False
    except Busy:
        return True


def create(path: Path, config: RunConfig, overrides: Sequence[str]) -> None:
    """Make a run's folder and put its configuration there. Raises `UserError` without a place."""
    import yaml

    with writing(path):
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.yaml").write_text(yaml.safe_dump(to_dict(config), sort_keys=False))
        (path / "overrides.yaml").write_text(yaml.safe_dump(list(overrides)))
        for name in (RESULT, METRICS, LOG):  # of an earlier attempt
            (path / name).unlink(missing_ok=True)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turn what the disk refuses into one message."""
    try:
        yield
    except OSError as error:
        raise UserError(
            f"Results cannot be written to {path}: {error.strerror}. Give another place with "
            f"out=DIR."
        ) from error


def add_epoch(path: Path, row: EpochRow) -> None:
    """A line more in `metrics.jsonl`, there for whoever looks on."""
    with (path / METRICS).open("a") as file:
        file.write(json.dumps(asdict(row)) + "\n")


@contextmanager
def log(path: Path) -> Iterator[Callable[[str], object]]:
    """A function that adds a line to `run.log`; what stops the run is written there too."""
    with (path / LOG).open("a", buffering=1) as file:
        try:
            yield lambda line: file.write(line + "\n")
        except BaseException as error:
            file.write(f"stopped: {error!r}\n")
            raise


def save_vocabulary(path: Path, words: Sequence[str]) -> None:
    """The words in use, one a line, most frequent first: what a reader of other text needs."""
    with atomic_write(path / VOCABULARY) as file:
        file.write("".join(f"{word}\n" for word in words).encode())


def load_vocabulary(path: Path) -> list[str]:
    """What `save_vocabulary` wrote."""
    return (path / VOCABULARY).read_bytes().decode().split("\n")[:-1]


def save(path: Path, result: RunResult) -> None:
    """Write `result.json`, whole or not at all."""
    with atomic_write(path / RESULT) as file:
        file.write(json.dumps(result.to_json(), indent=1).encode())


def load(path: Path) -> RunResult:
    """The result of a finished run. Raises `UserError` when there is none that can be read."""
    file = path / RESULT
    try:
        tree = json.loads(file.read_text())
        if tree["schema"] != SCHEMA:
            raise UserError(
                f"{file} has schema {tree['schema']}; this attnexp reads {SCHEMA}. Run it again."
            )
        return RunResult.from_json(tree)
    except FileNotFoundError:
        why = "did not finish" if (path / "config.yaml").exists() else "is not a run's folder"
        raise UserError(
            f"{path} {why}: there is no {RESULT}. `attnexp train` says where its results are."
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        if isinstance(error, UserError):
            raise
        raise UserError(f"{file} is damaged ({error}). Delete its folder and run again.") from error
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from error


def load_all(paths: Sequence[Path]) -> list[Run]:
    """Every finished run in or under the given folders, in order of path.

    A run that is there twice (a folder given twice, a copy) counts once for each of its labels.
    """
    unique = {}
    for path in paths:
        if not path.is_dir():
            raise UserError(f"There is no folder {path}. Results are under outputs/, or out=DIR.")
        found = sorted(file.parent for file in path.rglob(RESULT))
        if not found:
            raise UserError(f"There is no finished run in {path} ({RESULT} is nowhere under it).")
        for folder in found:
            result = load(folder)
            unique[result.run_id, result.label] = Run(path=folder, result=result)
    return list(unique.values())
