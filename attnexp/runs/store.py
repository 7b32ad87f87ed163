"""Runs on disk, each once, under its id: `OUT/runs/ID/`.

It holds `config.yaml` (resolved), `overrides.yaml`, `metrics.jsonl` (a line an epoch),
`model.safetensors`, `predictions.safetensors`, `vocabulary.txt`, `run.log` and `result.json`. All
of it is made in `ID.part/`, beside a checkpoint to go on from, and takes the place of `ID/` when it
is whole: what has finished is never lost to an attempt that has not.
"""

import json
import os
import shutil
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from attnexp.base import code
from attnexp.base.errors import Busy, RunFailed, UserError
from attnexp.base.files import atomic_write, writing
from attnexp.config.schema import RunConfig, to_dict
from attnexp.runs import checkpoint
from attnexp.runs.identity import Identity
from attnexp.runs.result import SCHEMA, EpochRow, Run, RunResult, digest

RESULT, METRICS, LOG = "result.json", "metrics.jsonl", "run.log"
CONFIG, OVERRIDES, VOCABULARY = "config.yaml", "overrides.yaml", "vocabulary.txt"
OWN_DIGEST = ',\n "sha256": "'
"""Text in a sealed document between its content and the digest of that content."""
NOT_A_RESULT = (ValueError, KeyError, TypeError, IndexError, AttributeError, RecursionError)
"""Exceptions that reading a damaged document raises."""
SHARED = "shared"
"""Key of a published result: the file with what it shares with other runs."""
RUNS = "runs"
"""The folder of all runs, under `out`."""


def run_dir(out: str | Path, run_id: str) -> Path:
    """Folder of a finished run."""
    return Path(out) / RUNS / run_id


def part_of(path: Path) -> Path:
    """Folder of a run under way."""
    return path.with_name(f"{path.name}.part")


def has_finished(path: Path) -> bool:
    """Whether a folder holds a finished run."""
    return (path / RESULT).exists()


def finished(out: str | Path, run_ids: Iterable[str]) -> set[str]:
    """Ids of these runs that have finished. Their folder is listed only once."""
    folder = Path(out) / RUNS
    there = set(os.listdir(folder)) if folder.is_dir() else set()
    return {run_id for run_id in run_ids if run_id in there and has_finished(folder / run_id)}


@contextmanager
def lock(path: Path) -> Iterator[None]:
    """Lock a run against other processes. Raises `Busy` if one holds the lock.

    The lock is the operating system's and ends with the process, however that ends.
    """
    file_lock = FileLock(path.parent / ".locks" / f"{path.name}.lock")
    with writing(path.parent):
        Path(file_lock.lock_file).parent.mkdir(parents=True, exist_ok=True)
        try:
            file_lock.acquire(blocking=False)
        except Timeout:
            raise Busy(
                f"Another process is at this run ({file_lock.lock_file} is locked). Wait for it, "
                f"or give another place with out=DIR."
            ) from None
    try:
        yield
    finally:
        file_lock.release()


def is_locked(path: Path) -> bool:
    """Whether a process is doing this run now."""
    try:
        with lock(path):
            return False
    except Busy:
        return True


def create(path: Path, config: RunConfig, overrides: Sequence[str]) -> Path:
    """Make the folder of a run under way, with its configuration, in place of any earlier attempt;
    of that a checkpoint and the log stay.

    Call with the run locked. Raises `UserError` without a place.
    """
    import yaml

    part = part_of(path)
    with writing(path):
        part.mkdir(parents=True, exist_ok=True)
        for file in part.iterdir():
            if file.name not in (checkpoint.FILE, LOG):
                file.unlink()
    _add(part / CONFIG, yaml.safe_dump(to_dict(config), sort_keys=False))
    _add(part / OVERRIDES, yaml.safe_dump(list(overrides)))
    return part


def finalize(part: Path) -> Path:
    """Move a finished run to its folder, replacing an earlier one. Call with the run locked."""
    path = part.with_suffix("")
    replaced = path.with_name(f"{path.name}.replaced")
    with writing(path):
        if path.exists():
            path.rename(replaced)
        part.rename(path)
        shutil.rmtree(replaced, ignore_errors=True)
        (path / checkpoint.FILE).unlink(missing_ok=True)
    return path


def recover(path: Path) -> None:
    """Undo a `finalize` that was killed half way. Call with the run locked."""
    replaced = path.with_name(f"{path.name}.replaced")
    with writing(path):
        if path.exists():
            shutil.rmtree(replaced, ignore_errors=True)
        elif replaced.exists():
            replaced.rename(path)


def of_other_code(out: str | Path, identity: Identity) -> list[Path]:
    """Folders of finished runs with the same settings, seeds and data but other code, the newest
    first."""
    alike = (Path(out) / RUNS).glob(f"{identity.settings}-*")
    found = [path for path in alike if has_finished(path) and path.suffix != ".part"]
    found.sort(key=lambda path: (path / RESULT).stat().st_mtime, reverse=True)
    return [path for path in found if path.name != identity.run_id]


def outdated(out: str | Path, wanted: Iterable[Identity]) -> list[str]:
    """Changes of the code since runs with these settings finished: a line for each change."""
    by_settings: dict[str, list[Path]] = {}
    folder = Path(out) / RUNS
    for name in os.listdir(folder) if folder.is_dir() else ():
        if "." not in name:
            by_settings.setdefault(name.partition("-")[0], []).append(folder / name)
    reasons: Counter[str] = Counter()
    for identity in {one.run_id: one for one in wanted}.values():
        earlier = filter(has_finished, by_settings.get(identity.settings, []))
        newest = max(earlier, key=lambda path: (path / RESULT).stat().st_mtime, default=None)
        if newest is not None and newest.name != identity.run_id:
            with suppress(UserError):  # a damaged one is no reason
                reasons[", ".join(code.changed(load(newest).code, identity.code))] += 1
    return [
        f"{names} changed since {count} run{'s were' if count > 1 else ' was'} made."
        for names, count in reasons.items()
    ]


