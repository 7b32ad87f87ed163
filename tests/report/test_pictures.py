"""Pictures as files: they stand alone, on white and on black, and are the same every time."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import Command, Refused
from samples import blog, contrast_ratio, made, only

from attnexp.base.errors import UserError
from attnexp.report import canvas, pictures

SVG = "{http://www.w3.org/2000/svg}"


def drawn(path: Path, show: str, *, others: tuple[str, ...] = ("pe",)) -> bytes:
    pictures.write(path, show, [], only(blog(others=others)))
    return path.read_bytes()


@pytest.mark.parametrize("show", ["curves", "forest"])
@pytest.mark.parametrize(
    ("kind", "start"), [("svg", b"<?xml"), ("pdf", b"%PDF"), ("png", b"\x89PNG")]
)
def test_a_file_is_the_same_every_time(tmp_path: Path, show: str, kind: str, start: bytes) -> None:
    one = drawn(tmp_path / f"one.{kind}", show)
    assert one.startswith(start)
    assert drawn(tmp_path / f"other.{kind.upper()}", show) == one


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


def test_colours_are_legible_on_white_and_on_black() -> None:
    colours = canvas.FILE
    for colour, least in [(colours.ink, 4.5), (colours.muted, 4.5)] + [
        (c, 3) for c in colours.series
    ]:
        for ground in ("#ffffff", "#000000"):
            assert contrast_ratio(colour, ground) >= least, (colour, ground)


def test_any_name_of_a_variant_stands_in_the_key(tmp_path: Path) -> None:
    text = drawn(tmp_path / "a.svg", "curves", others=("_under", "a$b$", "<i>&", *"cdef")).decode()
    said = [e.text for e in ElementTree.fromstring(text).iter(f"{SVG}text")]
    for name in ("_under", "a$b$", "<i>&", *"cdef"):
        assert f"{name}, n = 3" in said


def test_the_command_offers_what_can_be_drawn(attnexp: Command) -> None:
    refused = attnexp("report", ".", "--show", "nothing").stderr
    assert set(re.findall(r"'(\w+)'", refused)) == {"nothing", *pictures.SHOWN}


def test_what_cannot_be_drawn_is_told(tmp_path: Path) -> None:
    alone = only([made("a", 0)])
    many = only([made(f"v{i}", 0, "model.heads=4") for i in range(pictures.MAX_VARIANTS + 1)])
    mean = [made("a", 0, "model=mean")]
    for name, show, compared, runs, told in [
        ("a.gif", "curves", alone, [], ".svg, .pdf, .png"),
        ("no/such/a.svg", "curves", alone, [], "--figure FILE"),
        ("a.svg", "forest", alone, [], "no variant shares a seed"),
        ("a.svg", "curves", many, [], "a smaller study"),
        ("a.svg", "attention", alone, mean, "--run RUN_DIR"),
    ]:
        with pytest.raises(UserError, match=told):
            pictures.write(tmp_path / name, show, runs, compared)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_report_draws_a_study_and_one_of_its_models(
    attnexp: Command, refused: Refused, tmp_path: Path
) -> None:
    done = attnexp("train", "experiment=smoke", "data.limit_train=64", "data.limit_test=64",
                   "position=sinusoidal")  # fmt: skip
    assert done.returncode == 0, done.stderr
    (run_dir,) = (tmp_path / "outputs/runs").glob("*-*")
    for show in ("curves", "attention", "positions"):
        done = attnexp("report", "outputs/runs", "--figure", f"{show}.svg", "--show", show)
        assert (done.returncode, done.stdout) == (0, ""), done.stderr
        assert (tmp_path / f"{show}.svg").is_file()
    words = ["--show", "attention", "--run", str(run_dir), "--text", "the plot was frabjous"]
    done = attnexp("report", "outputs/runs", "--figure", "mine.svg", *words)
    assert done.returncode == 0, done.stderr
    assert "frabjous?" in (tmp_path / "mine.svg").read_text()
    for words, told in [
        (["--text", "good"], "--html FILE"),
        (["--html", "a.html", "--text", " "], "no text to read"),
        (["--html", "a.html", *["--run", str(run_dir)] * 3], "got 3 with --run"),
        (["--figure", "a.svg", "--show", "forest"], "--show curves"),
        (["--figure", "a.bmp"], ".svg, .pdf, .png"),
        (["--show", "forest"], "--figure FILE"),
        (["--figure", "a.svg", "--run", str(run_dir)], "--show attention"),
    ]:
        assert told in refused("report", "outputs/runs", *words)
