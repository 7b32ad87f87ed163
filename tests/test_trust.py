"""What others wrote runs only where the user asks for it, and stays text where it is shown."""

import csv
import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import samples
from conftest import Command, Refused
from forked import PROGRAM

from attnexp.analysis.comparison import compare
from attnexp.analysis.other_results import read_results
from attnexp.base import memory
from attnexp.base.errors import UserError
from attnexp.cli import app
from attnexp.config.compose import compose
from attnexp.config.schema import DataConfig, DataName, to_dict
from attnexp.config.trust import foreign_code
from attnexp.data import encode
from attnexp.report import formats
from attnexp.runs import store

SMOKE = ("experiment=smoke", "train.epochs=1", "data.limit_train=32", "data.limit_test=32")

OWN = """
from pathlib import Path
Path(__file__).with_suffix(".ran").touch()

from attnexp.model.mixers import Mean

class Pool(Mean):
    pass

def tokens(text: str) -> list[str]:
    return text.split()
"""


def test_a_stored_run_runs_nobodys_code_unless_trusted(
    attnexp: Command, refused: Refused, tmp_path: Path
) -> None:
    (tmp_path / "own.py").write_text(OWN)
    assert attnexp("train", *SMOKE, "model.pooling=own:Pool").returncode == 0
    (run_dir,) = (tmp_path / "outputs" / "runs").glob("*-*")
    result = store.load(run_dir)
    result.config["model"]["pooling"] = "own:Pool"  # as text in the piece's place
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
        message = refused(*words)
        for part in ("own:Pool", str(tmp_path / "own.py"), "--trust-code"):
            assert part in message
    for words in (["report"], ["report", "--html", "page.html"], ["export", "--to", "hub"],
                  ["doctor"]):  # fmt: skip
        app([words[0], "outputs/runs", *words[1:]], standalone_mode=False)
    (card,) = (tmp_path / "outputs" / "hub").rglob("README.md")
    assert "own:Pool" in card.read_text()
    assert "--trust-code" in card.read_text()
    assert not ran.exists()
    for words in commands[:2]:
        assert attnexp(*words, "--trust-code").returncode == 0
    assert ran.exists()


def test_a_tokenizer_is_code_of_others_too() -> None:
    config = to_dict(compose(["data=contrast"]))
    assert foreign_code(config) == []
    config["data"]["tokenizer"] = "own:tokens"
    assert foreign_code(config) == ["own:tokens"]


@pytest.mark.slow
def test_what_lies_in_the_current_folder_is_not_imported(tmp_path: Path) -> None:
    names = ("hydra_plugins/x.py", "triton.py", "random.py", "own.py")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(OWN)

    def ran(*words: str) -> set[str]:
        subprocess.run([PROGRAM, *words], cwd=tmp_path, check=True, capture_output=True)
        return {path.stem for path in tmp_path.rglob("*.ran")}

    assert ran("config", "model.pooling=own:Pool", "data.tokenizer=own:tokens") == set()
    assert ran("train", *SMOKE) == set()
    (tmp_path / "triton.py").unlink()  # which torch would take for the package
    processes = ("sweep", *SMOKE, "seed=0,1", "executor.workers=2")
    found = ran(*processes, "model.pooling=own:Pool", "data.tokenizer=own:tokens")
    assert "own" in found
    assert "random" not in found  # which every process that Python starts imports


@pytest.mark.parametrize(
    ("words", "message"),
    [
        *((f"seed={values}", "range(START, STOP, STEP)")
          for values in ("range(1,10,0)", "range(nan)", "interval(0,1)", "range(0.5,3,0)")),
        *((f"seed={values}", "10,000 at most")
          for values in ("range(0,inf)", "range(1000000)", "shuffle(range(0,inf))")),
        ("seed=0 mask=dilated mask.radius=4611686018427387904 mask.dilation=4", "mask.radius"),
        ("seed=0 study=...yaml", "A study cannot be called '..'"),
    ],
)  # fmt: skip
def test_words_without_end_or_way_out_are_refused(
    refused: Refused, tmp_path: Path, words: str, message: str
) -> None:
    study = "baseline: a\nvariants: {a: [position=none], b: [position=alibi]}\n"
    (tmp_path / "...yaml").write_text(study)
    assert message in refused("sweep", "data=contrast", *words.split())


