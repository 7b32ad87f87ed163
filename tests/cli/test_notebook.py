"""What Python and notebooks get: the page that shows it, and what they see."""

import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from conftest import ROOT

import attnexp
from attnexp import compare, compose, judge, load_runs
from attnexp.base.errors import UserError
from attnexp.cli import app

(TEN_LINES,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "notebook.md").read_text(), re.S)
IN_JUPYTER = """
import builtins
class ZMQInteractiveShell: ...
builtins.get_ipython = ZMQInteractiveShell
"""


@pytest.mark.slow
def test_the_page_works_in_a_notebook(tmp_path: Path) -> None:
    """The page's lines train and compare, without a bar, where `rich` sees a notebook."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", IN_JUPYTER + TEN_LINES],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {line.split()[0] for line in done.stderr.splitlines()} == {"epoch"}
    assert "\x1b" not in done.stderr
    assert re.search(r"position=sinusoidal against position=none, final: \w+: ", done.stdout)


def test_the_package_has_the_names_it_lists_and_no_others() -> None:
    assert {*attnexp.__all__} < {*dir(attnexp)}
    assert all(callable(getattr(attnexp, name)) for name in attnexp.__all__)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        attnexp.trian  # type: ignore[attr-defined]  # noqa: B018


def test_words_and_lists_of_words_compose_alike() -> None:
    words = ["position=rotary", "seed=3"]
    assert compose(*words) == compose(words) == compose(words[0], words[1:])


RESULTS = pd.DataFrame(
    {"variant": ["a"] * 6 + ["b"] * 6, "seed": [*range(6)] * 2, "loss": [2.0] * 6 + [1.5, 1] * 3}
)


def test_what_is_shown_is_what_the_command_prints(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results.csv"
    RESULTS.to_csv(path, index=False)
    app(["judge", str(path), "--lower", "loss", "--margin", "0.01"], standalone_mode=False)
    printed = capsys.readouterr().out
    for given in (RESULTS, str(path)):
        judged = judge(given, lower="loss", margin=["0.01"])
        assert judged[0].differences["b"]["result"].judgements["loss"].verdict == "helps"
        assert repr(judged) == printed
    html = judged._repr_html_()
    assert "helps" in html
    assert "<script" not in html


def test_wrong_places_are_reported(tmp_path: Path) -> None:
    for ask in (load_runs, compare):
        with pytest.raises(UserError, match="There is no folder"):
            ask(tmp_path / "nowhere")
        with pytest.raises(UserError, match="no finished run"):
            ask(str(tmp_path))
    with pytest.raises(UserError, match="The frame has no column variant, no column seed"):
        judge(pd.DataFrame({"loss": [1.0]}))
    with pytest.raises(UserError, match="The frame has no results"):
        judge(RESULTS[:0])
