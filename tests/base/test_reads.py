"""Files that user code consists of and opens are noted as they were when they were read."""

import importlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from conftest import Patch
from samples import write

from attnexp.base import reads


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: Patch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def read_in(folder: Path) -> dict[str, str]:
    """What the process has read, of files whose names lead into the folder."""
    modules = [name for name in sys.modules if folder.name in name]
    names = reads.read_files("outputs/runs", modules).items()
    return {name: digest for name, digest in names if Path(reads.find(name)).is_relative_to(folder)}


def test_files_that_are_opened_are_noted_while_it_is_asked_for(folder: Path) -> None:
    for name in ("before", "text", "low", "outputs/runs/1/metrics", "l/s", "r/s"):
        write(folder / name, "1")
    np.save(folder / "array.npy", np.ones(3))
    (folder / "before").read_text()
    with reads.watching():
        (folder / "text").read_text()
        os.close(os.open(folder / "low", os.O_RDONLY))
        np.load("array.npy")
        for name in ("l/s", "r/s", "outputs/runs/1/metrics"):
            Path(name).read_text()
        write(folder / "cache", "1")
        (folder / "cache").read_text()
        assert not Path("absent").exists()
    assert read_in(folder).keys() == {"text", "low", "array.npy", "l/s", "r/s"}


def test_modules_are_noted_by_their_names_and_those_of_python_are_not(folder: Path) -> None:
    """Whichever way they are imported: the last of three by a name that is computed."""
    package = f"{folder.name}_lib"
    write(folder / package / "__init__.py", "__all__ = ['core']")
    write(folder / package / "core.py", "import json, numpy\nRATE = 1\n")
    write(folder / "deep" / f"{folder.name}_other.py", "# Beside the path.\n")
    with reads.importing(package):
        exec(f"from {package} import *", {})
        importlib.import_module(".core", package)
    assert read_in(folder).keys() == {f"{package}/__init__.py", f"{package}/core.py"}
    (source,) = reads.sources([f"{package}/core.py"]).values()
    write(folder / package / "core.py", "RATE = 2")
    assert b"RATE = 1" in source
    assert reads.describe_stale([package]) == f"{package}/core.py changed"
    write(folder / package / "core.py", "import json, numpy  # A comment.\nRATE = 1")
    assert reads.describe_stale([package]) == ""


def test_what_has_become_of_a_file_is_said(folder: Path) -> None:
    for name in ("a", "b.py"):
        write(folder / name, "1")
    with reads.watching():
        known = {name: reads.digest(name, Path(name).read_bytes()) for name in ("a", "b.py")}
    assert reads.describe_change(known) == ""
    write(folder / "b.py", "1 # A comment.")
    assert reads.describe_change(known) == reads.differing_file(known) == ""
    write(folder / "b.py", "2")
    assert reads.describe_change(known) == "b.py changed"
    assert reads.differing_file(known | {"a": "other", "c": "other"}) == "a"
    (folder / "b.py").unlink()
    assert reads.describe_change(known) == "b.py is no longer there"


def test_an_installed_package_counts_where_it_is_named(folder: Path, monkeypatch: Patch) -> None:
    site = folder / "site-packages"
    monkeypatch.syspath_prepend(str(site))
    names = [f"{folder.name}_{end}" for end in ("named", "other")]
    for name in names:
        write(site / name / "__init__.py", "")
        importlib.import_module(name)
    with reads.importing(f"{names[0]}.module"):
        pass
    assert read_in(folder).keys() == {f"{names[0]}/__init__.py"}


def test_a_digest_changes_with_code_and_not_with_how_it_is_written() -> None:
    def digest(source: str) -> str:
        return reads.digest("file.py", source.encode())

    assert digest("f(1)") == digest("# A comment.\nf( 1, )  # Another.")
    assert digest("f('a' 'b', 'c', 0x10, 1_0)") == digest('f("ab", """c""", 16, 10)')
    sources = ["f(1)", "f(-1)", "f(1.0)", "f('1')", "f()", "f(x=1)", "g(1)", "f(1); f(1)", ""]
    sources += ["def f(x=1): g()", "def f(x=2): g()", "def f(x: int = 1): g()", "import f", "{{"]
    assert len({*map(digest, sources)}) == len(sources)
