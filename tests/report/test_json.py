"""Every document that the commands print is what docs/json.md says, field by field."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Json
from samples import MORE, answers, blog, crossed_runs, of, save_study, write_table

from attnexp.analysis.chance import Source
from attnexp.analysis.comparison import Declared, compare
from attnexp.config.compose import compose
from attnexp.report import formats
from attnexp.runs import store
from attnexp.runs.manifest import Declaration
from attnexp.statistics.anytime import decide
from attnexp.statistics.crossed import spread
from attnexp.training.run import train_run

COMPARED = "attnexp sweep, attnexp report, attnexp judge"
ACROSS = "attnexp report --across data"
PAGE = (ROOT / "docs" / "json.md").read_text()
PLAIN = {"string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
         "object": (dict,), "list": (list,)}  # fmt: skip


def sections() -> dict[str, dict[str, str]]:
    """The type of every field, by heading."""
    found: dict[str, dict[str, str]] = {}
    for part in re.split(r"^##+ ", PAGE, flags=re.MULTILINE)[1:]:
        heading, _, text = part.partition("\n")
        rows = re.findall(r"^\| (`.*?`) \| (.*?) \| .+ \|$", text, flags=re.MULTILINE)
        found[heading] = {
            name: kind for names, kind in rows for name in re.findall(r"`(\w+)`", names)
        }
    return found


SECTIONS = sections()


def check(value: Any, kind: str, where: str) -> None:
    """That a value is of a type of the page."""
    if kind.endswith(" or null"):
        if value is not None:
            check(value, kind.removesuffix(" or null"), where)
    elif match := re.fullmatch(r"\[(.+)\]\(#(.+)\)", kind):
        assert match[2] == match[1].lower().replace(" ", "-")
        fields = SECTIONS[match[1]]
        assert value.keys() == fields.keys(), where
        for name, each in fields.items():
            check(value[name], each, f"{where}.{name}")
    elif kind.startswith("list of "):
        assert isinstance(value, list), where
        for one in value:
            check(one, kind.removeprefix("list of "), f"{where}[]")
    elif kind.startswith("object of "):
        assert isinstance(value, dict), where
        for name, one in value.items():
            check(one, kind.removeprefix("object of "), f"{where}.{name}")
    else:
        assert type(value) in PLAIN[kind], f"{where} is {value!r}, not {kind}"


def documented(document: Any, heading: str) -> None:
    anchor = heading.lower().replace(" ", "-")
    check(document, f"[{heading}](#{anchor})", heading)


def test_documents_are_as_the_page_says(
    here_json: Json, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    smoke = ["experiment=smoke", "train.epochs=1", "data.limit_train=32", "train.threads=1"]
    document = here_json("train", *smoke)
    documented(document, "attnexp train")
    run_dir = document["folder"]
    assert store.load(Path(run_dir)).run_id == document["run_id"]
    train_run(compose(smoke, "position=learned"))
    reviews = tmp_path / "reviews.csv"
    reviews.write_text("text,label\n" + "".join(f"good {i},1\nbad {i},0\n" for i in range(10)))
    two_sets = [*blog("data=trec", seeds=2), *blog("data=subj", seeds=2)]
    save_study(tmp_path / "made", two_sets, "mine")
    two = ["sweep", *smoke, "position=none,learned"]
    for words, heading in [
        ([*two, "seed=0,1", "--dry-run"], "attnexp sweep --dry-run"),
        (two, COMPARED),
        (["report", "outputs"], COMPARED),
        (["runs"], "attnexp runs"),
        (["evaluate", run_dir], "attnexp evaluate"),
        (["predict", run_dir, "the plot was superb", "--why", "erasure"], "attnexp predict"),
        (["probe", "outputs", "--do", "shuffle,no_positions,attention"], "attnexp probe"),
        (["config", "--cost"], "attnexp config --cost"),
        (["data", "prepare", "data=files", f"data.path={reviews}"], "attnexp data"),
        (["claims", "C01"], "attnexp claims"),
        (["doctor"], "attnexp doctor"),
        (["doctor", "outputs"], "attnexp doctor DIR"),
        (["report", "made/mine", "--across", "data"], ACROSS),
        (["report", "made/mine", "--table", "differences"], "attnexp report --table NAME"),
        (["judge", write_table(tmp_path / "answers.csv", answers())], COMPARED),
    ]:
        documented(here_json(*words), heading)


def test_comparisons_of_every_kind_are_as_the_page_says(tmp_path: Path) -> None:
    (crossed,) = compare(crossed_runs(tmp_path, more=MORE))
    (held,) = compare(blog())
    assert crossed.interactions
    assert crossed.within
    assert held.agreement
    declaration = Declaration(metric="best", margin=0.0025)
    decisions = decide({"pe": of(MORE), "late": of([0.01])})
    study = Declared(declaration=declaration, baseline="no_pe", decisions=decisions)
    order = Source(variant="pe", name="order", num_points=2, num_values=2,
                   spreads={"final": spread([[1.0, 2.0], [2.0, 4.0]])})  # fmt: skip
    held = replace(held, declared=[study], sources=[order])
    document = json.loads(formats.as_json([crossed, held]))
    documented(document, COMPARED)


def test_every_field_has_a_meaning() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert all(len(re.split(r" \| ", row.strip("| "))) == 3 for row in rows)
