"""What README.md and docs/ say is what the commands in them say and do now."""

import os
import re
import runpy
import shlex
import subprocess
from pathlib import Path

import pytest
from conftest import ROOT, Command, Patch
from typer.main import get_command

from attnexp.claims.table import CLAIMS
from attnexp.cli import app
from attnexp.sweeps.plan import plan
from attnexp.sweeps.tuning import is_tuning, plan_tuning

ELSEWHERE = re.compile(r"data=hub|data=imdb|slurm|ray|explore|--to mlflow|\$ATTNEXP")
"""What a command needs that no machine is sure to have: a data set, a cluster, a browser."""
FEW = ["data.limit_train=64", "data.limit_test=64", "train.epochs=1"]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TEXTS = {page.name: page.read_text() for page in PAGES}
MAKE = runpy.run_path(str(ROOT / "docs" / "make.py"))
PARTS = {part[1]: part[2] for text in TEXTS.values() for part in MAKE["PART"].findall(text)}


@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=() if how[0] == "$" else pytest.mark.slow) for how in PARTS]
)
def test_a_part_is_what_its_command_makes(how: str) -> None:
    made = MAKE["make_part"](how)
    written = PARTS[how]
    if how == "claims":
        made, written = comparable(made), comparable(written)
    assert made == written


def comparable(claims: str) -> str:
    """What every machine makes of them: of measured numbers those that come from published runs."""
    of_studies = {f"| {claim.id}" for claim in CLAIMS if claim.study}
    rows = [line.split(" | ") for line in claims.splitlines()]
    for cells in rows:
        if cells[0] not in of_studies and len(cells) > 4:
            cells[4] = re.sub(r"\d+([.,]\d+)*(e-\d+)?", "#", cells[4])
    return "\n".join(map(" | ".join, rows))


def test_every_link_leads_somewhere() -> None:
    others = ["CHANGELOG.md", "benchmarks/README.md", ".github/CONTRIBUTING.md"]
    for page in [*PAGES, *(ROOT / name for name in others)]:
        for target, section in re.findall(r"\]\(([^)#:]*)#?([^):]*)\)", page.read_text()):
            linked = page.parent / (target or page.name)
            assert linked.exists(), f"{page.name}: {target}"
            assert not section or section in sections(linked), f"{page.name}: {target}#{section}"


def test_tests_that_pages_name_are_there() -> None:
    names = re.findall(r"(tests/\w+/\w+\.py) -k (\w+)", TEXTS["reproduction.md"])
    assert names
    for path, name in names:
        assert re.search(rf"def test_\w*{name}", (ROOT / path).read_text()), name


NUMBER = re.compile(r"[+-]?\d+\.\d\d\b(?: \[[^]]*\])?|\d+ % \[\d+, \d+\]|\d+ of \d+")
"""A number with its interval, or a count, as sentences quote them."""
RATE = re.compile(r"\d+\.\d(?= %)")
MADE = " ".join(PARTS.values())
TABLES = {
    "README.md": (NUMBER, MADE),
    "results.md": (NUMBER, MADE),
    "statistics.md": (RATE, (ROOT / "dev" / "simulated.md").read_text()),
}
"""Numbers to look for in the sentences of a page, and the tables where they stand."""


@pytest.mark.parametrize("page", TABLES)
def test_a_number_in_a_sentence_stands_in_a_table(page: str) -> None:
    pattern, made = TABLES[page]
    sentences = " ".join(MAKE["PART"].sub("", TEXTS[page]).split())
    numbers = pattern.findall(sentences)
    assert numbers
    assert not [number for number in numbers if number not in made]


