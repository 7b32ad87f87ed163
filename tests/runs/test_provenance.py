"""Provenance: the commit of a checkout, and whether it was changed."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from conftest import ROOT

COLLECT = """
import json
from attnexp.runs.provenance import collect
print(json.dumps(collect("cpu", 3)))
"""


def collected(checkout: Path) -> dict[str, Any]:
    """What a process says that imports the package from a checkout."""
    words = [sys.executable, "-c", COLLECT]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(
        words, env=environment, cwd=checkout, capture_output=True, text=True, check=True
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def git(folder: Path, *words: str) -> str:
    author = ["-c", "user.name=a", "-c", "user.email=a@b"]
    done = subprocess.run(
        ["git", *author, *words], cwd=folder, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def test_the_commit_is_that_of_the_checkout_and_says_when_it_is_changed(tmp_path: Path) -> None:
    for name in ("__init__.py", "runs/__init__.py", "runs/provenance.py"):
        (tmp_path / "attnexp" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / "attnexp" / name, tmp_path / "attnexp" / name)
    (tmp_path / ".gitignore").write_text("__pycache__\n")
    assert collected(tmp_path)["commit"] is None
    git(tmp_path, "init", "--quiet")
    assert collected(tmp_path)["commit"] is None  # there is none yet
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "--quiet", "--message", "first")
    head = git(tmp_path, "rev-parse", "HEAD")
    assert collected(tmp_path)["commit"] == head
    (tmp_path / "attnexp/__init__.py").write_text('__version__ = "7"\n')
    changed = collected(tmp_path)
    assert (changed["commit"], changed["version"]) == (f"{head}+", "7")
    assert (changed["device"], changed["threads"]) == ("cpu", 3)
