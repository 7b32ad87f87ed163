"""A result belongs to the code that made it: what changes an id, what does not, and who notices."""

import ast
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Command
from forked import PROGRAM

from attnexp.base import code
from attnexp.base.errors import RunFailed
from attnexp.config.compose import compose
from attnexp.config.schema import to_dict
from attnexp.runs import identity
from attnexp.training.inputs import read_inputs
from attnexp.training.run import train_run

SMOKE = ["experiment=smoke", "data.limit_train=64", "data.limit_test=64", "train.threads=1"]

CONFIGS = {
    "none": [],
    "sinusoidal": ["position=sinusoidal"],
    "rotary": ["position=rotary"],
    "alibi": ["position=alibi"],
    "relative": ["position=relative"],
    "lstm": ["model=lstm"],
    "cnn_attention": ["model=cnn_attention"],
    "tfidf": ["model=tfidf"],
}

USERS = {
    "model.__init__": {*CONFIGS},
    "model.positions": {"sinusoidal", "rotary"},
    "model.rotary": {"rotary"},
    "model.biases": {"alibi", "relative"},
    "model.mixers": {"lstm", "cnn_attention"},
    "model.scores": {*CONFIGS} - {"lstm", "tfidf"},
    "model.fast": {*CONFIGS} - {"lstm", "tfidf"},
    "model.classifier": {*CONFIGS},
    "training.loop": {*CONFIGS},
    "training.tfidf": {"tfidf"},
    "data.text": {*CONFIGS},
}
"""Runs whose id holds a module. Those of the rest of training and data, and of other rooms, are in
none."""
NOT_COUNTED = ("training.run", "training.evaluate", "data.encode", "data.vectors", "config.schema",
               "runs.store", "base.progress", "report.tables")  # fmt: skip


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A copy of the package that may be edited; its folder goes on PYTHONPATH."""
    folder = tmp_path / "copy"
    without = shutil.ignore_patterns("__pycache__")
    for name in ("attnexp", "conf"):
        shutil.copytree(ROOT / name, folder / name, ignore=without)
    return folder


def environment(package: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(package), "COLUMNS": "80"}


def edit(package: Path, name: str, old: str, new: str) -> None:
    file = package / "attnexp/model" / name
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_an_id_holds_the_modules_that_compute_the_run_and_no_others() -> None:
    codes = {name: identity.identify(compose(words), "").code for name, words in CONFIGS.items()}
    for module in (*USERS, *NOT_COUNTED):
        users = {name for name, code in codes.items() if f"attnexp.{module}" in code}
        assert users == USERS.get(module, set()), module


def test_an_edit_changes_the_digest_of_any_module_and_docstrings_and_layout_do_not() -> None:
    for file in (ROOT / "attnexp" / "model").glob("*.py"):
        tree = ast.parse(file.read_bytes())
        digest, written_anew = code.digest(tree), ast.unparse(tree)  # without comments
        assert code.digest(ast.parse(written_anew)) == digest, file
        assert code.digest(ast.parse(f"{written_anew}\nEDITED = 1")) != digest, file
        tree.body.insert(0, ast.Expr(ast.Constant("Another docstring.")))
        assert code.digest(tree) == digest, file


SAMPLE = """
'Documented.'
from a import (b as c, d)
type_of: dict[str, int] = {**c, "k": None}
def f(x, /, y=1.5, *, z: "int" = -1, **more) -> None:
    'Documented.'
    with open(x) as one, open(y) as other: yield f"{x!r:>{y}} é \\N{SNOWMAN} {z=}"
    match x:
        case [1, *rest] | {"a": _}: return (lambda: ...)()
