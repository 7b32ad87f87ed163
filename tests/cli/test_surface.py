"""The command-line surface, frozen in `surface.txt`, and what TAB offers of it.

A new option fails here until its line is added:
`python -c 'from test_surface import surface; print(surface())' > surface.txt` in `tests/cli/`.
"""

import os
import shutil
import subprocess
from enum import EnumType
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from conftest import PROGRAM, Capture, Patch

from attnexp.cli import app, completion

GOLDEN = Path(__file__).parent / "surface.txt"


def surface() -> str:
    """A line for each command with its arguments, and one for each option with its default."""
    group: Any = typer.main.get_command(app)
    lines = ["attnexp", *options(group)]
    for name, command in group.commands.items():
        arguments = [
            p.metavar or p.name.upper() for p in command.params if p.param_type_name == "argument"
        ]
        lines += ["", " ".join(["attnexp", name, *arguments]), *options(command)]
    return "\n".join(lines)


def options(command: Any) -> list[str]:
    return [
        " ".join(["   ", *param.opts, kind(param), f"= {param.default}" if param.default else ""])
        .rstrip()
        for param in command.params
        if param.param_type_name == "option" and not param.hidden
    ]  # fmt: skip


def kind(param: Any) -> str:
    annotation = param.type_descriptor.annotation
    if annotation is bool:
        return ""
    choices = [*annotation] if isinstance(annotation, EnumType) else get_args(annotation)
    if choices and annotation.__name__ != "list":
        return "|".join(choices)
    return str(param.metavar or annotation.__name__.upper())


def test_no_command_or_option_comes_or_goes_unnoticed() -> None:
    assert surface() == GOLDEN.read_text().rstrip("\n")


OFFERED = {
    "tra": "train",
    "train mo": "model= model.before= model.pooling= model.score=",
    "train tr": "train=blog train=holdout",
    "train model/b": "model/before=cnn model/before=lstm model/before=none",
    "train model/pooling = ma": "masked_mean max",
    "train seed = 1 position = ro": "rotary",
    "train ex": "executor= experiment=",
    "sweep position = none,s": "none,shuffled none,sinusoidal",
    "train model.he": "",
    "sweep study = blog_s": "blog_scaled",
    "sweep exec": "executor=local executor=ray executor=slurm",
}


@pytest.mark.parametrize("line", OFFERED)
def test_what_fits_is_offered(line: str, monkeypatch: Patch, capsys: Capture) -> None:
    """The words are split at `=`, as bash does."""
    words = ["attnexp", *line.split()]
    monkeypatch.setenv("_ATTNEXP_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "\n".join(words))
    monkeypatch.setenv("COMP_CWORD", str(len(words) - 1))
    completion.join_words_of_bash(os.environ)
    with pytest.raises(SystemExit):
        app(prog_name="attnexp")
    assert " ".join(capsys.readouterr().out.split()) == OFFERED[line]


@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash here")
def test_folders_of_runs_and_studies_are_offered_in_bash(tmp_path: Path) -> None:
    """It hands words over split at `=`."""
    for file in ("outputs/runs/1a-2b/result.json", "outputs/blog/study.json", "x/3c/result.json"):
        (tmp_path / file).parent.mkdir(parents=True)
        (tmp_path / file).touch()
    script = (
        f'eval "$(_ATTNEXP_COMPLETE=source_bash {PROGRAM})"\n'
        "for line; do COMP_WORDS=(attnexp $line); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
        f'_attnexp_completion {PROGRAM}; echo "${{COMPREPLY[*]}}"; done'
    )
    command = ["bash", "-c", script, "bash", "predict ou", "evaluate x/", "report ou"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    offered = ["outputs/runs/1a-2b", "x/3c", "outputs/blog outputs/runs"]
    assert done.stdout.splitlines() == offered


def test_zsh_is_offered_whole_words_with_what_they_are(monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setenv("_ATTNEXP_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "attnexp train position=ro")
    with pytest.raises(SystemExit):
        app(prog_name="attnexp")
    described = '"position=rotary":"Queries and keys rotated by their position'
    assert described in capsys.readouterr().out
