"""Pretrained word vectors from a local text file, as GloVe, word2vec and fastText publish them."""

import gzip
import hashlib
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

from attnexp.base.errors import UserError


class Vectors(NamedTuple):
    """Vectors of a vocabulary's V words, D wide."""

    rows: Tensor  # (V, D) float32; 0 for a word that the file does not have
    in_file: Tensor  # (V,) bool
    fingerprint: str  # sixteen hex digits of the whole file, whichever of its words are taken

    @property
    def coverage(self) -> float:
        """Share of the vocabulary that the file has."""
        return self.in_file.double().mean().item()


def load_vectors(path: str, words: Sequence[str], d_model: int) -> Vectors:
    """Vectors of `words` from a file of lines: a word, which may hold spaces, and its numbers.
    Raises `UserError` if it has none of the words, or not `d_model` finite numbers for each."""
    file = Path(path).expanduser()
    open_file: Any = gzip.open if file.suffix == ".gz" else open
    row_of = {word.encode(): row for row, word in enumerate(words)}
    rows = torch.zeros(len(words), d_model)
    in_file = torch.zeros(len(words), dtype=torch.bool)
    try:
        with open_file(file, "rb") as lines:
            digest = hashlib.sha256()
            width = -1  # No limit, until the first vector shows how many numbers a line has.
            for line_number, line in enumerate(lines, start=1):
                digest.update(line)
                word, *numbers = line.rstrip().rsplit(b" ", width)
                if line_number == 1 and len(numbers) == 1 and word.isdigit():
                    continue  # This header gives V and D.
                width = max(width, len(numbers))
                if word not in row_of:
                    continue
                vector = torch.tensor(list(map(float, numbers)))
                if len(vector) != d_model:
                    raise ValueError(f"set model.d_model={len(vector)}, as wide as its vectors")
                row = row_of[word]
                rows[row] = vector
                in_file[row] = True
        if not (in_file.any() & rows.isfinite().all()):
            raise ValueError(f"no word is {', '.join(words[:3])}, ..., or a number is not finite")
    except (OSError, EOFError, zlib.error, ValueError, RuntimeError) as error:
        raise UserError(
            f"model.vectors={path} cannot be used: {error}. Give word vectors as text (GloVe, or "
            f"fastText's .vec; also as .gz) of model.d_model={d_model} numbers each, for words of "
            f"this language in lower case."
        ) from error
    return Vectors(rows, in_file, digest.hexdigest()[:16])
