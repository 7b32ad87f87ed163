"""Pretrained vectors: read rightly, refused with a reason."""

import gzip
from pathlib import Path

import pytest
import torch

from attnexp.base.errors import UserError
from attnexp.data.vectors import load_vectors

GLOVE = "the 0.5 -1 2e-1\ngood 1 2 3\nno\u00a0one 4 5 6\n"
WORDS = ["good", "unheard", "the"]
EXPECTED = [[1, 2, 3], [0, 0, 0], [0.5, -1, 0.2]]


@pytest.fixture
def glove(tmp_path: Path) -> Path:
    path = tmp_path / "glove.txt"
    path.write_text(GLOVE)
    return path


def test_rows_follow_the_vocabulary_and_missing_words_are_zeros(glove: Path) -> None:
    vectors = load_vectors(str(glove), WORDS, 3)
    assert torch.equal(vectors.rows, torch.tensor(EXPECTED))
    assert vectors.found.tolist() == [True, False, True]
    assert vectors.coverage == pytest.approx(2 / 3)
    assert vectors.fingerprint == "cd07b4df3010d019"
    glove.write_text(GLOVE.replace("1 2 3", "3 2 1"))
    assert load_vectors(str(glove), WORDS, 3).fingerprint != vectors.fingerprint


def test_headers_stray_bytes_and_gzip_are_understood(
    glove: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(glove.parent))
    lines = [f"{line} \n" for line in GLOVE.splitlines()]  # fastText ends lines with a space
    content = b"3 3\ncaf\xe9 7 8 9\n" + "".join(lines).encode()
    (glove.parent / "glove.gz").write_bytes(gzip.compress(content))
    vectors = load_vectors("~/glove.gz", [*WORDS, "3", "no\u00a0one"], 3)
    assert torch.equal(vectors.rows, torch.tensor([*EXPECTED, [0, 0, 0], [4, 5, 6]]))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"gut 1 2 3\n", "no finite numbers for any of good, unheard, the"),
        (b"good 1 2 nan\n", "no finite numbers"),
        (b"good 1 2 three\n", "three"),
        (b"good 1 2\n", "invalid for input of size 2"),
    ],
)
def test_what_is_wrong_with_the_file_is_said(glove: Path, content: bytes, said: str) -> None:
    glove.write_bytes(content)
    with pytest.raises(
        UserError, match=f"model.vectors={glove} cannot be used: .*{said}"
    ) as raised:
        load_vectors(str(glove), WORDS, 3)
    assert "model.d_model=3" in str(raised.value)


def test_a_missing_file_is_said(glove: Path) -> None:
    with pytest.raises(UserError, match=r"nowhere\.txt cannot be used: .*No such file"):
        load_vectors(str(glove.with_name("nowhere.txt")), WORDS, 3)
