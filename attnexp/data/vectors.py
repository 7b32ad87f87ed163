"""Pretrained word vectors from a local text file, as GloVe, word2vec and fastText publish them.

Shapes: V words, D model width.
"""

import gzip
import hashlib
import logging
import ssl
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from attnexp import progress
from attnexp.data.corpus import told
from attnexp.errors import UserError

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
    """Of the file's content."""

    @property
    def coverage(self) -> float:
        """Share of the vocabulary that was found."""
        return self.found.double().mean().item()


def load_vectors(path: str, words: Sequence[str], d_model: int, *, cache: Path) -> Vectors:
    """The vectors of `words` in a file.

    Reading a big file takes torchtext a while, so what it read is kept under `cache`, keyed by the
    file's content. Raises `UserError` if there is no such file, it does not hold vectors D wide,
    or it knows none of the words.
    """
    file = Path(path).expanduser().absolute()
    if not words:
        raise UserError(
            f"The vectors in {file} belong to words, but the reviews hold word ranks only (Keras's "
            f"imdb.npz). Use a copy of the reviews as text, or train without vectors."
        )
    if not file.is_file():
        raise UserError(f"There is no file {file}. Give {FORM}.")
    with told(file), file.open("rb") as content:
        fingerprint = hashlib.file_digest(content, "sha256").hexdigest()[:16]
    vectors = _read(file, d_model, cache / "vectors" / fingerprint)
    if vectors.dim != d_model:  # a file read before, under another width
        raise _wrong_width(file, vectors.dim, d_model)

    row_of = torch.tensor([vectors.stoi.get(word, -1) for word in words])
    found = row_of >= 0
    if not found.any():
        raise UserError(
            f"{file} has none of the vocabulary's {len(words)} words ({_some(words)}); its own are "
            f"{_some(vectors.itos)}. Give vectors of the same language, in lower case."
        )
    rows = torch.zeros(len(words), d_model)
    rows[found] = vectors.vectors[row_of[found]]
    strange = ~rows.isfinite().all(dim=-1)
    if strange.any():
        raise UserError(
            f"In {file} the vector of {words[int(strange.nonzero()[0])]!r} is not all finite "
            f"numbers ({int(strange.sum())} such words). Remove their lines, or fetch it again."
        )
    return Vectors(rows=rows, found=found, fingerprint=fingerprint)


def _read(file: Path, d_model: int, folder: Path) -> Any:
    """The `torchtext.vocab.Vectors` of a file, from the cache where it is there and whole."""
    try:
        from torchtext import vocab
    except (ImportError, OSError) as error:  # torchtext 0.18 fails to load beside a newer torch
        raise UserError(
            f"Pretrained vectors need torchtext, which does not load here ({error}). Install the "
            f"release that was tested: pip install 'torchtext>=0.6,<0.7'."
        ) from error
    kept = folder / f"{file.name}.pt"  # the name torchtext gives it
    if kept.exists():
        try:
            with _kept_to_itself(vocab):
                return vocab.Vectors(str(file), cache=str(folder))
        except Exception as error:  # a damaged pickle may raise anything
            progress.note(f"The cache file {kept} is damaged ({error}); reading {file} again.")
    with told(file):
        _check_lines(file, d_model)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Written aside and renamed, so that another process never finds half a file.
        with TemporaryDirectory(dir=folder) as aside, _kept_to_itself(vocab):
            vectors = vocab.Vectors(str(file), cache=aside)
            (Path(aside) / kept.name).replace(kept)
    except ValueError as error:  # names what is no number
        raise UserError(
            f"{file} has a line that is no vector: {error}. Mend or remove it."
        ) from None
    except (OSError, RuntimeError) as error:  # torch.save raises either on a full disk
        raise UserError(
            f"The vectors read from {file} cannot be kept in {folder} ({error}). Make room there, "
            f"or set ATTNEXP_CACHE to another folder."
        ) from None
    return vectors


def _check_lines(file: Path, d_model: int) -> None:
    """Raise `UserError` for what torchtext would take silently, tell badly, or tell late."""
    width = 0
    with gzip.open(file) if file.suffix == ".gz" else file.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            columns = line.rstrip().count(b" ")
            if number == 1 and columns == 1:
                continue  # the header of word2vec and fastText: how many words, how wide
            if not width:
                width = columns
                if not _is_vector(line):
                    raise UserError(f"{file} does not hold word vectors as text. Give {FORM}.")
                if width != d_model:
                    raise _wrong_width(file, width, d_model)
                if width < 3:
                    raise UserError(
                        f"{file} holds vectors of {width} numbers, but torchtext takes anything "
                        f"below 3 for a header. Give wider vectors."
                    )
            elif columns != width:
                raise UserError(
                    f"Line {number} of {file} holds {columns} numbers, but the lines before it "
                    f"{width}. Mend or remove that line, or fetch the file again."
                )
    if not width:
        raise UserError(f"{file} is empty: it holds no vector. Give {FORM}.")


def _is_vector(line: bytes) -> bool:
    """A word, then one number or more."""
    _, *numbers = line.rstrip().split(b" ")
    try:
        return len([float(number) for number in numbers]) > 0
    except ValueError:
        return False


def _wrong_width(file: Path, width: int, d_model: int) -> UserError:
    return UserError(
        f"{file} holds vectors of {width} numbers, but model.d_model={d_model}. Set "
        f"model.d_model={width}, or give vectors of {d_model}."
    )


def _some(words: Sequence[str]) -> str:
    return ", ".join(map(repr, words[:3])) + (", ..." if len(words) > 3 else "")


@contextmanager
def _kept_to_itself(vocab: Any) -> Iterator[None]:
    """Hold back what torchtext does to everybody else.

    Reading any vectors turns off the check of TLS certificates for the whole process; and a bar
    and log lines of its own go to stderr.
    """
    https, bar, level = ssl._create_default_https_context, vocab.tqdm, vocab.logger.level
    vocab.tqdm = partial(progress.track, label="reading vectors")
    vocab.logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        ssl._create_default_https_context, vocab.tqdm = https, bar
        vocab.logger.setLevel(level)
