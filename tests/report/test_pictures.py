"""Pictures as files: they stand alone, on white and on black, and are the same every time."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from conftest import Refused
from matplotlib import font_manager
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.transforms import Bbox
from samples import blog, contrast_ratio, exit_code, made, only, stored

from attnexp.base.errors import UserError
from attnexp.inspect import insight
from attnexp.report import canvas, figures, pictures
from attnexp.runs import store

SVG = "{http://www.w3.org/2000/svg}"


def drawn(path: Path, show: str, *, others: tuple[str, ...] = ("pe",)) -> bytes:
    pictures.write(path, show, [], only(blog(others=others)))
    return path.read_bytes()


@pytest.mark.parametrize(
    ("kind", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")]
)
def test_a_file_is_the_same_every_time(tmp_path: Path, kind: str, start: bytes) -> None:
    one = drawn(tmp_path / f"one.{kind}", "curves")
    assert one.startswith(start)
    assert drawn(tmp_path / f"other.{kind.upper()}", "curves") == one


@pytest.mark.parametrize("show", ["curves", "forest"])
def test_an_svg_says_what_it_shows_as_text_in_a_font_of_the_system(
    tmp_path: Path, show: str
) -> None:
    text = drawn(tmp_path / "a.svg", show).decode()
    said = " ".join(e.text or "" for e in ElementTree.fromstring(text).iter(f"{SVG}text"))
    assert "imdb, validated on test" in said
    assert ("no_pe, n = 3" if show == "curves" else "Accuracy minus no_pe's") in said
    assert "system-ui" in text
    assert "DejaVu" not in text
    assert "var(--" not in text
    assert not [colour for colour in canvas.THEME if colour in text]


def test_curves_show_the_metric_that_was_asked_for(tmp_path: Path) -> None:
    drawn = {}
    for metric in pictures.METRICS:
        pictures.write(tmp_path / "a.svg", "curves", [], only(blog()), metric=metric)
        drawn[metric] = said(tmp_path / "a.svg")
    assert [texts[0] for texts in drawn.values()] == [
        "Validation accuracy, %", "Validation loss, nats",
        "Train loss (running mean, dropout on), nats",
    ]  # fmt: skip
    assert len({tuple(texts) for texts in drawn.values()}) == len(drawn)


def test_no_line_runs_through_a_label_of_a_forest_plot() -> None:
    picture = figures.forest(only(blog(others=("a name that reaches far", "b", "c"))))
    figure = Figure(figsize=(picture.width / 72, picture.height / 72))
    picture.paint(figure, canvas.FILE)
    (axes,) = figure.axes
    lines = [np.asarray(line.get_xydata()) for line in axes.lines]
    lines += [path for c in axes.collections if isinstance(c, LineCollection)
              for path in c.get_segments()]  # fmt: skip
    assert any((line[:, 0] == 0).all() for line in lines)
    drawn = [axes.transData.transform(line) for line in lines]
    for label in [text.get_window_extent() for text in axes.texts]:
        for line in drawn:
            assert not label.overlaps(Bbox([line.min(axis=0), line.max(axis=0)]))


def test_colours_are_legible_on_white_and_on_black() -> None:
    colours = canvas.FILE
    for colour, least in [(colours.ink, 4.5), (colours.muted, 4.5)] + [
        (c, 3) for c in colours.series
    ]:
        for ground in ("#ffffff", "#000000"):
            assert contrast_ratio(colour, ground) >= least, (colour, ground)


def test_any_name_of_a_variant_stands_in_the_key(tmp_path: Path) -> None:
    others = ("_under", "a$b$", "<i>&", *"cdef", "a name that is too wide for a column")
    text = drawn(tmp_path / "a.svg", "curves", others=others).decode()
    said = [e.text for e in ElementTree.fromstring(text).iter(f"{SVG}text")]
    for name in others:
        assert f"{name}, n = 3" in said


def test_what_cannot_be_drawn_is_reported(tmp_path: Path) -> None:
    alone = only([made("a", 0)])
    many = only([made(f"v{i}", 0, "model.heads=4") for i in range(pictures.MAX_VARIANTS + 1)])
    mean = [made("a", 0, "model=mean")]
    for name, show, compared, runs, said in [
        ("a.gif", "curves", alone, [], ".svg, .pdf, .png"),
        ("no/such/a.svg", "curves", alone, [], "--figure FILE"),
        ("a.svg", "forest", alone, [], "no variant is paired with"),
        ("a.svg", "curves", many, [], "a smaller study"),
        ("a.svg", "attention", alone, mean, "--run RUN_DIR"),
    ]:
        with pytest.raises(UserError, match=said):
            pictures.write(tmp_path / name, show, runs, compared)
    assert not list(tmp_path.iterdir())


def attention(folder: Path, *, kind: str = "svg", sentence: str = "good", **asked: Any) -> Path:
    """A file with the attention of a model of two layers with two heads."""
    run = stored(folder / "run", "model.layers=2", "model.heads=2", "model.output_projection=true")
    alone = only([made("a", 0)])
    pictures.write(folder / f"a.{kind}", "attention", [run], alone, sentence=sentence, **asked)
    return folder / f"a.{kind}"


def said(svg: Path) -> list[str]:
    return [e.text or "" for e in ElementTree.parse(svg).iter(f"{SVG}text")]


def test_a_picture_of_attention_says_whose_it_is_and_what_it_leaves_out(tmp_path: Path) -> None:
    sentence = "the plot was frabjous"
    texts = said(attention(tmp_path, sentence=sentence))
    assert "Attention, mean of 2 heads, layer 1 of 2" in texts
    assert any(text.startswith("a, seed 0: ") for text in texts)
    assert {"key", "query", "frabjous?"} <= set(texts)
    (padding,) = (text for text in texts if text.startswith("Padding gets "))
    reading = insight.look(stored(tmp_path / "run", "model.layers=2", "model.heads=2",
                                  "model.output_projection=true"), sentence).reading  # fmt: skip
    assert reading is not None
    rows = reading.attention().mean.sum(axis=-1).mean()
    assert f" {100 * (1 - rows):.0f} % " in padding
    texts = said(attention(tmp_path, sentence=sentence, layer=2, head=1))
    assert "Attention, head 1 of 2, layer 2 of 2" in texts
    with pytest.raises(UserError, match="no head 3: the model has 1 to 2"):
        attention(tmp_path, head=3)
    with pytest.raises(UserError, match="no layer 0"):
        attention(tmp_path, layer=0)


def test_characters_that_the_font_lacks_are_drawn_with_an_installed_font(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A message names the characters, once, if no installed font has them."""
    has_script = Path(font_manager.findfont("STIXGeneral"))
    drawn = []
    for fonts in ([], [str(has_script)]):
        monkeypatch.setattr(font_manager, "findSystemFonts", lambda fonts=fonts: fonts)
        drawn.append(attention(tmp_path, kind="png", sentence="𝒜 𝒜").read_bytes())
        said = capsys.readouterr().err
        assert said.count("No installed font has 𝒜;") == (0 if fonts else 1)
    assert drawn[0] != drawn[1]
    attention(tmp_path, kind="svg", sentence="𝒜")
    assert capsys.readouterr().err == ""


