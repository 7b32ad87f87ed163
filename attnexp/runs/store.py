"""Runs on disk, each once, under its id: `OUT/runs/ID/`.

It holds `config.yaml` (resolved), `overrides.yaml` (the words of the command), `metrics.jsonl` (a
line an epoch), `model.safetensors`, `predictions.safetensors`, `vocabulary.txt`, `run.log` and
`result.json`. All of it is made in `ID.part/`, beside a checkpoint to go on from, and renamed to
`ID/` when it is whole: what has finished is never lost to an attempt that has not.
"""

import json
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import yaml
from filelock import FileLock, Timeout

from attnexp.base.errors import Busy, UserError
from attnexp.base.files import atomic_write, writing
from attnexp.config.schema import RunConfig, to_dict
from attnexp.runs.identity import Identity
from attnexp.runs.result import Run, RunResult

RESULT, METRICS, LOG = "result.json", "metrics.jsonl", "run.log"
CONFIG, OVERRIDES = "config.yaml", "overrides.yaml"
VOCABULARY, CHECKPOINT = "vocabulary.txt", "checkpoint.pt"
RUNS = "runs"
"""The folder of all runs, under `out`."""
NOT_A_RESULT = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)
"""Exceptions that reading a half-written document raises."""


def run_dir(out: str | Path, run_id: str) -> Path:
    """Folder of a finished run."""
    return Path(out) / RUNS / run_id


def part_of(path: Path) -> Path:
    """Folder of a run under way."""
    return path.with_name(f"{path.name}.part")


def has_finished(path: Path) -> bool:
    """Whether a folder holds a finished run."""
    return (path / RESULT).exists()


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Lock a run against other processes. Raises `Busy` if one holds the lock.

    The lock is the operating system's and ends with the process, however that ends.
    """
    file = path.parent / ".locks" / f"{path.name}.lock"
    with writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
        try:
            held = FileLock(file, blocking=False).acquire()
        except Timeout:
            raise Busy(
                f"Another process is at this run ({file} is locked). Wait for it, or give another "
                f"place with out=DIR."
            ) from None
    with held:
        yield


def is_locked(path: Path) -> bool:
    """Whether a process is doing this run now."""
    try:
        with lock(path):
            return False
    except Busy:
        return True


def create(path: Path, config: RunConfig, overrides: Sequence[str]) -> Path:
    """Make the folder of a run under way, with its configuration. Of an earlier attempt the
    checkpoint and the log stay.

    Call with the run locked. Raises `UserError` if it cannot be written.
    """
    part = part_of(path)
    with writing(path):
        part.mkdir(parents=True, exist_ok=True)
        for file in part.iterdir():
            if file.name not in (CHECKPOINT, LOG):
                file.unlink()
    append(part / CONFIG, yaml.safe_dump(to_dict(config), sort_keys=False))
    append(part / OVERRIDES, yaml.safe_dump([*overrides]))
    return part


def finalize(part: Path) -> Path:
    """Move a finished run to its folder, replacing an earlier one. Call with the run locked.

    If it is killed on the way, the run goes on from the checkpoint in its part.
    """
    path = part.with_suffix("")
    with writing(path):
        if path.exists():
            (path / RESULT).unlink(missing_ok=True)  # what is half removed is no result
            shutil.rmtree(path)
        part.rename(path)
        (path / CHECKPOINT).unlink(missing_ok=True)
    return path


def append(file: Path, text: str) -> None:
    """Add text to a file. Raises `UserError` where the disk refuses."""
    with writing(file), file.open("a", encoding="utf-8", newline="\n") as opened:
        opened.write(text)


def load_vocabulary(run: Run) -> list[str]:
    """Vocabulary of a run. Raises `UserError` if it cannot be read."""
    return run.read(VOCABULARY).decode().split("\n")[:-1]


def save(part: Path, result: RunResult) -> None:
    """Write `result.json`, whole or not at all."""
    with writing(part), atomic_write(part / RESULT) as file:
        file.write(json.dumps(result.to_json(), indent=1).encode())


def load(path: Path) -> RunResult:
    """The result of a finished run. Raises `UserError` when there is none that can be read."""
    file = path / RESULT
    try:
        return RunResult.from_json(json.loads(file.read_bytes()))
    except FileNotFoundError:
        raise UserError(f"{path} holds no finished run: there is no {RESULT}.") from None
    except (OSError, *NOT_A_RESULT) as error:
        reason = f"{type(error).__name__}: {error}"
        raise UserError(f"{file} cannot be read ({reason}). Delete {path}; train again.") from error


def of_other_code(out: str | Path, identity: Identity) -> list[Path]:
    """Folders of finished runs with the same settings, seeds and data but other code, the newest
    first."""
    alike = (Path(out) / RUNS).glob(f"{identity.settings}-*")
    found = [path for path in alike if has_finished(path) and path.suffix != ".part"]
    found.sort(key=lambda path: (path / RESULT).stat().st_mtime, reverse=True)
    return [path for path in found if path.name != identity.run_id]


def outdated(out: str | Path, wanted: Iterable[Identity]) -> list[str]:
    """Changes of the code since runs with these settings finished: a line for each change."""
    runs: dict[str, set[Path]] = {}
    for identity in wanted:
        for path in of_other_code(out, identity)[:1]:
            with suppress(UserError):  # a run that cannot be read says nothing
                changed = {file for file, _ in load(path).code.items() ^ identity.code.items()}
                runs.setdefault(", ".join(sorted(changed)), set()).add(path)
    return [f"{files} changed since {len(made)} of these runs." for files, made in runs.items()]
