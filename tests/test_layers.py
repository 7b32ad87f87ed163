"""Imports point down, and what must come at once waits for nothing heavy."""

import ast
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "attnexp"

ROOMS = [
    {"errors"},
    {"files", "memory", "modules", "progress"},
    {"statistics"},
    {"config"},
    {"model"},
    {"data", "runs"},
    {"training"},
    {"sweeps", "report"},
    {"claims"},
    {"completion"},
    {"shell"},
    {"cli", "notebook"},
    {"__main__"},
]
"""A module imports from its own room and from the rooms above it in this list."""

MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in PACKAGE.rglob("*.py")
    if path.name != "__init__.py"
}


def imported(path: Path) -> set[str]:
    """Modules of this package that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attnexp"):
            parent = (node.module or "").removeprefix("attnexp").lstrip(".")
            for alias in node.names:
                child = f"{parent}.{alias.name}".lstrip(".")
                found.add(child if child in MODULES else parent)
    return found - {""}


def room(module: str) -> str:
    return module.split(".")[0]


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_down(module: str) -> None:
    level = next(level for level, names in enumerate(ROOMS) if room(module) in names)
    below = {room(module)}.union(*ROOMS[:level])
    assert {room(name) for name in imported(MODULES[module])} <= below


def test_no_two_modules_import_each_other() -> None:
    TopologicalSorter({name: imported(path) for name, path in MODULES.items()}).prepare()


@pytest.mark.parametrize("module", sorted(name for name in MODULES if name.startswith("model.")))
def test_the_model_knows_nothing_of_data_and_training(module: str) -> None:
    builders = {"model.classifier", "model.cost", "model.verify"}
    allowed = ("model", "config", "errors", "memory") if module in builders else ("model",)
    assert all(name.startswith(allowed) for name in imported(MODULES[module]))


@pytest.mark.parametrize(
    "words", [["--help"], ["train", "--help"], ["config"], ["config", "--groups"]]
)
def test_help_and_config_import_neither_torch_nor_datasets(words: list[str]) -> None:
    program = (
        "import sys; from attnexp.cli import app\n"
        f"try: app({words!r})\nexcept SystemExit as stop: assert not stop.code, stop.code\n"
        "heavy = {'torch', 'datasets', 'torchtext', 'pandas', 'pyarrow', 'numpy', 'scipy'}\n"
        "heavy &= set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
