"""A result belongs to the code that made it: what changes an id, what does not, and who notices."""

import ast
import functools
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT, Command
from forked import PROGRAM

from attnexp.base.errors import RunFailed
from attnexp.config.compose import compose
from attnexp.runs import code

SMOKE = ["experiment=smoke", "data.limit_train=64", "data.limit_test=64", "train.threads=1"]

CONFIGS = {
    "none": [],
    "sinusoidal": ["position=sinusoidal"],
    "rotary": ["position=rotary"],
    "alibi": ["position=alibi"],
    "shuffled": ["position=relative", "position.shuffled=true"],
    "causal": ["mask=causal"],
    "padding": ["mask=padding"],
    "restricted": ["mask=restricted"],
    "lstm": ["model=lstm"],
    "cnn_attention": ["model=cnn_attention"],
    "tfidf": ["model=tfidf"],
    "vectors": ["model.vectors=glove.txt"],
}

USERS = {
    "positions.py": {"sinusoidal", "rotary", "shuffled"},
    "rotary.py": {"rotary"},
    "biases.py": {"alibi", "shuffled"},
    "masks.py": {"causal", "padding", "restricted"},
    "window.py": {"restricted"},
    "mixers.py": {"lstm", "cnn_attention"},
    "scores.py": {*CONFIGS} - {"lstm", "tfidf"},
    "seams.py": {*CONFIGS},
    "classifier.py": {*CONFIGS},
    "fast.py": {*CONFIGS} - {"lstm", "tfidf"},
    "../training/loop.py": {*CONFIGS},
    "../training/tfidf.py": {"tfidf"},
    "../data/encode.py": {*CONFIGS},
    "../data/vectors.py": {"vectors"},
    "../runs/store.py": set(),
    "../base/progress.py": set(),
    "../report/tables.py": set(),
    "../runs/provenance.py": set(),
}
"""Whose code a module of `model/` is."""

IDS = """
import json, pickle, sys
from attnexp.runs.identity import identify
configs = pickle.load(sys.stdin.buffer)
print(json.dumps({name: identify(config, "").run_id for name, config in configs.items()}))
"""


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


@functools.cache
def pickled() -> bytes:
    return pickle.dumps({name: compose(words) for name, words in CONFIGS.items()})


def ids(package: Path) -> dict[str, str]:
    done = subprocess.run(
        [sys.executable, "-c", IDS], input=pickled(),
        cwd=package, env=environment(package), capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, str] = json.loads(done.stdout)
    return found


def edit(package: Path, name: str, old: str, new: str) -> None:
    file = package / "attnexp/model" / name
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_an_edit_changes_the_ids_of_the_runs_that_use_the_module_and_no_others(
    package: Path,
) -> None:
    before = ids(package)
    for name, users in USERS.items():
        file = package / "attnexp/model" / name
        file.write_text(f"{file.read_text()}\nEDITED = 1\n")
        after = ids(package)
        assert {kind for kind in CONFIGS if before[kind] != after[kind]} == users, name
        before = after


def test_comments_docstrings_and_layout_change_no_id(package: Path) -> None:
    before = ids(package)
    ruff = Path(sys.executable).parent / "ruff"
    subprocess.run([ruff, "format", "-q", "--line-length=60", package / "attnexp"], check=True)
    for file in (package / "attnexp").rglob("*.py"):
        text = file.read_text()
        tree = ast.parse(text)
        if ast.get_docstring(tree):
            assert isinstance(tree.body[0], ast.Expr)
            rest = "\n".join(text.splitlines()[tree.body[0].end_lineno :])
            file.write_text(f"# A comment.\n'''Another docstring.'''\n{rest}\n")
    assert ids(package) == before


SAMPLE = '''
"""Documented."""
from a import (b as c, d)
type_of: dict[str, int] = {**c, "k": None}
def f(x, /, y=1.5, *, z: "int" = -1, **more) -> None:
    """Documented."""
    with open(x) as one, open(y) as other: yield f"{x!r:>{y}} é \\N{SNOWMAN} {z=}"
    match x:
        case [1, *rest] | {"a": _}: return (lambda: ...)()
async def g(): return [i async for i in d if (n := i) and not ""], b"\\x00", 1j, 10**400, u""
class C(object, metaclass=type): "Documented."; a: int
try: pass
except* ValueError: raise
'''
DIGEST = "863bbb5b26dedeb3"


def test_a_digest_is_what_it_was_on_the_first_day() -> None:
    """On any Python; were it otherwise, all results on disk would be made again."""
    assert code.digest(ast.parse(SAMPLE)) == DIGEST


