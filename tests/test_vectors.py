"""Pretrained vectors: read rightly, kept apart, refused with a reason."""

import gzip
import os
import ssl
import sys
from pathlib import Path

import pytest
import torch

from attnexp.data.vectors import load_vectors
from attnexp.errors import UserError

GLOVE = "the 0.5 -1 2e-1\ngood 1 2 3\nno\u00a0one 4 5 6\n"
WORDS = ["good", "unheard", "the"]
EXPECTED = torch.tensor([[1, 2, 3], [0, 0, 0], [0.5, -1, 0.2]])


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    path = tmp_path / "given" / "glove.txt"
    path.parent.mkdir()
    path.write_text(GLOVE)
    return path


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "kept"


def load(path: Path, cache: Path, words: list[str] = WORDS, d_model: int = 3) -> torch.Tensor:
    """Rows of what was found, zeros elsewhere, checked."""
    vectors = load_vectors(str(path), words, d_model, cache=cache)
    rows, found = vectors.rows, vectors.found
    assert vectors.coverage == found.float().mean()
    assert rows.dtype == torch.float32
    assert rows.shape == (len(words), d_model)
    assert found.dtype == torch.bool
    assert found.tolist() == rows.any(dim=-1).tolist()
    return rows


def test_rows_follow_the_vocabulary_and_missing_words_are_zeros(glove: Path, cache: Path) -> None:
    assert torch.equal(load(glove, cache), EXPECTED)