async def g(): return [i async for i in d if (n := i) and not ""], b"\\x00", 1j, 10**400, u""
class C(object, metaclass=type): "Documented."; a: int
try: pass
except* ValueError: raise
"""
DIGEST = "c64e7443caa7efcf"

DIFFERENT = [
    *("f(1)", "f(-1)", "f(1.0)", "f('1')", "f(b'1')", "f(True)", "f(1, '')", "f(x=1)", "f(*1)"),
    *("f[1]", "f(1); f(1)", "f([1])", "f((1,))", "f(None)", "f()", "f(**x)", "f(x)", "f(...)"),
    *("f('')", "f(f'{1}')", "f(f'{1!r}')", "f(f'{1:2}')", "f(f'{1=}')", "f('None')", "f('absent')"),
    *("f(0)", "f(False)", "f(0.0)", "f(0j)", "f(b'')", "f(absent)", "f([])", "f(())", "f({})"),
    *("import f", "import f as g", "from f import f", "from .f import f", "from .. import f"),
    *("{**a}", "{None: a}", "{'None': a}", "{a: None}", "{a}", "{*a}", "f: int = f", "(f): int"),
    *("def f(*, x): 1", "def f(*, x=None): 1", "def f(x): 1", "def f(x=None): 1", "def f(x, /): 1"),
    *("def f(*, x, y=None): 1", "def f(*, x=None, y): 1", "def f(*, x=0, y): 1", "lambda: 1"),
    *("def f(): return", "def f(): return None", "raise", "raise a from b", "raise a from None"),
    *(f"match a:\n case {case}: 1" for case in ("None", "0", "''", "'None'", "_", "[*_]", "{**a}")),
    *("a[:]", "a[:1]", "a[1:]", "a[::1]", "a[None:1]", "a[()]", "a < b", "a <= b", "a is b"),
    *("[b for b in a]", "[b for b in a if b]", "{b for b in a}", "{b: b for b in a}"),
    *("if a: 1", "if a: 1\nelse: 1", "with a: 1", "with a as b: 1", "try: 1\nexcept a as b: 1"),
]
"""Sources of which no two say the same."""

ALIKE = [
    ("f(1)", "# A comment.\nf( 1, )  # Another."),
    ("'A docstring.'\nf(1)", "f(1)"),
    ("def f():\n    'Documented.'\n    return 1", "def f(): return 1"),
    ("class A:\n    x: int\n    'An attribute.'", "class A:\n  x : int"),
    ("class A: 'Documented.'", "class A: pass"),
    ("f('a' 'b', u'c', 0x10, 1_0)", 'f("ab", """c""", 16, 10)'),
    ("f(f'a{b}' 'c')", 'f("a" f"{b}c")'),
    ("if a:\n    b\nelif c:\n    d", "if a: b\nelse:\n    if c: d"),
]


def test_a_digest_is_what_it_was_on_the_first_day() -> None:
    """On any Python; were it otherwise, all results on disk would be made again."""
    assert code.digest(ast.parse(SAMPLE)) == DIGEST


def test_other_code_has_another_digest() -> None:
    seen: dict[str, str] = {}
    for source in DIFFERENT:
        assert seen.setdefault(code.digest(ast.parse(source)), source) == source


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_the_same_code_written_otherwise_has_the_same_digest(one: str, other: str) -> None:
    assert code.digest(ast.parse(one)) == code.digest(ast.parse(other))


OWN_FILES = {
    "mine/__init__.py": "RATE = 1",
    "mine/helper.py": "from mine.deeper import thing",
    "mine/deeper.py": "thing = 1",
    "mine/unused.py": "",
    "listed/__init__.py": "__all__ = ['inner']",
    "listed/inner.py": "",
    "beside.py": "one = 1",
    "space/part/inner.py": "from . import other",
    "space/part/other.py": "",
    "broken.py": "def",
}
"""Code of the user's own: a package, a package with `__all__`, a module, a namespace package."""


