"""What README.md and docs/ say is what the commands in them say now."""

import re
import runpy
import shlex
import subprocess
from pathlib import Path

import pytest
from conftest import Command
from typer.main import get_command

from attnexp.claims.table import CLAIMS
from attnexp.cli import app
from attnexp.config.options import groups
from attnexp.sweeps.plan import plan
from attnexp.sweeps.tuning import is_tuning, plan_tuning

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXTENDING = ROOT / "docs" / "extending.md"
MAKE = runpy.run_path(str(ROOT / "docs" / "make.py"))
PARTS = {part[1]: part[2] for page in PAGES for part in MAKE["PART"].findall(page.read_text())}


@pytest.mark.parametrize(
    "how",
    [pytest.param(how, marks=() if how[0] == "$" else pytest.mark.slow) for how in PARTS],
)
def test_a_part_is_what_its_command_makes(
    how: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if how.startswith("$ attnexp"):  # here, where all is imported
        monkeypatch.chdir(ROOT)
        command, _, rest = how.partition(" | ")
        app(shlex.split(command)[2:], standalone_mode=False)
        words, out = shlex.split(rest) or ["cat"], capsys.readouterr().out
        out = subprocess.run(words, input=out, capture_output=True, text=True, check=True).stdout
        lines = out.strip("\n").splitlines()
        made = "\n```\n" + "\n".join(map(str.rstrip, lines)) + "\n```\n\n"
    else:
        made = MAKE["made"](how)
    written = PARTS[how]
    if how == "claims":
        made, written = comparable(made), comparable(written)
    assert made == written


@pytest.mark.slow
@pytest.mark.parametrize(
    ("picture", "words"),
    [
        ("blog.svg", "report {study} --figure blog.svg"),
        ("data.svg", "report {data} {study} --figure data.svg --show forest"),
    ],
)
def test_pictures_are_those_of_the_published_runs(
    attnexp: Command, tmp_path: Path, picture: str, words: str
) -> None:
    names = {"study": "blog", "data": "blog_data"}
    given = {key: ROOT / "outputs" / "published" / name for key, name in names.items()}
    done = attnexp(*words.format(**given).split())
    assert done.returncode == 0, done.stderr
    assert (tmp_path / picture).read_bytes() == (ROOT / "docs" / picture).read_bytes()


TIMED = ("C18", "C23")


def comparable(claims: str) -> str:
    """What every machine makes of them: of figures those that come from published runs, and nothing
    where time was measured."""
    read = {claim.id for claim in CLAIMS if claim.study}
    rows = [line.split(" | ") for line in claims.splitlines()]
    for cells in rows:
        id = cells[0].removeprefix("| ")
        if id in TIMED:
            cells[3] = ""
        elif id not in read and len(cells) > 3:
            cells[3] = re.sub(r"\d+([.,]\d+)*(e-\d+)?", "#", cells[3])
    return "\n".join(map(" | ".join, rows))


def test_every_link_leads_somewhere() -> None:
    pages = [*PAGES, ROOT / "benchmarks" / "README.md"]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


COMMANDS = {
    line: page.name
    for page in PAGES
    for block in re.findall(
        r"```sh\n(.*?)```|((?:^    [^\n]+\n)+)", page.read_text(), re.DOTALL | re.M
    )
    for line in "".join(block).splitlines()
    if line.split()[:1] == ["attnexp"]
}
TABLE = (ROOT / "docs" / "what_it_does.md").read_text()
COMMANDS |= dict.fromkeys(re.findall(r"`(attnexp [a-z][^`]*)`", TABLE), "what_it_does.md")


def test_every_command_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every option and setting in a command exists, whether or not the data are there."""
    files = {"class Decay": "decay.py", "def of_words": "pairs.py", "baseline: none": "mine.yaml"}
    for text in re.findall(r"```\w+\n(.*?)```", EXTENDING.read_text(), re.DOTALL):
        for mark, name in files.items():
            if mark in text:
                (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    commands = get_command(app).commands  # type: ignore[attr-defined]
    for line in COMMANDS:
        _, name, *words = shlex.split(line, comments=True)
        given = commands[name].make_context(name, words).params
        if name in ("train", "sweep", "config"):
            words = given["overrides"] or []
            data = [word.removeprefix("data=") for word in words if word.startswith("data=")]
            assert {*",".join(data).split(",")} <= {"", *groups()["data"]}
            words = [re.sub("^(data=[^,]+),.*", r"\1", word) for word in words]  # one will do
            plan_tuning(words) if any(map(is_tuning, words)) else plan(words)
    assert len(COMMANDS) > 40


def test_the_first_page_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150
