"""Imports point down, and `attnexp --help` imports nothing heavy."""

import json
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from conftest import ROOT

RUFF = str(Path(sys.executable).with_name("ruff"))

PACKAGES = """__init__.py base model statistics config data network runs training analysis inspect
report sweeps claims cli""".split()
"""Packages from the bottom up. Each imports from itself and from those before it."""

COMMAND = [RUFF, "analyze", "graph", "--detect-string-imports", "attnexp"]
IMPORTS = json.loads(subprocess.run(COMMAND, cwd=ROOT, capture_output=True, check=True).stdout)
"""Files that each file imports: anywhere in it, for types alone, or by text."""
del IMPORTS["attnexp/__init__.py"]  # Everybody may import it; it gives what `api` has.


def package_of(file: str) -> str:
    """Modules outside any package stand with `cli`."""
    name = file.split("/")[1]
    return "cli" if name in ("api.py", "__main__.py") else name


@pytest.mark.parametrize("file", IMPORTS)
def test_imports_point_down(file: str) -> None:
    allowed = PACKAGES[: PACKAGES.index(package_of(file)) + 1]
    assert {*map(package_of, IMPORTS[file])} <= {*allowed}


def test_no_two_modules_import_each_other() -> None:
    TopologicalSorter(IMPORTS).prepare()


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
attnexp("train", "experiment=smoke", "data.limit_train=64", without=needless)
"""


def test_commands_import_what_they_need(tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-c", LIGHT], cwd=tmp_path, check=True)