@pytest.fixture
def own_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on Python's path with `OWN_FILES`."""
    for name, text in OWN_FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("piece", "mine", "mine.helper", "mine.deeper"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("imports", "counted"),
    [
        ("import os, numpy, torch; from nowhere import nothing", ""),
        ("import mine", "mine/__init__"),
        ("import mine.unused", "mine/__init__ mine/unused"),
        ("from mine import RATE", "mine/__init__"),
        ("from mine import helper", "mine/__init__ mine/helper mine/deeper"),
        ("def f(): from mine.deeper import thing", "mine/__init__ mine/deeper"),
        ("from listed import *", "listed/__init__ listed/inner"),
        ("import space", ""),
        ("import space.part.inner", "space/part/inner space/part/other"),
        ("from space.part import other", "space/part/other"),
        ("import importlib; importlib.import_module('mine.deeper')", "mine/__init__ mine/deeper"),
        ("from importlib import import_module as get; get('beside')", "beside"),
        ("import importlib; importlib.import_module(name='beside')", "beside"),
        ("import importlib as i; i.import_module('.deeper', 'mine')", "mine/__init__ mine/deeper"),
        ("__import__('mine', fromlist=['deeper'])", "mine/__init__ mine/deeper"),
        ("try: import broken\nexcept SyntaxError: pass", "broken"),
        ("if TYPE_CHECKING: import beside\nelse: import mine.unused", "mine/__init__ mine/unused"),
        ("from ..beyond import nothing", ""),
        ("from attnexp.model.rotary import RotaryPosition", "model/rotary"),
        ("from attnexp.base import files", ""),
    ],
)
def test_imports_are_followed_into_the_users_own_code(
    imports: str, counted: str, own_files: Path
) -> None:
    """Whatever their form, and without running any of it. Of attnexp's here rotary.py alone counts.

    A module of a package brings in the package's own code.
    """
    (own_files / "piece.py").write_text(imports)
    found = code.digests(["piece"], lambda name, importer: name == "attnexp.model.rotary")
    assert code.files(found) == sorted(f"{name}.py" for name in ["piece", *counted.split()])
    assert not {"piece", "mine", "listed", "space", "beside"} & {*sys.modules}


@pytest.mark.parametrize("is_imported_first", [False, True])
def test_edited_code_of_the_user_is_imported_anew(own_files: Path, is_imported_first: bool) -> None:
    """With all that imported it, and whoever imported it."""

    def rate() -> Any:
        return importlib.import_module("piece").RATE

    (own_files / "piece.py").write_text("from mine.helper import thing as RATE")
    if is_imported_first:
        assert rate() == 1
    else:
        before = code.digests(["piece"], lambda name, importer: False)
        assert rate() == 1
    (own_files / "mine/deeper.py").write_text("thing = 22")
    after = code.digests(["piece"], lambda name, importer: False)
    assert rate() == 22
    if not is_imported_first:
        assert code.changed(before, after) == ["mine/deeper.py"]
    assert code.digests(["piece"], lambda name, importer: False) == after
    module = sys.modules["piece"]
    (own_files / "mine/deeper.py").write_text("thing = 22  # Twenty-two.")
    assert code.digests(["piece"], lambda name, importer: False) == after
    assert sys.modules["piece"] is module


OWN_PIECE = """
import torch
from attnexp.model.seams import ScoreBias
from {name}_rate import RATE

class Decay(ScoreBias):
    def __init__(self, num_heads: int, *, {setting}: float = 1.0) -> None:
        super().__init__()
        self.rate = RATE * {setting}
        {more}
    def forward(self, positions: torch.Tensor) -> torch.Tensor:
        gap = positions[..., :, None] - positions[..., None, :]
        return -self.rate * gap.abs()[..., None, :, :]
"""

SHORT_RUN = [*SMOKE, "train.epochs=1", "model.dropout=0"]