def add_epoch(path: Path, row: EpochRow) -> None:
    """Add an epoch to `metrics.jsonl`."""
    _add(path / METRICS, json.dumps(asdict(row)) + "\n")


@contextmanager
def log(path: Path) -> Iterator[Callable[[str], None]]:
    """Function that adds a line to `run.log`; an exception is logged too."""

    def add(line: str) -> None:
        _add(path / LOG, line + "\n")

    try:
        yield add
    except BaseException as error:
        is_plain = isinstance(error, (UserError, RunFailed, KeyboardInterrupt, GeneratorExit))
        with suppress(UserError):  # which may be why
            if error.__cause__ is not None or not is_plain:
                add(traceback.format_exc().rstrip())
            add(f"stopped: {error!r}")
        raise


def _add(file: Path, text: str) -> None:
    with writing(file), file.open("a", encoding="utf-8") as opened:
        opened.write(text)


def save_vocabulary(path: Path, words: Sequence[str]) -> None:
    """Write the words in use, one a line, most frequent first."""
    with writing(path), atomic_write(path / VOCABULARY) as file:
        file.write("".join(f"{word}\n" for word in words).encode())


def load_vocabulary(run: Run) -> list[str]:
    """Vocabulary of a run. Raises `UserError` if it is missing or damaged."""
    return run.read(VOCABULARY).decode().split("\n")[:-1]


def digests(part: Path) -> dict[str, str]:
    """SHA-256 of what lies in a folder beside its result, by name; logs and checkpoints are no part
    of a result."""
    names = sorted({path.name for path in part.iterdir()} - {RESULT, LOG, checkpoint.FILE})
    return {name: digest((part / name).read_bytes()) for name in names if not name.startswith(".")}


def save(path: Path, result: RunResult, *, brief: bool = False) -> None:
    """Write `result.json`, whole or not at all; its own SHA-256 comes last.

    brief: as short as can be, for runs that are published. Settings, facts of the data and digests
    of code, which the seeds of a variant share, then stand in a file beside the folders of the
    runs, named by its SHA-256.
    """
    tree = result.to_json(brief=brief)
    if brief:
        common = {name: tree.pop(name) for name in ("code", "config", "data")}
        common["config"] = common["config"] | {"seed": None}
        shared = json.dumps(common).encode()
        tree[SHARED] = f"{digest(shared)[:12]}.json"
        with writing(path), atomic_write(path.with_name(tree[SHARED])) as file:
            file.write(shared)
    with writing(path), atomic_write(path / RESULT) as file:
        file.write(seal(tree, indent=None if brief else 1))


def shared_file(path: Path) -> Path:
    """File with the part of a published run's result that other seeds share. path: folder of the
    run."""
    return path.with_name(json.loads((path / RESULT).read_bytes())[SHARED])


def _shared(path: Path, name: str) -> dict[str, Any]:
    try:
        content = path.with_name(name).read_bytes()
    except FileNotFoundError:
        raise UserError(
            f"{path.with_name(name)} is missing, which belongs to the published run {path.name}. "
            f"Copy both."
        ) from None
    if not name.startswith(digest(content)[:12]):
        raise ValueError(f"{name} is not what attnexp wrote, by its checksum")
    shared: dict[str, Any] = json.loads(content)
    return shared


def seal(tree: dict[str, Any], indent: int | None = 1) -> bytes:
    """A JSON document that ends with its own SHA-256; without indent as short as can be."""
    text = json.dumps(tree, indent=indent, separators=(",", ": " if indent else ":"))
    text = text[:-1].rstrip() + "\n}"
    return f'{text[:-2]}{OWN_DIGEST}{digest(text.encode())}"\n}}'.encode()


def check_seal(content: bytes, tree: dict[str, Any]) -> None:
    """Raise `ValueError` unless `seal` wrote this content. tree: the same, parsed; its digest is
    removed."""
    text = content.rpartition(OWN_DIGEST.encode())[0] + b"\n}"
    if digest(text) != tree.pop("sha256", None):
        raise ValueError("it is not what attnexp wrote, by its checksum")


def load(path: Path) -> RunResult:
    """The result of a finished run. Raises `UserError` when there is none that can be read."""
    file = path / RESULT
    try:
        content = file.read_bytes()
        tree = json.loads(content)
        if tree["schema"] != SCHEMA:
            raise UserError(
                f"{file} has schema {tree['schema']}; this attnexp reads {SCHEMA}. Run it again."
            )
        check_seal(content, tree)
        if SHARED in tree:
            tree |= _shared(path, tree.pop(SHARED))
            tree["config"]["seed"] = tree["seed"]
        return RunResult.from_json(tree)
    except FileNotFoundError:
        why = "did not finish" if (path / CONFIG).exists() else "is not a run's folder"
        raise UserError(
            f"{path} {why}: there is no {RESULT}. `attnexp train` says where its results are."
        ) from None
    except UserError:
        raise
    except NOT_A_RESULT as error:
        reason = f"it lacks {error}" if isinstance(error, KeyError) else error
        raise UserError(
            f"{file} is damaged ({reason}). `attnexp doctor {path}` says how to make it again."
        ) from error
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from error
