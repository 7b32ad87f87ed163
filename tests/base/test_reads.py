"""Files that user code consists of and opens are noted as they were when they were read."""

import importlib
from pathlib import Path

import numpy as np
from conftest import Patch
from samples import write_file

from attnexp.base import digests, reads


def read_in(folder: Path) -> dict[str, str]:
    """What the process has read, of files whose names lead into the folder."""
    names = reads.read_files("outputs/runs").items()
    return {
        name: digest for name, digest in names if Path(digests.path_of(name)).is_relative_to(folder)
    }


def test_files_that_are_opened_are_noted_while_it_is_asked_for(folder: Path) -> None:
    for name in ("before", "text", "outputs/runs/1/metrics", "l/s", "r/s"):
        write_file(folder / name, "1")
    np.save(folder / "array.npy", np.ones(3))
    Path("before").read_text()
    with reads.watching():
        np.load("array.npy")
        write_file(folder / "cache", "1")
        for name in ("text", "l/s", "r/s", "outputs/runs/1/metrics", "cache"):
            Path(name).read_text()
        assert not Path("absent").exists()
    assert read_in(folder).keys() == {"text", "array.npy", "l/s", "r/s"}
    reads.begin_run()  # The file that the run before wrote is one that this run reads.
    with reads.watching():
        Path("cache").read_text()
    assert read_in(folder).keys() == {"cache"}


def test_modules_are_noted_as_they_were_when_imported(folder: Path, monkeypatch: Patch) -> None:
    """Of what is installed, such as numpy, only the package that is named."""
    site = folder / "site-packages"
    monkeypatch.syspath_prepend(str(site))
    package = f"{folder.name}_named"
    write_file(site / f"{folder.name}_other.py", "")
    write_file(site / package / "__init__.py", "from .core import *")
    table = f"site-packages/{package}/table"
    for name in ("counter", "words", table):
        write_file(folder / name, "1")
    count = "from pathlib import Path; n = Path('counter'); n.write_text(n.read_text() + '1')"
    core = site / package / "core.py"
    reading = f"open('words').close(); open('{table}').close()"
    write_file(core, f"import numpy, {folder.name}_other\nRATE = 1\n{count}\n{reading}")
    reads.add_file("words")  # in a run before the import
    with reads.importing(f"{package}.core"):
        importlib.import_module(package)
    reads.begin_run()
    name = f"{package}/core.py"
    assert read_in(folder).keys() == {f"{package}/__init__.py", name, "words", table}
    write_file(core, f"{core.read_text()}  # A comment.")
    assert reads.change_since_import() == ""
    write_file(core, "RATE = 2")
    content = reads.sources([name])[name]
    assert b"RATE = 1" in content
    assert reads.change_since_import() == f"{name} changed"
    core.write_bytes(content)  # for tests that follow in this process


def test_a_module_that_a_run_imports_is_noted_as_it_was_then(
    folder: Path, monkeypatch: Patch
) -> None:
    monkeypatch.syspath_prepend(str(folder))
    name = f"{folder.name}_late"
    module = write_file(folder / f"{name}.py", "RATE = 1")
    with reads.watching():
        importlib.import_module(name)
    write_file(module, "RATE = 2")
    assert read_in(folder) == {f"{name}.py": digests.digest("a.py", b"RATE = 1")}
    assert reads.change_since_import() == f"{name}.py changed"
    write_file(module, "RATE = 1")  # for tests that follow in this process


def test_a_file_that_another_process_read_with_other_content_is_named(folder: Path) -> None:
    write_file(folder / "a", "1")
    with reads.watching():
        Path("a").read_text()
    assert reads.first_that_differs({"a": digests.digest("a", b"1"), "c": "any"}) == ""
    assert reads.first_that_differs({"a": "other", "c": "any"}) == "a"


def test_a_digest_changes_with_code_and_not_with_how_it_is_written() -> None:
    def digest(source: str) -> str:
        return digests.digest("file.py", source.encode())

    assert digest("f(1)") == digest("# A comment.\nf( 1, )  # Another.")
    assert digest("f('a' 'b', 'c', 0x10, 1_0)") == digest('f("ab", """c""", 16, 10)')
    sources = ["f(1)", "f(-1)", "f(1.0)", "f('1')", "f()", "f(x=1)", "g(1)", "f(1); f(1)", ""]
    sources += ["def f(x=1): g()", "def f(x=2): g()", "def f(x: int = 1): g()", "import f", "{{"]
    assert len({*map(digest, sources)}) == len(sources)