BESIDE = """
try:
    import flash_attn.ops
except ImportError:
    pass
try:
    from . import helper
except ImportError:
    pass
from attnexp.model.mixers import Mean

class Pool(Mean):
    pass
"""


def test_folders_beside_a_piece_stop_no_run(attnexp: Command, tmp_path: Path) -> None:
    """Those of a package that it tries to import, and of attnexp."""
    (tmp_path / "own.py").write_text(BESIDE)
    for name in ("flash_attn", "attnexp"):
        (tmp_path / name).mkdir()
    words = ("sweep", *SMOKE, "model.pooling=own:Pool", "seed=0,1", "executor.workers=1")
    assert "Traceback" not in (done := attnexp(*words)).stderr
    assert done.returncode == 0, done.stderr


ALIASES = [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)]


@pytest.mark.parametrize("text", ["\n".join(["a0: &a0 [x]", *ALIASES]), "a: &a [*a]", "[" * 2999])
def test_a_file_that_unfolds_without_end_is_refused(
    refused: Refused, tmp_path: Path, text: str
) -> None:
    (tmp_path / "mine.yaml").write_text(text)
    assert "study=mine.yaml" in refused("sweep", "study=mine.yaml", "data=contrast")


def test_a_table_larger_than_memory_is_refused_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """40 MB in a file of 40 kB, and 200 MB of memory."""
    (tmp_path / "limit").write_text("200000000")
    monkeypatch.setattr(memory, "CGROUP_LIMIT", tmp_path / "limit")
    with gzip.open(tmp_path / "bomb.csv.gz", "w") as file:
        file.write(b"text,label\n" + b"a,1\n" * 10**7)
    data = DataConfig(name=DataName.files, path=str(tmp_path / "bomb.csv.gz"))
    with pytest.raises(UserError, match=r"bomb.csv.gz would take"):
        encode.load(data)
    with pytest.raises(UserError, match=r"bomb.csv.gz would take"):
        read_results(tmp_path / "bomb.csv.gz")


NOW = """
import os, signal, sys
_, module = sys.argv
class Now:
    def find_spec(self, name, *_):
        if name == module:
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Now())
from attnexp.cli import main
sys.argv[1:] = ["config"]
main()
"""


@pytest.mark.parametrize("module", ["typer", "attnexp.cli.inspect", "hydra"])
def test_ctrl_c_while_attnexp_is_imported_says_one_thing(tmp_path: Path, module: str) -> None:
    words = [sys.executable, "-c", NOW, module]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (130, "")
    assert len(done.stderr.splitlines()) == 1
    assert done.stderr.startswith("Interrupted: ")


@pytest.mark.parametrize("name", ["a\x1b[2Jb", "a\nb", "a\x85b"])
def test_names_are_printable_text_of_one_line(refused: Refused, tmp_path: Path, name: str) -> None:
    rows = [("variant", "seed", "accuracy"), ("none", 0, 0.5), (name, 0, 0.75)]
    with (tmp_path / "results.csv").open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows(rows)
    study = {"baseline": "none", "variants": {"none": ["position=none"], name: ["mask=causal"]}}
    (tmp_path / "mine.yaml").write_text(json.dumps(study))
    for words in (
        ["judge", "results.csv"],
        ["sweep", "study=mine.yaml", "data=contrast", "seed=0"],
    ):
        message = refused(*words)
        assert ascii(name) in message
        assert "\x1b" not in message


@pytest.mark.parametrize("label", ["=cmd|' /C calc'!A0", "+1+1", "-a", "@SUM(1)", "-1", "+2.5e3"])
def test_no_csv_cell_is_a_formula(label: str) -> None:
    runs = [samples.result(name, seed, [0.5]) for name in ("none", label) for seed in (0, 1)]
    cells = {row["variant"] for row in csv.DictReader(formats.as_csv(compare(runs)).splitlines())}
    is_number = label[1:].replace(".", "").replace("e", "").isdigit()
    assert cells == {"none", label if is_number else f"'{label}"}