def test_a_second_load_reads_the_cache_and_leaves_the_file_alone(
    glove: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = load(glove, cache)
    monkeypatch.setattr("attnexp.data.vectors._check_lines", pytest.fail)  # it reads the lines
    assert torch.equal(load(glove, cache), first)
    assert os.listdir(glove.parent) == ["glove.txt"]
    assert glove.read_text() == GLOVE
    assert [path.name for path in cache.rglob("*.pt*")] == ["glove.txt.pt"]


def test_changed_content_is_noticed(glove: Path, cache: Path) -> None:
    load(glove, cache)
    times = glove.stat()
    glove.write_text(GLOVE.replace("1 2 3", "3 2 1"))
    os.utime(glove, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert load(glove, cache)[0].tolist() == [3, 2, 1]


@pytest.mark.parametrize("damage", [b"", b"rubbish", None])
def test_a_damaged_cache_is_made_again(
    glove: Path, cache: Path, damage: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    load(glove, cache)
    (kept,) = cache.rglob("*.pt")
    kept.write_bytes(kept.read_bytes()[:-20] if damage is None else damage)
    assert torch.equal(load(glove, cache), EXPECTED)
    assert "is damaged" in capsys.readouterr().err
    assert torch.equal(load(glove, cache), EXPECTED)
    assert capsys.readouterr().err == ""


def test_the_header_of_word2vec_and_fasttext_is_no_word(glove: Path, cache: Path) -> None:
    lines = [line + " \n" for line in GLOVE.splitlines()]  # fastText ends lines with a space
    glove.write_text("3 3\n" + "".join(lines))
    assert torch.equal(load(glove, cache), EXPECTED)
    with pytest.raises(UserError, match="has none of the vocabulary's 1 words"):
        load(glove, cache, ["3"])


def test_gzip_is_read_as_it_is(glove: Path, cache: Path) -> None:
    packed = glove.with_suffix(".txt.gz")
    packed.write_bytes(gzip.compress(GLOVE.encode()))
    assert torch.equal(load(packed, cache), EXPECTED)


def test_a_word_may_hold_a_no_break_space_and_a_stray_byte_is_passed_over(
    glove: Path, cache: Path
) -> None:
    glove.write_bytes(b"caf\xe9 7 8 9\n" + GLOVE.encode())
    assert load(glove, cache, ["no\u00a0one"]).tolist() == [[4, 5, 6]]


def test_the_home_folder_may_be_written_short(
    glove: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(glove.parent))
    assert torch.equal(load(Path("~/glove.txt"), cache), EXPECTED)


def test_torchtext_says_nothing_and_changes_nothing_outside(
    glove: Path,
    cache: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    glove.write_text("3 3\n" + GLOVE)  # torchtext warns of headers
    monkeypatch.setattr(ssl, "_create_default_https_context", ssl.create_default_context)
    for _ in range(2):
        load(glove, cache)
    assert ssl._create_default_https_context is ssl.create_default_context
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "is empty: it holds no vector"),
        ("3 3\n", "is empty: it holds no vector"),
        ("\n", "does not hold word vectors as text"),
        ("\x00\x01\x02 \xff \x00\n", "does not hold word vectors as text"),
        ("a review of some length\n", "does not hold word vectors as text"),
        ("the\t1\t2\t3\n", "does not hold word vectors as text"),
        ("the 1 2 3 4\n", r"vectors of 4 numbers, but model.d_model=3. Set model.d_model=4"),
        ("3 4\nthe 1 2 3 4\n", "vectors of 4 numbers, but model.d_model=3"),
        (GLOVE + "bad 1 2\n", r"Line 4 of .* holds 2 numbers, but the lines before it 3"),
        (GLOVE + "at home 1 2 3\n", r"Line 4 of .* holds 4 numbers, but the lines before it 3"),
        (GLOVE + "lone 1\n", r"Line 4 of .* holds 1 numbers, but the lines before it 3"),
        (GLOVE + "\n", r"Line 4 of .* holds 0 numbers, but the lines before it 3"),
        (GLOVE + "bad 1 2 three\n", r"a line that is no vector: .*three"),
        ("gut 1 2 3\n", r"none of the vocabulary's 3 words \('good', 'unheard', 'the'\).* 'gut'"),
        ("the 1 2 nan\n", r"the vector of 'the' is not all finite numbers \(1 such words\)"),
        ("the 1 2 1e99\n", "the vector of 'the' is not all finite numbers"),
    ],
)
def test_what_is_wrong_with_the_file_is_said_and_nothing_is_kept(
    glove: Path, cache: Path, content: str, message: str
) -> None:
    glove.write_bytes(content.encode("latin-1" if "\xff" in content else "utf-8"))
    for _ in range(2):  # a cache, once made, changes no message
        with pytest.raises(UserError, match=message) as raised:
            load(glove, cache)
        assert str(glove) in str(raised.value)
    assert os.listdir(glove.parent) == ["glove.txt"]


def test_another_width_is_told_from_the_cache_too(glove: Path, cache: Path) -> None:
    load(glove, cache)
    with pytest.raises(UserError, match=r"vectors of 3 numbers, but model.d_model=128"):
        load(glove, cache, d_model=128)


def test_vectors_too_narrow_for_torchtext_are_refused(glove: Path, cache: Path) -> None:
    glove.write_text("the 1 2\n")
    with pytest.raises(UserError, match="below 3 for a header"):
        load(glove, cache, d_model=2)


def test_a_missing_file_a_folder_and_broken_gzip_are_refused(glove: Path, cache: Path) -> None:
    for path in (glove.with_name("nowhere.txt"), glove.parent):
        with pytest.raises(UserError, match=f"There is no file {path}"):
            load(path, cache)
    broken = glove.with_suffix(".gz")
    for content in (b"no gzip", gzip.compress(GLOVE.encode())[:-12]):
        broken.write_bytes(content)
        with pytest.raises(UserError, match="is damaged or incomplete"):
            load(broken, cache)


def test_reviews_of_ranks_have_no_words_to_look_up(glove: Path, cache: Path) -> None:
    with pytest.raises(UserError, match="word ranks only"):
        load(glove, cache, [])


def test_a_cache_that_cannot_be_written_is_told(glove: Path, cache: Path) -> None:
    cache.write_text("a file stands where the folder should be")
    with pytest.raises(UserError, match="ATTNEXP_CACHE"):
        load(glove, cache)


def test_without_torchtext_the_message_names_the_release(
    glove: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torchtext", None)
    with pytest.raises(UserError, match=r"torchtext>=0\.6,<0\.7"):
        load(glove, cache)