def test_a_notebook_trains_what_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An edit of a piece, its settings or its helper has the id and figures of a new process."""
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"{tmp_path.name}_piece"

    def write(module: str, rate: float, setting: str) -> None:
        text = OWN_PIECE.format(name=module, setting=setting, more="")
        (tmp_path / f"{module}.py").write_text(text)
        (tmp_path / f"{module}_rate.py").write_text(f"RATE = {rate}")

    def result(module: str, setting: str) -> tuple[str, float]:
        words = [f"position={module}:Decay", f"position.{setting}=2", f"out={tmp_path}"]
        _, result = train_run(compose([*SHORT_RUN, *words]), again=True)
        return result.run_id, result.final.train_loss

    seen = []
    for rate, setting in ((0.1, "scale"), (3.0, "scale"), (3.0, "factor")):
        write(name, rate, setting)
        seen.append(result(name, setting))
    assert len({run_id for run_id, _ in seen}) == 3
    assert seen[0][1] != seen[1][1] == seen[2][1]
    write(f"{name}_new", 3.0, "factor")  # as a new process would import it
    assert result(f"{name}_new", "factor")[1] == seen[2][1]


def test_a_piece_edited_while_it_trains_fails_its_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"{tmp_path.name}_piece"
    edit = "with open(__file__, 'a') as file: file.write('EDITED = 1\\n')"
    text = OWN_PIECE.format(name=name, setting="scale", more=edit)
    (tmp_path / f"{name}.py").write_text(text)
    (tmp_path / f"{name}_rate.py").write_text("RATE = 1")
    with pytest.raises(RunFailed, match=rf"{name}\.py changed under way"):
        train_run(compose([*SHORT_RUN, f"position={name}:Decay", f"out={tmp_path}"]))
    assert not list(tmp_path.rglob("result.json"))


def test_an_edited_tokenizer_is_in_the_id_and_reads_its_texts_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    name = f"{tmp_path.name}_words"
    ids, fingerprints = [], []
    for words in ("text.split()", "text.split()  # A comment.", "list(text)"):
        (tmp_path / f"{name}.py").write_text(f"def words(text: str) -> list[str]: return {words}")
        config = compose([*SHORT_RUN, f"data.tokenizer={name}:words"])
        fingerprints.append(read_inputs(config).fingerprint)
        identity.read_again()
        ids.append(identity.identify(config, "").run_id)
    assert fingerprints[0] == fingerprints[1] != fingerprints[2]
    assert ids[0] == ids[1] != ids[2]
    assert ids[0].split("-")[0] == ids[2].split("-")[0]


def test_other_texts_are_another_run_of_the_same_variant() -> None:
    """`seeds.resample` does not follow `seed`: 0 with seed 0 is not the same as none."""
    configs = [compose(words.split()) for words in ("", "seeds.resample=0", "seeds.resample=3")]
    assert len({identity.identify(config, "").run_id for config in configs}) == 3
    assert len({json.dumps(identity.settings(to_dict(config))) for config in configs}) == 1
    names = [identity.replicate(to_dict(config)) for config in configs]
    assert names == ["0", "0-resample0", "0-resample3"]


@pytest.mark.slow
def test_a_changed_base_makes_the_sinusoids_again_says_why_and_never_mixes(
    attnexp: Command, package: Path
) -> None:
    words = ["sweep", *SMOKE, "position=none,sinusoidal", "executor.workers=1"]
    assert attnexp(*words, "seed=0,1").returncode == 0
    edit(package, "positions.py", "10_000", "100")

    def by_the_copy(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [PROGRAM, *words, *more], cwd=package.parent, env=environment(package),
            capture_output=True, text=True, check=True,
        )  # fmt: skip

    again = by_the_copy("seed=0")
    assert "model/positions.py changed since 1 run was made." in again.stderr
    assert again.stderr.count("finished before") == 1
    planned = by_the_copy("seed=0,1", "--dry-run").stdout
    assert "model/positions.py changed since 1 run was made." in planned
    assert "4 runs, 3 finished before, 1 to do" in planned
    report = attnexp("report", "outputs/sweep_position").stdout
    assert "model/positions.py changed between these runs" in report
    assert len(re.findall(r"position=sinusoidal code \w{8}: 1 run on", report)) == 2
    assert "position=none: 2 runs on" in report


@pytest.mark.slow
def test_code_that_changes_under_a_sweep_fails_the_runs_that_would_mix(package: Path) -> None:
    words = [*SMOKE, "train.epochs=60", "seed=0,1,2", "executor.workers=1"]
    process = subprocess.Popen(
        [PROGRAM, "sweep", *words], cwd=package.parent, env=environment(package),
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not list(package.parent.rglob("metrics.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.01)
    edit(package, "pooling.py", "import math", "import math\n\nEDITED = 1")
    _, message = process.communicate(timeout=300)
    assert process.returncode == 1, message
    assert message.count("failed: model/pooling.py changed under way") == 3
    assert "Traceback" not in message
    assert not list(package.parent.rglob("result.json"))
