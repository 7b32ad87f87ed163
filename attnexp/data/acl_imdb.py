"""IMDB as its authors publish it (Maas et al. 2011): a file a review, in a folder or a tar.gz."""

import gzip
import hashlib
import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from attnexp.base.errors import UserError
from attnexp.data.corpus import SPLITS, Corpus, corpus

SIDES = ("neg", "pos")  # a side's index is its label
FOLDERS = [f"{split}/{side}" for split in SPLITS for side in SIDES]
REVIEW = re.compile(r"(?:.*/)?(train|test)/(neg|pos)/(\d+)_\d+\.txt")


def key_of_folder(folder: Path) -> str:
    """SHA-256, in hex, of the names and contents of all reviews; of 50,000 in 1.5 s of a core."""
    digest = hashlib.sha256()
    for name, content in _files(folder):
        digest.update(f"{name} {len(content)} ".encode() + content)
    return digest.hexdigest()


def read_folder(folder: Path) -> Corpus:
    """Every review under `folder/{train,test}/{neg,pos}`."""
    return _from_review_files(_files(folder), folder)


def _files(folder: Path) -> Iterator[tuple[str, bytes]]:
    """Name and content of every text file in the four folders."""
    for name in FOLDERS:
        for file in sorted(os.listdir(folder / name)):
            if file.endswith(".txt"):
                yield f"{name}/{file}", Path(folder, name, file).read_bytes()


def read_archive(path: Path) -> Corpus:
    """Every review in the tar.gz, in one pass and without unpacking it."""

    def files() -> Iterator[tuple[str, bytes]]:
        # tarfile's own gzip stream takes a truncated file for the end of the archive; GzipFile
        # checks the sum at its end, which the last read reaches
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if member.isfile() and REVIEW.fullmatch(member.name):
                    yield member.name, cast(IO[bytes], archive.extractfile(member)).read()
            while stream.read(1 << 20):
                pass

    return _from_review_files(files(), path)


def _from_review_files(files: Iterable[tuple[str, bytes]], where: Path) -> Corpus:
    """The corpus in the order of the hub's parquet: negatives, then positives, by file number."""
    texts: dict[tuple[str, int, int, str], str] = {}
    for name, content in files:
        if not (match := REVIEW.fullmatch(name)):
            continue
        if not content:
            raise UserError(f"{name} in {where} is empty (0 bytes). Unpack the archive again.")
        try:
            text = content.decode()
        except UnicodeDecodeError as error:
            raise UserError(
                f"{name} in {where} is not UTF-8 text (byte {error.start}). Save it as UTF-8."
            ) from None
        split, side, number = match.groups()
        texts[split, SIDES.index(side), int(number), name.rpartition("/")[2]] = text
    halves: dict[str, tuple[list[str], list[int]]] = {split: ([], []) for split in SPLITS}
    for (split, label, *_), text in sorted(texts.items()):
        halves[split][0].append(text)
        halves[split][1].append(label)
    return corpus(halves, where)