@pytest.mark.parametrize(
    "other",
    ["f(-1)", "f(1.0)", "f('1')", "f(b'1')", "f(True)", "f(1, '')", "f(x=1)", "f(*1)", "f[1]",
     "f(1); f(1)", "async def f(): 1", "def f(): 1", "f(f'')", "f(f'{1}')", "f([1])", "f((1,))",
     "f(None)", "f()", "import f", "from f import f", "from .f import f", "pass"],
)  # fmt: skip
def test_other_code_has_another_digest(other: str) -> None:
    assert code.digest(ast.parse(other)) != code.digest(ast.parse("f(1)"))


def test_every_python_gives_the_same_digests() -> None:
    """Of the real modules, under whatever other interpreters are on this machine."""
    program = "from attnexp.runs import code; print(code.reached(frozenset(code.ON_DEMAND)))"
    found: dict[tuple[int, ...], Path] = {sys.version_info[:2]: Path(sys.executable)}
    for path in [
        *Path.home().glob(".pyenv/versions/3.*/bin/python"),
        *Path("/usr/bin").glob("python3.??"),
    ]:
        told = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        version = tuple(map(int, re.findall(r"\d+", told)[:2]))
        if version >= (3, 11):
            found.setdefault(version, path)
    if len(found) == 1:
        pytest.skip("no other Python here")
    seen = {
        subprocess.run(
            [path, "-c", program], env={"PYTHONPATH": str(ROOT)},
            capture_output=True, text=True, check=True,
        ).stdout
        for path in found.values()
    }  # fmt: skip
    assert len(seen) == 1


def test_code_of_the_users_own_counts_and_installed_packages_do_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").mkdir()
    for name, text in {
        "mine/__init__.py": "",
        "mine/xpos.py": "import os, numpy, torch\nfrom . import helper\nfrom beside import one\n"
        "from attnexp.model.rotary import RotaryPosition\nfrom nowhere import nothing",
        "mine/helper.py": "from mine.deeper import thing",
        "mine/deeper.py": "thing = 1",
        "mine/unused.py": "",
        "beside.py": "one = 1",
    }.items():
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = set(code.reached(frozenset({"mine.xpos"}))) - set(code.reached(frozenset()))
    assert found == {
        *("mine.xpos", "mine.helper", "mine.deeper", "beside"),
        *("attnexp.model.rotary", "attnexp.model.positions"),
    }
    assert "mine.xpos" not in sys.modules  # nothing of it was imported


def test_a_piece_of_the_users_own_enters_the_id_by_its_code(tmp_path: Path) -> None:
    """What it computes counts, what it says of itself does not."""
    text = (
        "from attnexp.model.seams import ScoreBias\n\nBASE = {base}\n\n\n"
        "class Decay(ScoreBias):\n    {said}\n\n"
        "    def __init__(self, num_heads: int) -> None:\n        super().__init__()\n"
    )
    program = (
        "from attnexp.config.compose import compose; from attnexp.runs.identity import identify; "
        "print(identify(compose(['position=mine:Decay']), '').run_id)"
    )
    ids = []
    for base, said in ((1, "pass"), (1, "pass  # A comment."), (2, "pass")):
        (tmp_path / "mine.py").write_text(text.format(base=base, said=said))
        told = subprocess.run(
            [sys.executable, "-c", program], cwd=tmp_path,
            env=environment(ROOT), capture_output=True, text=True, check=True,
        )  # fmt: skip
        ids.append(told.stdout.strip().split("-"))
    assert ids[0] == ids[1]
    assert ids[0][0] == ids[2][0]  # the same settings
    assert ids[0][1] != ids[2][1]


def test_every_name_in_the_lists_is_a_modules() -> None:
    for name in (code.ROOT, *code.ON_DEMAND, *code.BUILDERS, *code.COMPUTING):
        path = ROOT / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_a_process_that_has_imported_other_code_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    piece = tmp_path / "edited.py"
    for text, changed in (("base = 1", False), ("base = 1  # one", False), ("base = 2", True)):
        piece.write_text(text)
        code.read_again()
        if changed:
            with pytest.raises(RunFailed, match=r"edited\.py changed under way"):
                code.reached(frozenset({"edited"}))
        else:
            assert "edited" in code.reached(frozenset({"edited"}))


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


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_code_that_changes_under_a_sweep_fails_the_runs_that_would_mix(
    package: Path, workers: int
) -> None:
    words = [*SMOKE, "train.epochs=60", "seed=0,1,2", f"executor.workers={workers}"]
    process = subprocess.Popen(
        [PROGRAM, "sweep", *words], cwd=package.parent, env=environment(package),
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not list(package.parent.rglob("metrics.jsonl")) and time.monotonic() < deadline:
        time.sleep(0.01)
    edit(package, "pooling.py", "import math", "import math\n\nEDITED = 1")
    _, told = process.communicate(timeout=300)
    assert process.returncode == 1, told
    assert told.count("failed: model/pooling.py changed under way") == 3
    assert "Traceback" not in told
    assert not list(package.parent.rglob("result.json"))
