"""Pretrained word vectors from a local text file, as GloVe, word2vec and fastText publish them.

Shapes: V words, D model width.
"""

import gzip
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from attnexp.base.errors import UserError
from attnexp.data.cache import cache_dir, code_digests, load_or_compute
from attnexp.data.corpus import as_user_error

FORM = (
    "word vectors as text (GloVe, or fastText's .vec): on every line a word and its numbers, "
    "parted by single spaces. Unpack a .zip first; .gz is read as it is"
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Vectors:
    """Vectors of a vocabulary's words."""

    rows: Tensor
    """(V, D) float32; 0 where a word was not found."""
    found: Tensor
    """(V,) bool."""
    fingerprint: str
    """Sixteen hex digits that change with any of these numbers, whatever file they came from."""

    @property
    def coverage(self) -> float:
        """Share of the vocabulary that was found."""
        return self.found.double().mean().item()


def load_vectors(path: str, words: Sequence[str], d_model: int) -> Vectors:
    """Vectors of `words` from a file, cached by the file's content, the words and the code.

    Raises `UserError` if there is no such file, it does not hold vectors D wide, or it knows none
    of the words.
    """
    file = Path(path).expanduser().absolute()
    if not words:
        raise UserError(
            f"The vectors in {file} belong to words, but the data hold word ranks only (Keras's "
            f"imdb.npz). Use a copy of the texts, or train without vectors."
        )
    if not file.is_file():
        raise UserError(f"There is no file {file}. Give {FORM}.")
    with as_user_error(file), file.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    about = json.dumps([code_digests(), digest, d_model, *words])
    key = hashlib.sha256(about.encode()).hexdigest()[:16]
    rows, found = load_or_compute(
        cache_dir() / "vectors" / f"{key}.npz",
        read=_read_cache,
        make=lambda: _read_text(file, words, d_model),
        write=lambda cache, made: np.savez(cache, rows=made[0].numpy(), found=made[1].numpy()),
    )
    fingerprint = hashlib.sha256(rows.numpy().tobytes() + found.numpy().tobytes()).hexdigest()[:16]
    return Vectors(rows=rows, found=found, fingerprint=fingerprint)


def _read_text(file: Path, words: Sequence[str], d_model: int) -> tuple[Tensor, Tensor]:
    """Rows of `Vectors`, and which were found. The last line of a word counts."""

    def no_vector(why: str) -> UserError:
        return UserError(
            f"Line {number} of {file} is no vector: {why}. Mend or remove that line, set "
            f"model.d_model to the width of the vectors, or give another file: {FORM}."
        )

    row_of = {word.encode(): row for row, word in enumerate(words)}
    rows, found = torch.zeros(len(words), d_model), torch.zeros(len(words), dtype=torch.bool)
    known: list[str] = []
    with as_user_error(file), gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            word, _, numbers = line.rstrip().partition(b" ")
            if number == 1 and word.isdigit() and numbers.isdigit():
                continue  # the header of word2vec and fastText: how many words, how wide
            width = numbers.count(b" ") + 1 if numbers else 0
            if width != d_model:
                raise no_vector(f"it holds {width} numbers, but model.d_model={d_model}")
            if len(known) < 3:
                known.append(word.decode(errors="replace"))
            if (row := row_of.get(word)) is not None:
                try:
                    rows[row] = torch.tensor([float(one) for one in numbers.split(b" ")])
                except ValueError as error:
                    raise no_vector(str(error)) from None
                if not rows[row].isfinite().all():
                    raise no_vector("not all its numbers are finite")
                found[row] = True
    if not known:
        raise UserError(f"{file} is empty: it holds no vector. Give {FORM}.")
    if not found.any():
        raise UserError(
            f"{file} has none of the vocabulary's {len(words)} words, which begin with "
            f"{', '.join(words[:3])}; its own begin with {', '.join(known)}. Give vectors of the "
            f"same language, in lower case."
        )
    return rows, found


def _read_cache(path: Path) -> tuple[Tensor, Tensor]:
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        return torch.from_numpy(arrays["rows"]), torch.from_numpy(arrays["found"])
