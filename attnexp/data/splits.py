"""Splits of a data set: found in a folder, a file or a library by their names, then read."""

import hashlib
import io
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd  # noqa: TID253 - this module is imported where data are read
from numpy.typing import NDArray

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import tables
from attnexp.data.corpus import SPLITS, join_names
from attnexp.data.sources import FORMATS

KERAS_NPZ = {"69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f"}
"""SHA-256 of the imdb.npz that Keras publishes. Any other would be a pickle from a stranger."""
REVIEW = re.compile(r"(?:.*/)?(train|test)/(neg|pos)/(\d+)_\d+\.txt")  # split, side, number
REVIEWS = "t*/[np][eo][gs]/*.txt"
SAVED = ("dataset_dict.json", "state.json")
"""Files of which `save_to_disk` of `datasets` writes one."""

Splits = dict[str, Callable[[], pd.DataFrame]]
"""Splits by the names that the data set has for them, each the function that reads its rows."""


def find_splits(path: Path, data: DataConfig, *, is_hub: bool) -> Splits:
    """The splits of a file or folder. is_hub: whether it is a data set of the hub, whose card
    says what its files are."""
    is_saved = any((path / name).exists() for name in SAVED)
    if is_hub or is_saved:
        return _find_in_datasets(str(path), data, is_saved=is_saved)
    return _find_in_folder(path, data) if path.is_dir() else _find_in_file(path, data)


def choose_splits(splits: Splits, source: str, data: DataConfig) -> Splits:
    """The splits for train, test and val, by these names. Raises `UserError` where one is not
    there; test may be missing, and is then drawn from train."""
    settings = (data.train_split, data.test_split or "test", data.val_split or "")
    name_of = dict(zip(SPLITS, settings, strict=True))
    for split, name in name_of.items():
        can_be_drawn = split == "test" and not data.test_split and data.name is not DataName.imdb
        if name and name not in splits and not can_be_drawn:
            raise UserError(
                f"{source} has no split {name}, but {join_names(sorted(splits)) or 'nothing'}. "
                f"Name one: data=files data.{split}_split=NAME. What can be read is {FORMATS}."
            )
    unused = splits.keys() - name_of.values()
    if unused:
        progress.note(f"Not read: {join_names(sorted(unused))}.")
    return {split: splits[name] for split, name in name_of.items() if name in splits}


def read_shards(files: Sequence[Path]) -> pd.DataFrame:
    """Rows of the files of a split, in their order. Raises `ValueError` where they are of several
    kinds or folders, or not as many as their names say."""
    kinds = {f"{file.parent}/*.{tables.kind_of(file)}" for file in files}
    count = re.search(r"-of-0*(\d+)", files[0].name)
    is_incomplete = count is not None and int(count[1]) != len(files)
    if len(kinds) > 1 or is_incomplete:
        listed = join_names(kinds)
        raise ValueError(f"{len(files)} files are no whole split of one data set: {listed}")
    return pd.concat([tables.read_rows(file) for file in files], ignore_index=True)


def _find_in_folder(path: Path, data: DataConfig) -> Splits:
    """Reviews, or tables by split: by their names without a number, or else by their folders."""
    for folder in (path, path / "aclImdb"):
        reviews = list(folder.glob(REVIEWS))
        if reviews:
            return _sort_reviews((file.as_posix(), file.read_bytes()) for file in reviews)
    candidates = [*path.glob("*"), *path.glob("*/*")]
    files = sorted(file for file in candidates if tables.kind_of(file) and file.is_file())
    if len(files) == 1 and not data.test_split:
        files_of_split = {data.train_split: files}
    else:
        files_of_split = _group_files(files, data.train_split)
    return {split: partial(read_shards, shards) for split, shards in files_of_split.items()}


def _group_files(files: Sequence[Path], train_split: str) -> dict[str, list[Path]]:
    """Files by split: by their names, or by their folders where only those name train."""
    by_name = defaultdict[str, list[Path]](list)
    by_folder = defaultdict[str, list[Path]](list)
    for file in files:
        by_name[split_of(file)].append(file)
        by_folder[file.parent.name].append(file)
    if train_split in by_folder and train_split not in by_name:
        return by_folder
    return by_name


def split_of(file: Path) -> str:
    """Name of the split that a file belongs to: that of the file, without endings and numbers."""
    stem = file.name.partition(".")[0]
    return re.sub(r"[-_]\d.*", "", stem)


def _find_in_file(path: Path, data: DataConfig) -> Splits:
    """A table, the archive of reviews, or Keras's ranks."""
    if tables.kind_of(path):
        return {data.train_split: partial(read_shards, [path])}
    if tarfile.is_tarfile(path):
        return _sort_reviews(_read_archive(path))
    return _find_in_keras(path)


def _read_archive(path: Path) -> Iterable[tuple[str, bytes]]:
    """Names and contents of the files of an archive."""
    with tarfile.open(path) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            if file is not None:
                yield member.name, file.read()


def _sort_reviews(files: Iterable[tuple[str, bytes]]) -> Splits:
    """Reviews (Maas et al. 2011) by name, ordered as in the hub's parquet: by side and number."""
    texts: dict[tuple[str, str, int, str], str | None] = {}
    for name, content in files:
        match = REVIEW.fullmatch(name)
        if match:
            split, side, number = match.groups()
            key = (split, side, int(number), name.rpartition("/")[2])
            texts[key] = content.decode() or None
    rows = [(split, side, text) for (split, side, *_), text in sorted(texts.items())]
    groups = pd.DataFrame(rows, columns=["split", "label", "text"]).groupby("split")
    return {split: partial(groups.get_group, split) for split in groups.groups}


def _find_in_keras(path: Path) -> Splits:
    """Ranks of words, as Keras publishes them. Raises `UserError` for any other file."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest not in KERAS_NPZ:
        raise UserError(
            f"{path} is in no known format. Give {FORMATS} as Keras publishes it: its SHA-256 is "
            f"{digest}."
        )
    with np.load(io.BytesIO(content), allow_pickle=True) as arrays:
        return {
            split: partial(_make_table_of_ranks, arrays[f"x_{split}"], arrays[f"y_{split}"])
            for split in ("train", "test")
        }


def _make_table_of_ranks(texts: NDArray[Any], labels: NDArray[Any]) -> pd.DataFrame:
    return pd.DataFrame({"text": map(np.array, texts), "label": labels})


def _find_in_datasets(path: str, data: DataConfig, *, is_saved: bool) -> Splits:
    """What `save_to_disk` of `datasets` wrote, or what the library reads by the hub's card."""
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    if is_saved:
        content = datasets.load_from_disk(path, keep_in_memory=True)
    else:
        with TemporaryDirectory() as cache:
            content = datasets.load_dataset(path, data.config, cache_dir=cache, keep_in_memory=True)
    sets = content if isinstance(content, dict) else {data.train_split: content}
    return {name: partial(_read_dataset, dataset) for name, dataset in sets.items()}


def _read_dataset(dataset: Any) -> pd.DataFrame:
    return tables.convert_arrow(dataset.with_format("arrow")[:])
