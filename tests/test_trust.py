"""What others wrote runs only where the user asks for it, and stays text where it is shown."""

from pathlib import Path

import pytest
from conftest import Command, Refused

from attnexp.runs import store

SMOKE = ("experiment=smoke", "train.epochs=1", "data.limit_train=32", "data.limit_test=32")

OWN = """
from pathlib import Path
from torch import Tensor
from attnexp.model.pooling import Mean

Path(__file__).with_suffix(".ran").touch()

class Pool(Mean):
    pass

def tokens(text: str) -> list[str]:
    return text.split()
"""


@pytest.mark.parametrize("word", ["model.pooling=own:Pool", "data.tokenizer=own:tokens"])
def test_a_stored_run_runs_nobodys_code_unless_trusted(
    attnexp: Command, refused: Refused, tmp_path: Path, word: str
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    code = word.partition("=")[2]
    assert attnexp("train", *SMOKE, word).returncode == 0
    (run_dir,) = (tmp_path / "outputs" / "runs").glob("*-*")
    result = store.load(run_dir)
    if "Pool" in word:  # as text in the piece's place
        result.config["model"]["pooling"] = code
        store.save(run_dir, result)
    ran = tmp_path / "own.ran"
    ran.unlink()
    run, figure = str(run_dir), ["--figure", "map.svg", "--show", "attention"]
    commands = (
        ["predict", run, "superb"],
        ["evaluate", run],
        ["report", "outputs/runs", *figure],
        ["report", "outputs/runs", *figure, "--run", run],
        ["report", "outputs/runs", "--html", "page.html", "--run", run],
    )
    for words in commands:
        told = refused(*words)
        for part in (code, str(tmp_path / "own.py"), "--trust-code"):
            assert part in told
    for words in (["report", "outputs/runs"], ["report", "outputs/runs", "--html", "page.html"],
                  ["export", "outputs/runs", "--to", "hub"], ["doctor", "outputs/runs"]):  # fmt: skip
        assert attnexp(*words).returncode == 0
    (card,) = (tmp_path / "outputs" / "hub").rglob("README.md")
    assert code in card.read_text()
    assert "--trust-code" in card.read_text()
    assert not ran.exists()
    for words in commands:
        assert attnexp(*words, "--trust-code").returncode == 0
    assert ran.exists()
