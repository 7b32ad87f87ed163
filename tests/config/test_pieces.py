"""Classes and functions of one's own: what a signature says, and whose code runs when."""

import pickle
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from conftest import PROGRAM, OwnModule, Patch
from samples import message_of, write_file

from attnexp.base import reads
from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.compose import compose
from attnexp.config.schema import foreign_code, meanings, to_dict
from attnexp.network.build import try_to_build

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
    def __init__(self, d_input, d_model, *, width: int = 3, part: type[Pooling] | None = None):
        super().__init__()
        self.d_output = d_input
class Values(Mix):
    def __init__(self, d_input: int, d_model: int, *, table: str = ""):
        super().__init__(d_input, d_model)
        self.d_output = int(nn.Linear(2, 2).weight.sum().item() * 0 + d_input)
class Keyless(Mixer):
    def __init__(self, d_input: int, d_model: int): raise KeyError("no such key")
class Clash(Mixer):
    def __init__(self, d_input: int, d_model: int, *, dropout: float = 0.1): ...
class Odd(seams.ScoreBias):
    def __init__(self, num_heads: int, *, table: Tensor = None): ...
class Wrong(seams.ScoreBias):
    def __init__(self, num_heads: int, *, rate: float = "fast"): ...
class Nothing(nn.Module): ...
def words(text: str, *, limit: int = 9) -> list[str]:
    return text.split()"""


@pytest.fixture
def name(own_module: OwnModule) -> str:
    return own_module(MODULE)


def test_a_spec_is_what_the_signature_says(name: str) -> None:
    config = compose(f"position={name}:Slower", "position.rate=0.5")
    settings = {"rate": 0.5, "shape": "one", "steps": 3, "way": "left", "shuffled": False}
    assert to_dict(config)["position"] == settings | {"kind": f"{name}:Slower"}
    assert meanings(config)["position.rate"] == "Per token."
    assert compose(f"position={name}:Turn").position.layout == "interleaved"
    own = {"model": "Mix", "model.pooling": "Pool", "train.loss": "words"}
    config = compose([f"{key}={name}:{own[key]}" for key in own], "model.pooling.power=3")
    assert (config.model.width, config.model.pooling.power) == (3, 3)
    assert compose(f"model={name}:Mix", f"model.part={name}:Pool").model.part.name == "Pool"
    assert compose(f"model.before={name}:Values").model.before.name == "Values"  # it needs values
    assert foreign_code(to_dict(config)) == [f"{name}:{own[key]}" for key in own]
    assert pickle.loads(pickle.dumps(config)) == config


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("position=NAME:Faster", ["position.rate must be given"]),
        ("position=NAME:Faster position.rate=0", ["position.rate must be greater than 0; got 0"]),
        ("position=NAME:Faster position.rate=1 position.way=up", ["'left' or 'right'", "up"]),
        ("position=NAME:Nothing", ["wanted a subclass of", "Rotation", "ScoreBias"]),
        ("position=NAME:Nobody", ["has no Nobody."]),
        ("train.loss=NAME:__name__", ["NAME:__name__ is", "neither a class nor a function"]),
        ("position=NAME:Odd", ["NAME:Odd", "Tensor"]),
        ("position=NAME:Wrong", ["position.rate", "number", "fast"]),
        ("model=NAME:Keyless", ["NAME:Keyless failed at", ": KeyError", "no such key"]),
        ("model=NAME:Clash", ["'dropout'", "rename"]),
        ("model.pooling=NAME:Pool model.pooling.power=2", ["NAME:Pool", "odd; got 2"]),
    ],
)
def test_what_is_wrong_with_a_class_is_reported(words: str, message: list[str], name: str) -> None:
    told = message_of(lambda: try_to_build(compose(words.replace("NAME", name).split())))
    assert all(part.replace("NAME", name) in told for part in message), told


def test_a_module_that_fails_is_named_and_may_be_mended(own_module: OwnModule) -> None:
    for line, error in (("raise SystemExit(0)", "SystemExit: 0"), ("1 / 0", "ZeroDivisionError")):
        name = own_module(line)
        with pytest.raises(UserError, match=f"{name}:Mix cannot be imported: {error}"):
            compose(f"model={name}:Mix")
    own_module(MODULE)
    pieces.load(f"{name}:Mix")
    assert reads.change_since_import() == ""


def test_a_class_of_the_script_is_refused(name: str, monkeypatch: Patch) -> None:
    """As of a notebook's cell, also under the name of a module."""
    module: Any = ModuleType(f"{name}_alias")
    module.Own = type("Own", (), {"__module__": "__main__"})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for kind in ("__main__:__name__", f"{name}_alias:Own"):
        with pytest.raises(UserError, match="is in no module"):
            pieces.load(kind)


@pytest.mark.slow
def test_what_lies_in_the_current_folder_is_not_imported(tmp_path: Path) -> None:
    """But the module of a piece, also by the processes of a sweep."""
    for file in ("hydra_plugins/x.py", "random.py", "own.py", "attnexp.py"):
        mark = "from pathlib import Path\nPath(__file__).with_suffix('.ran').touch()\n"
        write_file(tmp_path / file, mark + MODULE * (file == "own.py"))
    words = "experiment=smoke train.epochs=1 data.limit_train=32 data.limit_test=32 seed=0,1 "
    words += "executor.workers=2 model.pooling=own:Pool data.tokenizer=own:words"
    subprocess.run([PROGRAM, "sweep", *words.split()], cwd=tmp_path, check=True)
    assert {path.stem for path in tmp_path.rglob("*.ran")} == {"own"}
