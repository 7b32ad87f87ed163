"""What README.md and docs/ say is what the commands in them say now."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
PART = re.compile(r"<!-- made by: (.+?) -->\n(.*?)<!-- end -->", re.DOTALL)
PARTS = {how: text for page in PAGES for how, text in PART.findall(page.read_text())}


@pytest.mark.parametrize(
    "how",
    [pytest.param(how, marks=() if how[0] == "$" else pytest.mark.slow) for how in PARTS],
)
def test_a_part_is_what_its_command_makes(how: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "docs" / "make.py", "--print", how], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    if how == "claims":  # what was measured moves with the machine, down to rounding
        assert [row.split(" | ")[::5] for row in done.stdout.splitlines()] == [
            row.split(" | ")[::5] for row in PARTS[how].splitlines()
        ]
    else:
        assert done.stdout == PARTS[how]


def test_every_link_leads_somewhere() -> None:
    pages = [*PAGES, ROOT / "benchmarks" / "README.md"]
    for page in pages:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_first_page_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200
