"""IMDB as its authors publish it (Maas et al. 2011): a file a review, in a folder or a tar.gz."""

import gzip
import hashlib
import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, cast

from attnexp.data.corpus import SPLITS, Corpus, corpus
from attnexp.errors import UserError

SIDES = ("neg", "pos")  # a side's index is its label
REVIEW = re.compile(r"(?:.*/)?(train|test)/(neg|pos)/(\d+)_\d+\.txt")


def is_acl_imdb(folder: Path) -> bool:
    """Whether there is any of the four folders of labelled reviews."""
    return any((folder / split / side).is_dir() for split in SPLITS for side in SIDES)


def key_of_folder(folder: Path) -> str:
    """From names, sizes and times: to read 50,000 files takes seconds."""
    lines = []
    for split in SPLITS:
        for side in SIDES:
            with os.scandir(folder / split / side) as entries:
                for entry in entries:
                    stat = entry.stat()
                    lines.append(f"{split}/{side}/{entry.name} {stat.st_size} {stat.st_mtime_ns}")
    return hashlib.sha256("\n".join(sorted(lines)).encode()).hexdigest()


def read_folder(folder: Path) -> Corpus:
    """Every review under `folder/{train,test}/{neg,pos}`."""

    def files() -> Iterator[tuple[str, bytes]]:
        for split in SPLITS:
            for side in SIDES:
                for path in (folder / split / side).glob("*.txt"):
                    yield f"{split}/{side}/{path.name}", path.read_bytes()

    return _from_review_files(files(), folder)


def read_archive(path: Path) -> Corpus:
    """The same from the tar.gz, in one pass and without unpacking it."""

    def files() -> Iterator[tuple[str, bytes]]:
        # tarfile's own gzip stream takes a truncated file for the end of the archive; GzipFile
        # raises, and checks the sum at the end, which the last read reaches.
        with gzip.open(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                if member.isfile() and REVIEW.fullmatch(member.name):
                    yield member.name, cast(IO[bytes], archive.extractfile(member)).read()
            while stream.read(1 << 20):
                pass

    return _from_review_files(files(), path)


def _from_review_files(files: Iterable[tuple[str, bytes]], where: Path) -> Corpus:
    """In the order of the hub's parquet: negatives, then positives, each by file number."""
    rows: dict[str, list[tuple[int, int, str]]] = {split: [] for split in SPLITS}
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
        rows[split].append((SIDES.index(side), int(number), text))
    halves = {
        split: ([text for *_, text in sorted(half)], [label for label, *_ in sorted(half)])
        for split, half in rows.items()
    }
    return corpus(halves, where)
