"""Splits of a data set: found in a folder, a file or a library by their names, then read."""

import hashlib
import io
import os
import re
import tarfile
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd  # noqa: TID253 - this module is imported where data are read
from numpy.typing import NDArray

from attnexp.base import progress
from attnexp.base.errors import UserError, join_names
from attnexp.config.schema import DataConfig, DataName
from attnexp.data.sources import FORMATS, REVIEWS
from attnexp.data.tables import convert_arrow, kind_of, read_rows

KERAS_NPZ = {"69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f"}
"""SHA-256 of the imdb.npz that Keras publishes. Any other would be a pickle from a stranger."""
REVIEW = re.compile(r"(?:.*/)?(train|test)/(neg|pos)/([^/.][^/]*)")  # split, side, file
NUMBERED = re.compile(r"(\d+)_\d+\.txt")  # number and rating
SHARD = re.compile(
    r"(?P<name>.+)-(?P<number>\d+)-of-0*(?P<total>\d+)(-[0-9a-f]{16})?(?P<ending>\.[^/]*)"
)
"""The name of one of several files of a split; `datasets` once added sixteen digits."""
SAVED = ("dataset_dict.json", "state.json")
"""Files of which `save_to_disk` of `datasets` writes one."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """Texts that are still to be read: of a file, of its shards, or of a split of a library."""

    readers: Mapping[str, Callable[[], pd.DataFrame]]  # functions that read, by names of files
    skipped: tuple[str, ...] = ()  # names of files that lie beside them and are not read


Splits = dict[str, Split]
"""Splits by the names that the data set has for them."""


def find_splits(path: Path, data: DataConfig, *, is_hub: bool) -> Splits:
    """The splits of a file or folder. is_hub: whether it is a data set of the hub, whose card
    says what its files are."""
    is_saved = any((path / name).exists() for name in SAVED)
    if is_hub or is_saved:
        return _find_in_datasets(str(path), data, is_saved=is_saved)
    return _find_in_folder(path, data) if path.is_dir() else _find_in_file(path, data)


def choose_splits(splits: Splits, source: str, data: DataConfig) -> Splits:
    """The splits for train, test and val, by these names. Raises `UserError` where one is not
    there, two are the same, or the files of one are no whole; test may be missing, and is then
    drawn from train."""
    chosen: Splits = {}
    for key, name in _name_splits(splits, source, data).items():
        split = _find_split(splits, name)
        if split is None:
            raise UserError(
                f"{source} has no split {name}, but {_list_names(splits)}. Name one: data=files "
                f"data.{key}_split=NAME. What can be read is {FORMATS}."
            )
        _check_shards(split, source, key)
        for earlier_key, earlier in chosen.items():
            if earlier.readers.keys() & split.readers.keys():
                raise UserError(
                    f"data.{key}_split={name} is the {earlier_key} split of {source} already. "
                    f"Name another split, or leave data.{key}_split out."
                )
        chosen[key] = split
    unused = _list_unused(splits, chosen)
    if unused:
        progress.note(f"Not read: {join_names(unused)}.")
    return chosen


def _name_splits(splits: Splits, source: str, data: DataConfig) -> dict[str, str]:
    """Names of the splits to read, by what they are for; none for test where it is to be drawn.
    Raises `UserError` for reviews of IMDB without a test split."""
    names = {"train": data.train_split}
    if data.test_split or "test" in splits:
        names["test"] = data.test_split or "test"
    elif data.name is DataName.imdb:
        raise UserError(
            f"{source} has no split test, but {_list_names(splits)}. With data=files one is drawn "
            f"from train. What can be read is {FORMATS}."
        )
    if data.val_split:
        names["val"] = data.val_split
    return names


def _list_names(splits: Splits) -> str:
    return join_names(sorted(splits)) or "nothing"


def _find_split(splits: Splits, name: str) -> Split | None:
    """The split of a name; else the file of this name, with or without its endings."""
    if name in splits:
        return splits[name]
    for name_of in (str, os.path.basename, stem_of):
        for split in splits.values():
            readers = {file: read for file, read in split.readers.items() if name_of(file) == name}
            if readers:
                return Split(readers=readers)
    return None


def _check_shards(split: Split, source: str, key: str) -> None:
    """Raise `UserError` unless a split is one file, or all shards of one."""
    files = list(split.readers)
    single_files = [file for file in files if not SHARD.fullmatch(file)]
    if single_files == files and len(files) == 1:
        return
    if not single_files and _is_complete(files):
        return
    hint = ""
    if single_files:
        hint = f" Or name one: data=files data.{key}_split={join_names(single_files[:1])}."
    raise UserError(
        f"{source}: {join_names(files)}: {len(files)} files are no whole split of one data set. "
        f"Keep one of them, or all shards of one ({key}-00000-of-00002, "
        f"{key}-00001-of-00002).{hint}"
    )


def _is_complete(files: Sequence[str]) -> bool:
    """Whether files named as shards are all those of one split."""
    sets = set()
    numbers = set()
    for file in files:
        shard = SHARD.fullmatch(file)
        assert shard is not None
        sets.add((shard["name"], shard["ending"], int(shard["total"])))
        numbers.add(int(shard["number"]))
    (_, _, total) = next(iter(sets))
    return len(sets) == 1 and len(numbers) == len(files) == total


def _list_unused(splits: Splits, chosen: Splits) -> list[str]:
    """Names of splits of which nothing is read, and of files left out of others."""
    used = {file for split in chosen.values() for file in split.readers}
    unused = []
    for name, split in splits.items():
        left_out = split.readers.keys() - used
        if left_out == split.readers.keys():
            unused.append(name)
        else:
            unused.extend(left_out)
    return sorted(unused)


def _find_in_folder(path: Path, data: DataConfig) -> Splits:
    """Reviews, or tables by split: by their names without a number, or else by their folders."""
    for folder in (path, path / "aclImdb"):
        if any(folder.glob(f"{REVIEWS}/*.txt")):
            files = [file for file in folder.glob(f"{REVIEWS}/*") if file.is_file()]
            return _sort_reviews((file.as_posix(), file.read_bytes()) for file in files)
    candidates = [*path.glob("*"), *path.glob("*/*")]
    files = sorted(file for file in candidates if kind_of(file) and file.is_file())
    if len(files) == 1 and not data.test_split:
        groups = {data.train_split: files}
    else:
        groups = _group_files(files, data.train_split)
    splits = {}
    for name, group in groups.items():
        readers = {
            str(file.relative_to(path)): partial(read_rows, file, has_header=data.header)
            for file in group
        }
        splits[name] = Split(readers=readers)
    return splits


def _group_files(files: Sequence[Path], train_split: str) -> dict[str, list[Path]]:
    """Files by split: by their names without a number, or by their folders where only those name
    train. A group of several files must turn out to be shards."""
    by_name = defaultdict[str, list[Path]](list)
    by_folder = defaultdict[str, list[Path]](list)
    for file in files:
        by_name[re.sub(r"[-_]\d.*", "", stem_of(file.name))].append(file)
        by_folder[file.parent.name].append(file)
    if train_split in by_folder and train_split not in by_name:
        return by_folder
    return by_name


def stem_of(file: str) -> str:
    """Name of a file without its folder and endings."""
    return Path(file).name.partition(".")[0]


def _find_in_file(path: Path, data: DataConfig) -> Splits:
    """A table, the archive of reviews, or Keras's ranks."""
    if kind_of(path):
        reader = partial(read_rows, path, has_header=data.header)
        return {data.train_split: Split(readers={path.name: reader})}
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
    """Reviews (Maas et al. 2011) by name, ordered as in the hub's parquet: by side and number.
    Files of other names in their folders are skipped."""
    texts: dict[tuple[str, str, int, str], str | None] = {}
    skipped = defaultdict[str, list[str]](list)
    for name, content in files:
        place = REVIEW.fullmatch(name)
        if place is None:
            continue
        split, side, file = place.groups()
        number = NUMBERED.fullmatch(file)
        key = (split, side, int(number[1]) if number else 0, file)
        if number is None or key in texts:
            skipped[split].append(f"{split}/{side}/{file}")
        else:
            texts[key] = content.decode() or None
    rows = [(split, side, text) for (split, side, *_), text in sorted(texts.items())]
    groups = pd.DataFrame(rows, columns=["split", "label", "text"]).groupby("split")
    return {
        split: Split(
            readers={f"{split}/neg and {split}/pos": partial(groups.get_group, split)},
            skipped=tuple(sorted(skipped[split])),
        )
        for split in groups.groups
    }


def _find_in_keras(path: Path) -> Splits:
    """Ranks of words, as Keras publishes them. Raises `UserError` for any other file."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest not in KERAS_NPZ:
        raise UserError(
            f"{path} is in no known format. Give {FORMATS} as Keras publishes it: its SHA-256 is "
            f"{digest}."
        )
    splits = {}
    with np.load(io.BytesIO(content), allow_pickle=True) as arrays:
        for split in ("train", "test"):
            reader = partial(_make_table_of_ranks, arrays[f"x_{split}"], arrays[f"y_{split}"])
            splits[split] = Split(readers={f"{split} of {path.name}": reader})
    return splits


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
    return {
        name: Split(readers={f"split {name}": partial(_read_dataset, dataset)})
        for name, dataset in sets.items()
    }


def _read_dataset(dataset: Any) -> pd.DataFrame:
    return convert_arrow(dataset.with_format("arrow")[:])
