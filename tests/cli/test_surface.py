"""The command-line surface, frozen in `surface.txt`.

A new option fails here until its line is added:
`python -c 'from test_surface import surface; print(surface())' > surface.txt` in `tests/cli/`.
"""

from enum import EnumType
from pathlib import Path
from typing import Any, get_args

import pytest
import typer
from conftest import Capture, Patch

from attnexp.cli import app

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


def test_commands_are_completed(monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setenv("_ATTNEXP_COMPLETE", "complete_zsh")
    monkeypatch.setenv("_TYPER_COMPLETE_ARGS", "attnexp swe")
    with pytest.raises(SystemExit):
        app(prog_name="attnexp")
    assert '"sweep":"Train several models' in capsys.readouterr().out
