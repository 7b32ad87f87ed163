"""Imports point down, and `attnexp --help` imports nothing heavy."""

import ast
import re
import subprocess
import sys
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "attnexp"

PACKAGES = """base model statistics config data network runs training analysis inspect report sweeps
claims cli""".split()
"""Packages from the bottom up. Each imports from itself and from those before it."""

TOP = {"api", "__main__"}
"""Modules outside any package; they stand with `cli`."""

MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in PACKAGE.rglob("*.py")
    if path.name != "__init__.py"
}


@cache
def imported(path: Path) -> set[str]:
    """Modules of this package that a file imports: anywhere in it, for types alone, or by text."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            match = re.fullmatch(r"(attnexp(?:\.\w+)+)(?::\w+)?", node.value)
            if match:
                names.add(match[1])
    return {module for name in names for module in [module_of(name)] if module}


def module_of(name: str) -> str:
    """`config.schema` for `attnexp.config.schema.RunConfig`; empty for what is not ours."""
    package, _, rest = name.partition(".")
    if package != "attnexp":
        return ""
    while rest and rest not in MODULES:
        rest = rest.rpartition(".")[0]
    return rest


def package_of(module: str) -> str:
    name = module.split(".")[0]
    return "cli" if name in TOP else name


@pytest.mark.parametrize("module", MODULES)
def test_imports_point_down(module: str) -> None:
    allowed = PACKAGES[: PACKAGES.index(package_of(module)) + 1]
    assert {package_of(name) for name in imported(MODULES[module])} <= {*allowed}


def test_no_two_modules_import_each_other() -> None:
    TopologicalSorter({name: imported(path) for name, path in MODULES.items()}).prepare()


LIGHT = """
import sys
from attnexp.cli import app
assert not {"torch", "hydra", "rich.console"} & set(sys.modules), "a bare import"
def attnexp(*words, without):
    try: app(words, prog_name="attnexp")
    except SystemExit as stop: assert not stop.code, stop.code
    assert not without & set(sys.modules), (words, without & set(sys.modules))
heavy = {"torch", "datasets", "pandas", "pyarrow", "numpy", "scipy"}
for words in (["--help"], ["train", "--help"]):
    attnexp(*words, without=heavy | {"hydra"})
needless = {"torch._dynamo", "scipy", "datasets", "matplotlib", "attnexp.analysis"}
attnexp("train", "experiment=smoke", without=needless)
"""


def test_commands_import_what_they_need(tmp_path: Path) -> None:
    """--help and a run, in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-c", LIGHT], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
