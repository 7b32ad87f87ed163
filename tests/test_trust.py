"""What others wrote runs only where the user asks for it, and stays text where it is shown."""

import csv
import json
import subprocess
from pathlib import Path

import pytest
import samples
from conftest import Command, Refused
from forked import PROGRAM

from attnexp.analysis.comparison import compare
from attnexp.report import formats
from attnexp.runs import store

SMOKE = ("experiment=smoke", "train.epochs=1", "data.limit_train=32", "data.limit_test=32")

OWN = """
from pathlib import Path
Path(__file__).with_suffix(".ran").touch()

from attnexp.model.pooling import Mean

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
    for words in (["report"], ["report", "--html", "page.html"], ["export", "--to", "hub"],
                  ["doctor"]):  # fmt: skip
        assert attnexp(words[0], "outputs/runs", *words[1:]).returncode == 0
    (card,) = (tmp_path / "outputs" / "hub").rglob("README.md")
    assert code in card.read_text()
    assert "--trust-code" in card.read_text()
    assert not ran.exists()
    for words in commands:
        assert attnexp(*words, "--trust-code").returncode == 0
    assert ran.exists()


def test_what_lies_in_the_current_folder_is_not_imported(tmp_path: Path) -> None:
    names = ("hydra_plugins/x.py", "yt_dlp.py", "triton.py", "random.py", "own.py")
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(OWN)

    def ran(*words: str) -> set[str]:
        subprocess.run([PROGRAM, *words], cwd=tmp_path, check=True, capture_output=True)
        return {path.stem for path in tmp_path.rglob("*.ran")}

    assert ran("config", "model.pooling=own:Pool", "data.tokenizer=own:tokens") == set()
    processes = ("sweep", *SMOKE, "seed=0,1", "executor.workers=2")
    assert ran(*processes) == set()
    assert ran("report", "outputs/runs", "--html", "page.html") == set()
    (tmp_path / "triton.py").unlink()  # which torch would take for the package
    assert "own" in ran(*processes, "model.pooling=own:Pool", "data.tokenizer=own:tokens")


@pytest.mark.parametrize(
    ("words", "told"),
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
    refused: Refused, tmp_path: Path, words: str, told: str
) -> None:
    study = "baseline: a\nvariants: {a: [position=none], b: [position=alibi]}\n"
    (tmp_path / "...yaml").write_text(study)
    assert told in refused("sweep", "data=contrast", *words.split())


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
        told = refused(*words)
        assert ascii(name) in told
        assert "\x1b" not in told


@pytest.mark.parametrize("label", ["=cmd|' /C calc'!A0", "+1+1", "-a", "@SUM(1)", "-1", "+2.5e3"])
def test_no_csv_cell_is_a_formula(label: str) -> None:
    runs = [samples.result(name, seed, [0.5]) for name in ("none", label) for seed in (0, 1)]
    cells = {row["variant"] for row in csv.DictReader(formats.as_csv(compare(runs)).splitlines())}
    is_number = label[1:].replace(".", "").replace("e", "").isdigit()
    assert cells == {"none", label if is_number else f"'{label}"}