def test_report_draws_a_study_and_one_of_its_models(tmp_path: Path, refused: Refused) -> None:
    root, figure = tmp_path / "runs", str(tmp_path / "a.svg")
    root.mkdir()
    run = stored(root / "a", "position=sinusoidal")
    store.save(run.path, run.result)
    for show in pictures.SHOWN:
        if show != "forest":
            assert (
                exit_code("report", root, "--figure", tmp_path / f"{show}.svg", "--show", show) == 0
            )
            assert (tmp_path / f"{show}.svg").is_file()
    of_run = ["--show", "attention", "--run", str(run.path), "--text", "the plot was frabjous"]
    assert exit_code("report", root, "--figure", figure, *of_run) == 0
    assert "frabjous?" in Path(figure).read_text()
    for words, said in [
        (["--text", "good"], "--html FILE"),
        (["--html", "a.html", "--text", " "], "no text to read"),
        (["--html", "a.html", *["--run", str(run.path)] * 3], "got 3 with --run"),
        (["--figure", figure, "--show", "forest"], "--show curves"),
        (["--figure", "a.bmp"], ".svg, .pdf, .png"),
        (["--show", "forest"], "--figure FILE"),
        (["--figure", figure, "--run", str(run.path)], "--show attention"),
        (["--figure", figure, "--head", "1"], "--show attention"),
        (["--metric", "loss"], "--show curves"),
        (["--show", "nothing"], "'positions'"),
    ]:
        assert said in refused("report", str(root), *words)
