"""Classes and functions of one's own: what a signature says, and whose code runs when."""

import pickle
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from conftest import PROGRAM, OwnModule, Patch
from samples import message_of, write

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.compose import compose
from attnexp.config.schema import foreign_code, meanings, to_dict
from attnexp.model.seams import Rotation, ScoreBias
from attnexp.network.build import try_to_build
from attnexp.runs import identity

MODULE = """
from enum import StrEnum
from typing import Annotated, Literal
from annotated_types import Ge, Gt, Le
from torch import Tensor, nn
from typing_extensions import Doc
from attnexp.model import seams
from attnexp.model.positions import RotaryPosition as Base
from attnexp.model.seams import *
Rate = Annotated[float, Gt(0), Le(10), Doc("Per token.")]
class Kind(StrEnum):
    one = "one"
    other = "other"

class Faster(seams.ScoreBias):
    def __init__(self, num_heads: int, *, rate: Rate, shape: Kind = Kind.one, steps: int | None = 3,
                 way: Literal["left", "right"] = "left"): super().__init__()
class Slower(Faster): ...
class Turn(Base): ...
class Pool(Pooling):
    def __init__(self, d_input: int, *, power: Annotated[int, Ge(1)] = 1):
        super().__init__(d_input)
        if power % 2 == 0:
            raise ValueError(f"power must be odd; got {power}")
    def forward(self, x: Tensor, key_padding_mask: Tensor): return x.mean(dim=-2)
class Mix(Mixer):
    def __init__(self, d_input: int, d_model: int, *, width: int = 3):
        super().__init__()
        self.d_output = d_input
class Values(Mix):
    def __init__(self, d_input: int, d_model: int, *, table: str = ""):
        super().__init__(d_input, d_model)
        self.d_output = int(nn.Linear(2, 2).weight.sum().item() * 0 + d_input)
class Keyless(Mixer):
    def __init__(self, d_input: int, d_model: int): raise KeyError("no such key")
class Narrow(Mixer):
    def __init__(self, d_input: int, d_model: int): super().__init__()
class Clash(Mixer):
    def __init__(self, d_input: int, d_model: int, *, dropout: float = 0.1): ...
class Odd(seams.ScoreBias):
    def __init__(self, num_heads: int, *, table: Tensor = None): ...
class Wrong(seams.ScoreBias):
    def __init__(self, num_heads: int, *, rate: float = "fast"): ...
class Unread(seams.ScoreBias):
    def __init__(self, num_heads: int, *, rate: "Nowhere" = 1): ...
class Nothing(nn.Module): ...
def words(text: str) -> list[str]:
    return text.split()
"""


@pytest.fixture
def name(own_module: OwnModule) -> str:
    return own_module(MODULE)


def test_a_spec_is_what_the_signature_says(name: str) -> None:
    config = compose(f"position={name}:Slower", "position.rate=0.5")
    assert (config.position.rate, config.position.steps, config.position.way) == (0.5, 3, "left")
    assert str(to_dict(config)["position"]["shape"]) == "one"
    assert meanings(config)["position.rate"] == "Per token."
    assert config.position.fills(ScoreBias)
    assert not config.position.fills(Rotation)
    assert compose(f"position={name}:Turn").position.layout == "interleaved"
    config = compose(f"model={name}:Mix", f"model.pooling={name}:Pool", "model.pooling.power=3")
    assert (config.model.width, config.model.pooling.power) == (3, 3)
    assert compose(f"model.before={name}:Values").model.before.name == "Values"  # it needs values
    assert foreign_code(to_dict(config)) == [f"{name}:Mix", f"{name}:Pool"]
    copied: Any = pickle.loads(pickle.dumps(config))
    assert to_dict(copied) == to_dict(config)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("position=NAME:Faster", ["position.rate must be given"]),
        ("position=NAME:Faster position.rate=0", ["position.rate must be greater than 0; got 0"]),
        ("position=NAME:Faster position.rate=1 position.way=up", ["'left' or 'right'", "up"]),
        ("position=NAME:Faster position.rat=1", ["Did you mean 'position.rate'?"]),
        ("position=NAME:Faster position.rate=1 position.layout=split", ["position=rotary"]),
        ("position=NAME:Nothing", ["subclass of one of", "Rotation", "ScoreBias"]),
        ("position=NAME:Nobody", ["has no Nobody."]),
        ("position=NAME:Odd", ["NAME:Odd", "Tensor"]),
        ("position=NAME:Wrong", ["position.rate", "number", "fast"]),
        ("position=NAME:Unread", ["cannot be read", "Nowhere"]),
        ("model=NAME:Keyless", ["NAME:Keyless cannot be built", "no such key"]),
        ("model=NAME:Narrow", ["cannot be built", "no attribute 'd_output'"]),
        ("model=NAME:Clash", ["'dropout'", "rename"]),
        ("model.pooling=NAME:Pool model.pooling.power=2", ["NAME:Pool", "odd; got 2"]),
    ],
)
def test_what_is_wrong_with_a_class_is_reported(words: str, message: list[str], name: str) -> None:
    told = message_of(lambda: try_to_build(compose(words.replace("NAME", name).split())))
    assert all(part.replace("NAME", name) in told for part in message), told