def sections(page: Path) -> set[str]:
    """The anchors that GitHub gives the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def commands(page: str) -> list[str]:
    """Commands of attnexp in the shell blocks of a page, and in the tables of README."""
    blocks = "".join(re.findall(r"```sh\n(.*?)```", TEXTS[page], re.DOTALL))
    found = [line for line in blocks.splitlines() if line.startswith("attnexp ")]
    return found + re.findall(r"\| `(attnexp [^`]*)`", TEXTS[page] * (page == "README.md"))


IN_PAGES = [line for name in TEXTS for line in commands(name)]
MAKE_STUDIES = ["make", "--dry-run", "studies"]
PRINTED = subprocess.run(MAKE_STUDIES, cwd=ROOT, capture_output=True, text=True, check=True).stdout
STUDIES = re.findall(r"^\S*/(attnexp .*)$", PRINTED, re.MULTILINE)
COMMANDS = list(dict.fromkeys([*IN_PAGES, *STUDIES]))
FILES = {
    "class Decay": "decay.py",
    "def of_words": "pairs.py",
    "def label_smoothing": "smooth.py",
    "class Gru": "gru.py",
    "baseline: none": "mine.yaml",
}


def write_files(folder: Path) -> None:
    """The files of which docs/extending.md gives the content."""
    for text in re.findall(r"```\w+\n(.*?)```", TEXTS["extending.md"], re.DOTALL):
        for mark, name in FILES.items():
            if mark in text:
                (folder / name).write_text(text)


@pytest.mark.slow
def test_every_command_is_one(folder: Path, monkeypatch: Patch) -> None:
    """Every option and setting in a command exists, whether or not the data are there."""
    write_files(folder)
    monkeypatch.syspath_prepend(str(folder))
    known = get_command(app).commands  # type: ignore[attr-defined]
    for line in COMMANDS:
        _, name, *words = shlex.split(line, comments=True)
        given = known[name].make_context(name, words).params
        if name in ("train", "sweep", "config"):
            words = [*(given["overrides"] or []), "seed=0"]  # One seed will do.
            plan_tuning(words) if any(map(is_tuning, words)) else plan(words)
    assert len(COMMANDS) > 40


def made_small(name: str, words: list[str]) -> list[str]:
    """Words of a command with few texts, and embedded ones in place of IMDB."""
    if name in ("train", "sweep"):
        words = ["data=contrast", *words, *FEW]
    if name == "sweep":
        num_seeds = 7 if "--until" in words else 2  # Seven are the fewest that can decide.
        words += ["executor.workers=1", f"seed=range({num_seeds})"]
    return words


@pytest.mark.slow
def test_commands_of_the_pages_succeed_in_their_order(here: Command, tmp_path: Path) -> None:
    write_files(tmp_path)
    reviews = ["text,label"]
    for word in range(200):
        reviews += [f"{word} 但是好评,好评", f"{word} 但是差评,差评"]
    for file in ("reviews.csv", "other.csv"):
        (tmp_path / file).write_text("\n".join(reviews))
    results = ["variant,seed,accuracy"]
    for seed in range(6):
        results += [f"0,{seed},0.{8 - seed}0", f"1,{seed},0.{8 - seed}1"]
    (tmp_path / "results.csv").write_text("\n".join(results))
    lines = ["attnexp sweep study=blog", "attnexp sweep study=blog name=blog_contrast"]
    for page in ("README.md", "guide.md", "extending.md"):
        lines += commands(page)
    failed = {}
    for line in dict.fromkeys(lines):
        if ELSEWHERE.search(line):
            continue
        if "RUN" in line:
            newest = max(tmp_path.glob("outputs/runs/*-*"), key=os.path.getctime)
            line = line.replace("RUN", newest.name)
        _, name, *words = shlex.split(line, comments=True)
        done = here(name, *made_small(name, words))
        if done.returncode:
            failed[line] = done.stderr
    assert not failed


def test_pages_are_short() -> None:
    lines = {name: len(text.splitlines()) for name, text in TEXTS.items()}
    assert lines.pop("README.md") <= 100
    assert (len(lines) <= 10, sum(lines.values()) <= 1200) == (True, True), lines


def test_every_file_is_in_the_reading_order() -> None:
    (block,) = re.findall(r"```\n(cli/.*?)```", TEXTS["how_it_is_built.md"], re.DOTALL)
    listed = []
    for section in re.split(r"\n(?=\w)", block):
        folder = "" if section.startswith("api.py") else section.partition("/")[0] + "/"
        listed += [folder + name for name in re.findall(r"\w+\.py", section)]
    package = ROOT / "attnexp"
    files = [str(path.relative_to(package)) for path in package.rglob("[!_]*.py")]
    assert sorted(listed) == sorted(files)
