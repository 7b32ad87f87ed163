"""What every test shares: no data of the user's, and the command."""

import gc
import importlib
import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from attnexp.base import progress, reads
from attnexp.cli import app

if TYPE_CHECKING:
    from playwright.sync_api import Browser

os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that tests start

ROOT = Path(__file__).parent.parent
PROGRAM = str(Path(sys.executable).parent / "attnexp")
PUBLISHED = ROOT / "outputs" / "published"
IMDB = ROOT.parent / "shared" / "imdb"

# A shell lets background jobs ignore Ctrl-C, and so would the commands that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

needs_imdb = pytest.mark.skipif(not IMDB.is_dir(), reason="no copy of IMDB beside the project")

Patch = pytest.MonkeyPatch
Capture = pytest.CaptureFixture[str]
Command = Callable[..., subprocess.CompletedProcess[str]]
Refused = Callable[..., str]
Json = Callable[..., Any]
OwnModule = Callable[[str], str]


def pytest_collection(session: pytest.Session) -> None:
    """Prepare a process that runs tests; one that hands them out waits for none of this."""
    import torch
    from hypothesis import settings

    importlib.import_module("torch._dynamo")  # as the counting of FLOPs would
    session.config.pluginmanager.import_plugin("sweeping")
    torch.set_num_threads(1)  # Several processes share the cores.
    settings.register_profile("attnexp", deadline=None)  # The first example of a test may import.
    settings.load_profile("attnexp")


def pytest_collection_finish() -> None:
    """Keep what the imports made out of every later collection of garbage; each run makes one."""
    gc.freeze()


@pytest.fixture(autouse=True)
def _isolated(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """No test reads the user's data, reaches for the hub, or has imported what another edited."""
    monkeypatch.setattr(reads, "_imported", {})
    monkeypatch.setenv("HF_HOME", str(tmp_path_factory.getbasetemp() / "huggingface"))
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")  # nobody listens on the discard port
    for name in ("ATTNEXP_IMDB", "ATTNEXP_DATA"):
        monkeypatch.delenv(name, raising=False)


def exit_code(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as stop:
        app([str(word) for word in words])
    return int(stop.value.code or 0)


def _run_here(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
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
def here(tmp_path: Path) -> Command:
    """The command in an empty folder: `here("train", "data=contrast")`."""
    return partial(_run_here, tmp_path)


@pytest.fixture
def here_json(here: Command) -> Json:
    """The document of such a command with `--json`, which must succeed."""

    def document(*words: str) -> Any:
        done = here(*words, "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return document


@pytest.fixture
def refused(tmp_path: Path) -> Refused:
    """What a command says that must be wrong: one message, no result, and exit code 2."""

    def run(*words: str) -> str:
        done = _run_here(tmp_path, *words)
        assert (done.returncode, done.stdout) == (2, ""), done.stderr
        return " ".join(done.stderr.split())

    return run


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Patch) -> Path:
    """The current folder, which is empty."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def own_module(folder: Path, monkeypatch: Patch) -> OwnModule:
    """Write a module of one's own below the current folder; the name it has in this test alone."""
    monkeypatch.syspath_prepend(str(folder))

    def write(text: str) -> str:
        name = f"own_{folder.name}"
        (folder / f"{name}.py").write_text(text)
        return name

    return write


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """Chromium without a screen; tests that ask for it are skipped where there is none."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("there is no Chromium here")
    arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()
