"""The command in a process of its own that need not import torch first: it is forked from one that
has. What only a start by the shell can show is asked of the installed program, `PROGRAM`.
"""

import gc
import os
import signal
import subprocess
import sys
from multiprocessing import get_context
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from tempfile import TemporaryDirectory

from attnexp.base import progress
from attnexp.cli import main

PROGRAM = str(Path(sys.executable).parent / "attnexp")

_server = get_context("forkserver")
# Nothing that reads the environment when it is imported, as the libraries of the hub do.
_server.set_forkserver_preload(
    """attnexp.sweeps.schedule attnexp.training.evaluate attnexp.training.run
    attnexp.report.terminal plotext scipy.stats torch._dynamo pyarrow.dataset pandas
    httpx""".split()
)


def _act(
    words: tuple[str, ...], cwd: Path, files: tuple[Path, Path], environment: dict[str, str]
) -> None:
    for number, file in enumerate(files, start=1):
        os.dup2(os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND), number)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", 1, closefd=False) for number in (1, 2))
    progress.console.is_interactive = progress.console.is_terminal  # rich asked at its import
    gc.freeze()  # a collection of garbage would copy every page that the fork shares
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    sys.argv = [PROGRAM, *map(str, words)]
    main()


def start(
    *words: str, cwd: Path, files: tuple[Path, Path], environment: dict[str, str]
) -> ForkServerProcess:
    """The command under way, which writes to these two files."""
    process = _server.Process(target=_act, args=(words, cwd, files, environment))
    process.start()
    return process


def run(*words: str, cwd: Path, environment: dict[str, str]) -> subprocess.CompletedProcess[str]:
    """What came of the command."""
    with TemporaryDirectory() as folder:
        files = Path(folder, "stdout"), Path(folder, "stderr")
        process = start(*words, cwd=cwd, files=files, environment=environment)
        process.join(240)
        process.kill()
        out, err = (file.read_text() for file in files)
    assert process.exitcode is not None, f"{words} did not end: {out} {err}"
    return subprocess.CompletedProcess(words, process.exitcode, out, err)
