"""TAB: what a shell is offered, and that it need not wait."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Command
from forked import PROGRAM

from attnexp.claims.run import CLAIMS


def tab(folder: Path, *lines: str) -> list[str]:
    """What bash is offered for the last word of each; it hands words over split at `=`."""
    if shutil.which("bash") is None:
        pytest.skip("no bash here")
    script = (
        f'eval "$(_ATTNEXP_COMPLETE=source_bash {PROGRAM})"\n'
        "for line; do COMP_WORDS=(attnexp $line); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
        f'_attnexp_completion {PROGRAM}; echo "${{COMPREPLY[*]}}"; done'
    )
    done = subprocess.run(
        ["bash", "-c", script, "bash", *lines],
        cwd=folder, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.splitlines()


OFFERED = {
    "tra": "train",
    "train posi": "position= position.",
    "train position = ro": "rotary",
    "train position = rotary position.": "position.shuffled= position.layout=",
    "sweep position = none,s": "none,shuffled none,sinusoidal",
    "train model.he": "model.heads=8",
    "train model.heads =": "8",
    "train train.dev": "train.device=auto train.device=cpu train.device=cuda train.device=mps",
    "train model.score.": "model.score.scale=true model.score.scale=false",
    "train study": "",
    "sweep study = blog_s": "blog_scaled",
    "sweep data = contrast seed = 0,1 executor.w": "executor.workers=",
    "sweep tun": "tune= tune.",
    "claims C2": " ".join(claim.id for claim in CLAIMS if claim.id.startswith("C2")),
}


def test_bash_is_offered_what_fits(tmp_path: Path) -> None:
    assert dict(zip(OFFERED, tab(tmp_path, *OFFERED), strict=True)) == OFFERED


def test_folders_of_runs_and_studies_are_offered(tmp_path: Path) -> None:
    for file in ("outputs/runs/1a-2b/result.json", "outputs/blog/study.json", "x/3c/result.json"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    assert tab(tmp_path, "predict ou", "evaluate x/", "report ou") == [
        "outputs/runs/1a-2b",
        "x/3c",
        "outputs/blog outputs/runs",
    ]


def test_zsh_is_offered_whole_words_with_what_they_are(attnexp: Command) -> None:
    line = "attnexp train position=ro"
    done = attnexp(_ATTNEXP_COMPLETE="complete_zsh", _TYPER_COMPLETE_ARGS=line)
    assert '"position=rotary":"Queries and keys turned by their position' in done.stdout


PROGRAM_OF_TAB = """
import os, sys
from attnexp.cli import app
os.environ |= {"_ATTNEXP_COMPLETE": "complete_bash", "COMP_CWORD": "2",
               "COMP_WORDS": "attnexp train model."}
try: app(prog_name="attnexp")
except SystemExit as stop: assert not stop.code
assert not {"torch", "hydra", "numpy", "scipy"} & set(sys.modules)
"""


def test_tab_waits_for_nothing_heavy() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM_OF_TAB], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "model.heads=" in done.stdout
