"""Do the tests fail when the code is wrong? Mutants of the code, sampled.

    make mutants [NUM=300]

Cosmic Ray makes each mutant (an operator, a comparison, a constant) in a copy of the tree, and a
test must fail: those of its room are tried first, then all. outputs/mutants.txt holds the diffs of
those that survive: each is an equivalent, or lacks a test.
"""

import argparse
import difflib
import importlib
import os
import shutil
import signal
import subprocess
import sys
import time
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

import pytest
from cosmic_ray.commands import init
from cosmic_ray.mutating import use_mutation
from cosmic_ray.plugins import get_operator
from cosmic_ray.work_db import use_db
from cosmic_ray.work_item import MutationSpec

ROOT = Path(__file__).parent.parent
TESTS = {"network": "model training", "statistics": "statistics analysis", "base": "base training"}
"""Folders of tests that are tried first, of rooms whose tests are not the folder of one name."""

ALL = "."
"""The folder of all tests, which are tried on what survives those of its room."""

HEAVY = ("torch", "scipy.stats", "hypothesis", "datasets")
"""Imported once, not by every try of the tests."""

PATIENCE = 8
"""Tests that take longer than so many times what they take on right code have failed."""


def main() -> None:
    """Sample, try, and tell."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--num", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default="", help="parts of paths, as model,training")
    args = parser.parse_args()
    with TemporaryDirectory() as folder:
        copy_tree(Path(folder))
        os.chdir(folder)
        os.environ |= {"PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
        sys.path.insert(0, folder)
        for name in HEAVY:
            importlib.import_module(name)
        tests = choose_files(args.only.split(","))
        limits = {folders: time_limit(folders) for folders in {*tests.values(), ALL}}
        mutants = sorted(list_mutants([*tests]), key=str)
        sample = Random(args.seed).sample(mutants, min(args.num, len(mutants)))
        diffs = [try_mutant(mutant, tests, limits) for mutant in sample]
    survivors = [diff for diff in diffs if diff]
    num_died = len(sample) - len(survivors)
    message = f"{num_died} of {len(sample)} mutants died, of {len(mutants)} in all"
    file = ROOT / "outputs/mutants.txt"
    file.parent.mkdir(exist_ok=True)
    file.write_text("\n\n".join([f"{message}; seed {args.seed}. Survivors:", *survivors]) + "\n")
    print(f"{message}. Survivors: {file}")


def choose_files(parts: list[str]) -> dict[str, str]:
    """Files to mutate whose path has one of these parts, each with the folders of its tests."""
    tests: dict[str, str] = {}
    for path in sorted(Path().glob("attnexp/*/*.py")):
        if any(part in str(path) for part in parts):
            room = path.parent.name
            tests[str(path)] = TESTS.get(room, room)
    return tests


def time_limit(folders: str) -> float:
    """Seconds that tests may take on wrong code. Exits where they fail on code that is right."""
    started = time.monotonic()
    if not passes("", folders):
        sys.exit(f"Tests fail on code that is right: {folders}.")
    return PATIENCE * (time.monotonic() - started)


def copy_tree(folder: Path) -> None:
    """Everything git knows or would, as it is now: the working tree itself is never mutated."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
        cwd=ROOT, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)


def passes(first: str, folders: str, limit: float | None = None) -> bool:
    """Whether the tests of some folders pass, those of one name first, in a process that was
    imported for already, and within a limit in seconds."""
    paths: list[Path] = []
    for folder in folders.split():
        paths += sorted(Path("tests", folder).rglob("test_*.py"))
    paths.sort(key=lambda path: path.stem != f"test_{first}")
    files = [str(path) for path in paths]
    process = get_context("fork").Process(target=_test, args=(files,))
    process.start()
    process.join(limit)
    if process.is_alive():
        assert process.pid is not None
        os.killpg(process.pid, signal.SIGKILL)
        process.join()
    return process.exitcode == 0


def _test(files: list[str]) -> None:
    os.setsid()  # so that one signal ends what the tests start, too
    sys.dont_write_bytecode = True  # two versions within a second would look alike
    devnull = os.open(os.devnull, os.O_WRONLY)
    os.dup2(devnull, 1)
    os.dup2(devnull, 2)
    message = "ignore::pytest.PytestAssertRewriteWarning"  # of what is imported already
    os._exit(pytest.main(["-x", "-q", "-p", "no:cacheprovider", "-W", message, *files]))


def list_mutants(paths: list[str]) -> list[MutationSpec]:
    """Every mutant of some files."""
    with use_db(":memory:") as database:
        init([Path(path) for path in paths], database, {})
        return [item.mutations[0] for item in database.work_items]


def try_mutant(mutant: MutationSpec, tests: dict[str, str], limits: dict[str, float]) -> str:
    """The diff of a mutant that no test fails; empty where one does."""
    started = time.monotonic()
    path = Path(mutant.module_path)
    operator = get_operator(mutant.operator_name)(**mutant.operator_args)
    with use_mutation(path, operator, mutant.occurrence) as (right, wrong):
        survived = all(
            passes(path.stem, folders, limits[folders]) for folders in (tests[str(path)], ALL)
        )
    operator_name = mutant.operator_name.partition("/")[2]
    title = f"{path}:{mutant.start_pos[0]} {operator_name}"
    outcome = "survived" if survived else "died"
    seconds = time.monotonic() - started
    print(f"{outcome:9s}{seconds:5.0f} s  {title}", flush=True)
    if not survived:
        return ""
    diff = difflib.unified_diff(right.splitlines(), wrong.splitlines(), lineterm="", n=1)
    return "\n".join([title, *diff])


if __name__ == "__main__":
    main()
