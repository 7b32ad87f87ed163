"""Splits of a data set: found in a folder, a file or a library by their names, and read later."""

import hashlib
import io
import os
import re
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
import pandas as pd  # noqa: TID253 - this module is imported where data are read

from attnexp.base import progress
from attnexp.base.errors import UserError, join_names
from attnexp.config.schema import DataConfig, DataName
from attnexp.data.sources import FORMATS, REVIEWS
from attnexp.data.tables import convert_arrow, kind_of

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


Files = dict[str, Path]
"""Files by their names."""


class Split(NamedTuple):
    """Texts of one split by the names of their files."""

    files: Mapping[str, Path | pd.DataFrame]  # a path is still to be read
    skipped: Sequence[str] = ()  # names of files that lie beside them and are not read


Splits = Mapping[str, Split]
"""Splits by the names that the data set has for them."""


def find_splits(path: Path, data: DataConfig, *, is_hub: bool) -> Splits:
    """The splits of a file or folder. is_hub: whether it is a data set of the hub, whose card
    says what its files are."""
    is_saved = any((path / name).exists() for name in SAVED)
    if is_hub or is_saved:
        return _find_in_datasets(str(path), data, is_saved=is_saved)
    if path.is_dir():
        return _find_reviews(path) or _find_tables(path, data)
    if kind_of(path):
        return {data.train_split: Split({path.name: path})}
    if tarfile.is_tarfile(path):
        return _find_reviews(path)
    return _find_in_keras(path)


def choose_splits(splits: Splits, source: str, data: DataConfig) -> Splits:
    """The splits for train, test and val, by these names. Raises `UserError` where one is not
    there, two are the same, or the files of one are no whole."""
    names = {"train": data.train_split, "test": data.test_split, "val": data.val_split}
    if "test" in splits or data.name is DataName.imdb:  # else it is drawn from train
        names["test"] = data.test_split or "test"
    chosen = {}
    key_of_file: dict[str, str] = {}
    for key, name in names.items():
        if not name:
            continue
        chosen[key] = _find_split(splits, name, key, source)
        for file in chosen[key].files:
            if file in key_of_file:
                raise UserError(
                    f"data.{key}_split={name} is the {key_of_file[file]} split of {source} "
                    f"already. Name another split, or leave data.{key}_split out."
                )
            key_of_file[file] = key
    files = {file for split in splits.values() for file in split.files}
    unused = files - key_of_file.keys()
    if unused:
        progress.note(f"Not read: {join_names(sorted(unused))}.")
    return chosen


def _find_split(splits: Splits, name: str, key: str, source: str) -> Split:
    """The split of a name; else the file of this name, with or without its folder and endings."""
    if name in splits:
        files = list(splits[name].files)
        if name not in files and not _is_whole(files):
            raise UserError(
                f"{source}: {join_names(files)}: {len(files)} files are no whole split of one data "
                f"set. Keep one of them, or all shards of one ({key}-00000-of-00002, "
                f"{key}-00001-of-00002). Or name one: data=files data.{key}_split={files[0]}."
            )
        return splits[name]
    for split in splits.values():
        for file, rows in split.files.items():
            if name in (file, os.path.basename(file), stem_of(file)):
                return Split({file: rows})
    raise UserError(
        f"{source} has no split {name}, but {join_names(sorted(splits)) or 'nothing'}. Name one: "
        f"data=files data.{key}_split=NAME. With data=files, a test split that is not there is "
        f"drawn from train. What can be read is {FORMATS}."
    )


def _is_whole(files: Sequence[str]) -> bool:
    """Whether files are one that is no shard, or all shards of one."""
    sets = set()
    numbers = set()
    for file in files:
        shard = SHARD.fullmatch(file)
        if shard is None:
            return len(files) == 1
        total = int(shard["total"])
        sets.add((shard["name"], shard["ending"], total))
        numbers.add(int(shard["number"]))
    return len(sets) == 1 and len(numbers) == len(files) == total


