"""Pretrained vectors: read rightly, kept apart, refused with a reason."""

import gzip
import os
from pathlib import Path

import pytest
import torch

from attnexp.base.errors import UserError
from attnexp.data.cache import cache_dir
from attnexp.data.vectors import load_vectors

pytestmark = pytest.mark.usefixtures("_own_cache")

GLOVE = "the 0.5 -1 2e-1\ngood 1 2 3\nno\u00a0one 4 5 6\n"
WORDS = ["good", "unheard", "the"]
EXPECTED = torch.tensor([[1, 2, 3], [0, 0, 0], [0.5, -1, 0.2]])


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    path = tmp_path / "given" / "glove.txt"
    path.parent.mkdir()
    path.write_text(GLOVE)
    return path


def load(path: Path, words: list[str] = WORDS, d_model: int = 3) -> torch.Tensor:
    """Rows of what was found, zeros elsewhere, checked."""
    vectors = load_vectors(str(path), words, d_model)
    rows, found = vectors.rows, vectors.found
    assert vectors.coverage == found.float().mean()
    assert rows.dtype == torch.float32
    assert rows.shape == (len(words), d_model)
    assert found.dtype == torch.bool
    assert found.tolist() == rows.any(dim=-1).tolist()
    return rows


def test_rows_follow_the_vocabulary_and_missing_words_are_zeros(glove: Path) -> None:
    assert torch.equal(load(glove), EXPECTED)


def test_changed_content_is_noticed(glove: Path) -> None:
    load(glove)
    times = glove.stat()
    glove.write_text(GLOVE.replace("1 2 3", "3 2 1"))
    os.utime(glove, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert load(glove)[0].tolist() == [3, 2, 1]


def test_rows_are_kept_and_made_again_when_damaged(
    glove: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for note in ("", "is damaged", ""):
        assert torch.equal(load(glove), EXPECTED)
        assert note in capsys.readouterr().err if note else not capsys.readouterr().err
        (kept,) = cache_dir().rglob("*.npz")
        if not note:
            kept.write_bytes(kept.read_bytes()[:-20])


def test_the_header_of_word2vec_and_fasttext_is_no_word(glove: Path) -> None:
    lines = [line + " \n" for line in GLOVE.splitlines()]  # fastText ends lines with a space
    glove.write_text("3 3\n" + "".join(lines))
    assert torch.equal(load(glove), EXPECTED)
    with pytest.raises(UserError, match="has none of the vocabulary's 1 words"):
        load(glove, ["3"])


def test_a_word_may_hold_a_no_break_space_and_a_stray_byte_is_passed_over(glove: Path) -> None:
    glove.write_bytes(b"caf\xe9 7 8 9\n" + GLOVE.encode())
    assert load(glove, ["no\u00a0one"]).tolist() == [[4, 5, 6]]


def test_gzip_and_the_home_folder_written_short_are_understood(
    glove: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(glove.parent))
    glove.with_suffix(".txt.gz").write_bytes(gzip.compress(GLOVE.encode()))
    assert torch.equal(load(Path("~/glove.txt.gz")), EXPECTED)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty: it holds no vector"),
        ("3 3\n", "is empty: it holds no vector"),
        ("\n", "Line 1 of .* is no vector: it holds 0 numbers"),
        ("a review of some length\n", "it holds 4 numbers, but model.d_model=3"),
        ("the\t1\t2\t3\n", "Line 1 of .* is no vector: .*give another file: word vectors as text"),
        (
            "3 4\nthe 1 2 3 4\n",
            "Line 2 of .* is no vector: it holds 4 numbers, but model.d_model=3",
        ),
        (GLOVE + "bad 1 2\n", "Line 4 of .* is no vector: it holds 2 numbers"),
        (GLOVE + "at home 1 2 3\n", "Line 4 of .* is no vector: it holds 4 numbers"),
        (GLOVE + "lone 1\n", "Line 4 of .* is no vector: it holds 1 numbers"),
        (GLOVE + "\n", "Line 4 of .* is no vector: it holds 0 numbers"),
        (GLOVE + "unheard 1 2 three\n", "Line 4 of .* is no vector: .*three"),
        ("gut 1 2 3\n", "none of the vocabulary's 3 words, .* good, unheard, the; .* gut"),
        (GLOVE + "unheard 1 2 nan\n", "Line 4 of .* is no vector: not all .* finite"),
        ("the 1 2 1e99\n", "Line 1 of .* is no vector: not all .* finite"),
    ],
)
def test_what_is_wrong_with_the_file_is_said_and_nothing_is_kept(
    glove: Path, content: str, message: str
) -> None:
    glove.write_bytes(content.encode("latin-1" if "\xff" in content else "utf-8"))
    for _ in range(2):  # a cache, once made, changes no message
        with pytest.raises(UserError, match=message) as raised:
            load(glove)
        assert str(glove) in str(raised.value)
    assert os.listdir(glove.parent) == ["glove.txt"]


def test_another_width_is_told_from_the_cache_too(glove: Path) -> None:
    load(glove)
    with pytest.raises(UserError, match=r"it holds 3 numbers, but model.d_model=128"):
        load(glove, d_model=128)


def test_a_missing_file_a_folder_and_broken_gzip_are_refused(glove: Path) -> None:
    for path in (glove.with_name("nowhere.txt"), glove.parent):
        with pytest.raises(UserError, match=f"There is no file {path}"):
            load(path)
    broken = glove.with_suffix(".gz")
    for content in (b"no gzip", gzip.compress(GLOVE.encode())[:-12]):
        broken.write_bytes(content)
        with pytest.raises(UserError, match="is damaged or incomplete"):
            load(broken)


def test_reviews_of_ranks_have_no_words_to_look_up(glove: Path) -> None:
    with pytest.raises(UserError, match="word ranks only"):
        load(glove, [])
