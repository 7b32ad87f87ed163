"""Pretrained vectors: read rightly, refused with a reason."""

import gzip
from pathlib import Path

import pytest
import torch

from attnexp.base.errors import UserError
from attnexp.data.vectors import load_vectors

WORDS = ["good", "unheard", "the", "3", "no\u00a0one"]
EXPECTED = torch.tensor([[1, 2, 3], [0, 0, 0], [0.5, -1, 0.2], [0, 0, 0], [4, 5, 6]])
GLOVE = b"the 0.5 -1 2e-1\ngood 1 2 3\nno\xc2\xa0one 4 5 6\n"


def test_rows_follow_the_vocabulary_and_missing_words_are_zeros(tmp_path: Path) -> None:
    (tmp_path / "glove.txt").write_bytes(GLOVE)
    fasttext = b"3 3\ncaf\xe9 7 8 9\n" + GLOVE.replace(b"\n", b" \n")  # a header, a stray byte
    (tmp_path / "vec.gz").write_bytes(gzip.compress(fasttext))
    for name in ("glove.txt", "vec.gz"):
        vectors = load_vectors(str(tmp_path / name), WORDS, 3)
        assert torch.equal(vectors.rows, EXPECTED)
        assert vectors.coverage == pytest.approx(3 / 5)
        assert load_vectors(str(tmp_path / name), WORDS[:3], 3).fingerprint == "cd07b4df3010d019"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"gut 1 2 3\n", "no finite numbers for any of good, unheard, the"),
        (b"good 1 2 nan\n", "no finite numbers"),
        (b"good 1 2\n", "invalid for input of size 2"),
        (None, "No such file"),
    ],
)
def test_what_is_wrong_is_said(tmp_path: Path, content: bytes | None, said: str) -> None:
    if content:
        (tmp_path / "glove.txt").write_bytes(content)
    with pytest.raises(UserError, match=rf"model.vectors=.* cannot be used: .*{said}"):
        load_vectors(str(tmp_path / "glove.txt"), WORDS, 3)
