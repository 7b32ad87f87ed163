"""Every format as it was, of one set of runs that has all there is to say.

After a change that is meant, `PYTHONPATH=tests python tests/report/test_formats.py` writes the
files in `golden/` anew: look at the difference.
"""

import re
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from samples import (
    MORE,
    SD,
    K,
    Parsed,
    blog,
    blog_like_k,
    but,
    crossed_runs,
    page,
    printed,
    renamed,
)

from attnexp.analysis.comparison import compare
from attnexp.report import formats
from attnexp.report.canvas import Picture
from attnexp.runs.result import Run

GOLDEN = Path(__file__).parent / "golden"


def runs(folder: Path) -> list[Run]:
    """K's experiment with figures of K's outside, two crossed factors on synthetic data, and
    another protocol, with labels that LaTeX would misread and a larger variant."""
    held_out = blog("train=holdout", others=("pe", "large"), seeds=2)
    sizes = {"large": 2_900_000}
    return [
        *blog_like_k(4, *K, moved=20 * SD),
        *crossed_runs(folder, more=MORE),
        *renamed(
            [but(run, parameters=sizes.get(run.label, 2_609_281)) for run in held_out],
            "50_% & #1 {}",
        ),
    ]


def text_of_page(found: list[Run]) -> str:
    """The text outside of pictures, a sentence or a cell a line."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Picture, "inline", lambda self, *, name, alt: "")
        html = page(found)
    html = re.sub(r"</(?:td|th|p|h\d|li|dt|dd|pre|caption|summary|tr)>", "\n", html)
    parts = Parsed(html).parts
    lines = "".join(parts).splitlines()
    return "\n".join(filter(None, (" ".join(line.split()) for line in lines)))


FORMATS: dict[str, Callable[[list[Run]], str]] = {
    "terminal.txt": printed,
    "tables.md": lambda found: formats.markdown(compare(found)),
    "figures.csv": lambda found: formats.as_csv(compare(found)),
    "tables.tex": lambda found: formats.latex(compare(found)),
    "comparison.json": lambda found: formats.as_json(compare(found[:8])),
    "page.txt": text_of_page,
}


def rendered(name: str, folder: Path) -> str:
    """A format, without this machine's last digits and folder."""
    text = FORMATS[name](runs(folder)).replace(str(folder), "FOLDER")
    return re.sub(r"-?\d+\.\d{7,}(e-?\d+)?", lambda number: f"{float(number[0]):.10g}", text) + "\n"


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_as_it_was(name: str, tmp_path: Path) -> None:
    text = rendered(name, tmp_path)
    assert text == (GOLDEN / name).read_text("utf-8")
    if name == "terminal.txt":
        assert max(map(len, text.splitlines())) <= 80


if __name__ == "__main__":
    for golden in FORMATS:
        with TemporaryDirectory() as folder:
            (GOLDEN / golden).write_text(rendered(golden, Path(folder)), "utf-8")