def _find_tables(path: Path, data: DataConfig) -> Splits:
    """Tables of a folder by split: by their names without a number, or by their folders where only
    those name train. A split of several files must turn out to be shards."""
    tables: Files = {}
    by_name = defaultdict[str, Files](dict)
    by_folder = defaultdict[str, Files](dict)
    files = [*path.glob("*"), *path.glob("*/*")]
    for file in sorted(files):
        name = str(file.relative_to(path))
        is_hidden = any(part[0] in "._" for part in file.relative_to(path).parts)  # as __MACOSX
        if kind_of(file) and file.is_file() and not is_hidden:
            stem = re.sub(r"[-_]\d.*", "", stem_of(name))
            tables[name] = file
            by_name[stem][name] = file
            by_folder[file.parent.name][name] = file
    groups = by_name
    if data.train_split in by_folder and data.train_split not in by_name:
        groups = by_folder
    if len(tables) == 1 and not data.test_split:
        return {data.train_split: Split(tables)}
    return {name: Split(group) for name, group in groups.items()}


def stem_of(file: str) -> str:
    """Name of a file without its folder and endings."""
    return os.path.basename(file).partition(".")[0]


def _read_reviews(path: Path) -> Iterable[tuple[str, bytes]]:
    """Names and contents of the files of an archive, or of the reviews of an aclImdb folder, or of
    a folder with one."""
    if path.is_dir():
        for pattern in REVIEWS:
            for file in filter(Path.is_file, path.glob(pattern)):
                yield file.as_posix(), file.read_bytes()
        return
    with tarfile.open(path) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content is not None:
                yield member.name, content.read()


def _find_reviews(path: Path) -> Splits:
    """Reviews (Maas et al. 2011) by name, ordered as in the hub's parquet: by side and number.
    Files of other names in their folders are skipped."""
    place = ["split", "label", "number", "file"]
    reviews = []
    skipped = defaultdict[str, list[str]](list)
    for name, content in _read_reviews(path):
        match = REVIEW.fullmatch(name)
        if match is None:
            continue
        split, side, file = match.groups()
        number = NUMBERED.fullmatch(file)
        if number is None:
            skipped[split].append(f"{split}/{side}/{file}")
        else:
            try:
                text = content.decode() or None
            except UnicodeDecodeError as error:
                raise UserError(f"{name} is not UTF-8 ({error}). Convert or remove it.") from None
            reviews.append((split, side, int(number[1]), file, text))
    frame = pd.DataFrame(reviews, columns=[*place, "text"])
    # an archive may hold a file twice: the last one counts
    frame = frame.drop_duplicates(place, keep="last").sort_values(place)
    splits = {}
    for split in sorted({*frame["split"], *skipped}):
        name = f"{split}/neg and {split}/pos"
        rows = frame[frame["split"] == split]
        splits[split] = Split({name: rows}, sorted(skipped[split]))
    return splits


def _find_in_keras(path: Path) -> Splits:
    """Ranks of words, as Keras publishes them. Raises `UserError` for any other file."""
    content = path.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    if digest not in KERAS_NPZ:
        raise UserError(
            f"{path} is in no known format. Unpack it if it is a zip archive. Give {FORMATS} as "
            f"Keras publishes it: its SHA-256 is {digest}."
        )
    splits = {}
    # the bytes that were hashed, for the file may have changed since
    with np.load(io.BytesIO(content), allow_pickle=True) as arrays:
        for split in ("train", "test"):
            texts = [np.array(ranks, np.int32) for ranks in arrays[f"x_{split}"]]
            labels = arrays[f"y_{split}"]
            rows = pd.DataFrame({"text": texts, "label": labels})
            splits[split] = Split({f"{split} of {path.name}": rows})
    return splits


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
    if not isinstance(content, dict):
        content = {data.train_split: content}
    splits = {}
    for name, dataset in content.items():
        rows = convert_arrow(dataset.with_format("arrow")[:])
        splits[name] = Split({f"split {name}": rows})
    return splits
