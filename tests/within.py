"""Commands in the process of the tests, where everything is imported: some ten times as fast."""

import io
import json
import subprocess
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from samples import exit_code

from attnexp.base import progress

if TYPE_CHECKING:
    from conftest import Command, Json


def run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What a command prints in a folder, and its exit code, as `attnexp` returns it."""
    with (
        chdir(folder),
        redirect_stdout(io.StringIO()) as out,
        redirect_stderr(io.StringIO()) as err,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("COLUMNS", "80")
        patch.setattr(progress.console, "quiet", False)  # as it is again after --quiet
        code = exit_code(*words)
    return subprocess.CompletedProcess(words, code, out.getvalue(), err.getvalue())


@pytest.fixture
def here(tmp_path: Path) -> "Command":
    """The command in an empty folder, as `attnexp`, and in this process."""
    return partial(run, tmp_path)


@pytest.fixture
def here_json(here: "Command") -> "Json":
    """The document of such a command with `--json`, which must succeed."""

    def document(*words: str) -> Any:
        done = here(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return document