def test_a_module_that_fails_or_exits_when_imported_is_named(name: str, tmp_path: Path) -> None:
    for end, said in (("raise SystemExit(0)", "SystemExit: 0"), ("1 / 0", "ZeroDivisionError")):
        module = f"{name}_{len(end)}"
        (tmp_path / f"{module}.py").write_text(f"{MODULE}\n{end}\n")
        with pytest.raises(UserError, match=f"{module}:Mix cannot be imported: {said}"):
            compose(f"model={module}:Mix")


def test_an_edit_in_a_running_process_asks_for_a_restart(name: str, tmp_path: Path) -> None:
    """As in a notebook. Comments and layout are no edit."""
    file = tmp_path / f"{name}.py"
    words = [f"model={name}:Mix", f"data.tokenizer={name}:words"]
    compose(words)
    file.write_text(f"{MODULE}\n# A comment.")
    compose(words)
    file.write_text(MODULE.replace("width: int = 3", "width: int = 4"))
    with pytest.raises(UserError, match=r"changed since it was imported.*Restart the kernel"):
        compose(words)


def test_code_of_ones_own_is_in_the_id(name: str, tmp_path: Path) -> None:
    """A module by its file, a package by all of its files, a tokenizer like a piece; what these
    import from the user's folder, a setting's file, and versions of installed packages."""
    package = tmp_path / f"{name}_package"
    for file, text in (("__init__.py", ""), ("helper.py", "RATE = 1"), ("mixer.py", MODULE)):
        write(package / file, text)
    alone = identity.identify(compose(f"model={name}:Mix"), "").code
    assert f"code/{name}.py" in alone
    assert alone["torch"] == torch.__version__.partition("+")[0]
    assert not {"attnexp", "enum", "typing"} & {*alone}
    config = compose(f"model={package.name}.mixer:Mix", f"data.tokenizer={name}:words")
    both = identity.identify(config, "").code
    own = [f"code/{package.name}/{file}.py" for file in ("__init__", "helper", "mixer")]
    assert {key for key in both if key.startswith("code/")} == {f"code/{name}.py", *own}
    write(tmp_path / "table.txt", "1")
    tabled = compose(f"model={name}:Values", f"model.table={tmp_path}/table.txt")
    assert "code/table.txt" in identity.identify(tabled, "").code


HELPERS = {
    "direct": "import {0}.deep.er",
    "of_a_name": "from {0} import deep",
    "within": "def late():\n    from {0}.deep import er",
    "by_text": "import importlib\nimportlib.import_module('{0}.deep')",
    "through_another": "import {0}_other",
}


@pytest.mark.parametrize("line", HELPERS.values(), ids=HELPERS)
def test_a_helper_that_is_edited_changes_the_id(line: str, name: str, tmp_path: Path) -> None:
    """It lies in a folder without `__init__.py`, and is not run for the id."""
    helpers = tmp_path / f"{name}_helpers"
    for folder in (helpers / "deep", helpers / "deep" / "er"):
        write(folder / "__init__.py", "SCALE = 1")
    (tmp_path / f"{helpers.name}_other.py").write_text(f"from {helpers.name}.deep import er")
    piece = tmp_path / f"{name}_late.py"
    lines = line.format(helpers.name)
    piece.write_text(f"{MODULE}\ndef never():\n" + textwrap.indent(lines, "    "))
    files = find_sources(compose(f"model={piece.stem}:Mix").model.cls.__module__).files
    before = digest_files(files)
    (helpers / "deep" / "__init__.py").write_text("SCALE = 2")
    after = digest_files(files)
    assert {name for name in after if after[name] != before[name]} == {
        f"code/{helpers.name}/deep/__init__.py"
    }
    assert not [name for name in sys.modules if name.startswith(helpers.name)]


def test_a_class_whose_code_is_in_no_file_is_refused(monkeypatch: Patch) -> None:
    """As of a notebook's cell, also under the name of a module."""
    module = ModuleType("in_no_file")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec("class Own: ...", vars(module))
    main = type("Own", (), {"__module__": "__main__"})
    for kind in ("__main__:__name__", "in_no_file:Own"):
        with pytest.raises(UserError, match="is no file that a run could be traced to"):
            pieces.load(kind)
    monkeypatch.setattr(identity, "Own", main, raising=False)
    monkeypatch.setitem(sys.modules, "own_alias", identity)
    with pytest.raises(UserError, match="__main__ is no file"):
        pieces.load("own_alias:Own")


@pytest.mark.slow
def test_what_lies_in_the_current_folder_is_not_imported(tmp_path: Path) -> None:
    """But the module of a piece, also by the processes of a sweep."""
    for file in ("hydra_plugins/x.py", "random.py", "own.py", "attnexp.py"):
        mark = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n"
        write(tmp_path / file, mark + MODULE * (file == "own.py"))
    smoke = ["experiment=smoke", "train.epochs=1", "data.limit_train=32", "data.limit_test=32"]
    words = [*smoke, "seed=0,1", "executor.workers=2", "model.pooling=own:Pool"]
    words += ["data.tokenizer=own:words"]
    subprocess.run([PROGRAM, "sweep", *words], cwd=tmp_path, check=True)
    assert {path.stem for path in tmp_path.rglob("*.ran")} == {"own"}
