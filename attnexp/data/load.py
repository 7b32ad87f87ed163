"""Load a data set from wherever it lies: files on disk, the Hugging Face cache, the hub.

Every way gives a table for each split; `load_corpus` takes two columns of them.
"""

import hashlib
import io
import os
import re
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import numpy as np
import pandas as pd  # noqa: TID253 - this module is imported where data are read

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import contrast, tables
from attnexp.data.corpus import Corpus, make_corpus, some

KERAS_NPZ = {"69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f"}
"""SHA-256 of the imdb.npz that Keras publishes. Any other would be a pickle from a stranger."""
REVIEW = re.compile(r"(?:.*/)?(train|test)/(neg|pos)/(\d+)_\d+\.txt")
"""A review of aclImdb: its split, side and number."""
DEADLINE = 5.0
"""Seconds the hub gets to answer a first request; the library's own retries take minutes."""
FORMATS = (
    "a csv, tsv, jsonl or parquet file, a folder of such files (train.csv, test.csv, or "
    "train-*.parquet as on the hub), what save_to_disk of `datasets` wrote, the aclImdb folder, "
    "aclImdb_v1.tar.gz, or Keras's imdb.npz"
)

T = TypeVar("T")
Frames = dict[str, pd.DataFrame]
"""Tables by split: train, test and val."""


def load_corpus(data: DataConfig) -> Corpus:
    """The data set that `data` names, read or, for `contrast`, generated.

    What is on no disk is downloaded from the hub. Raises `UserError`, which says what to do, when
    it is nowhere, in no known format, or not of labelled texts.
    """
    if data.name is DataName.contrast:
        return contrast.generate(data.order_fraction or 0.0)
    place, name = locate(data)
    path = snapshot(name) if place is None else Path(place).expanduser().absolute()
    if not path.exists():
        raise UserError(f"{name}={place} does not exist. Give {FORMATS}.")
    try:
        if place is None:
            source, frames = f"hub: {name}@{path.name[:12]}", _of_datasets(path, data)
        else:
            kind, frames = (_of_folder if path.is_dir() else _of_file)(path, data)
            # no result names a folder of this machine where the environment does
            source = f"{kind} {name if name.startswith('$') else path}"
        columns = tables.choose_columns([*frames["train"]], source, data.text, data.label)
        parts = [
            frame[columns].set_axis(["text", "label"], axis=1).astype(object).assign(split=split)
            for split, frame in frames.items()
        ]
    except UserError:
        raise
    except Exception as error:  # of pandas, datasets, tarfile and others, with no base in common
        raise UserError(
            f"{path} cannot be read ({' '.join(str(error).split())[:300]}). Where it has several "
            f"configurations, choose one: data.config=NAME. Where it is damaged, fetch it again."
        ) from error
    if columns not in ([data.text, data.label], ["text", "label"]):
        progress.note(f"Column {some(columns[:1])} is the text, {some(columns[1:])} the label.")
    rows = pd.concat(parts, ignore_index=True)
    return make_corpus(rows.where(rows.notna(), None), source, data.test_share)


def locate(data: DataConfig) -> tuple[str | None, str]:
    """The file or folder to read and what names it: `data.path`, for IMDB `$ATTNEXP_IMDB`, or the
    folder of this name in `$ATTNEXP_DATA`; or else None and the name of a data set of the hub."""
    here = {"data.path": data.path} if data.name is not DataName.hub else {}
    if data.name is DataName.imdb:
        here["$ATTNEXP_IMDB"] = os.environ.get("ATTNEXP_IMDB")
    home = os.environ.get("ATTNEXP_DATA")
    if home and (place := Path(home).expanduser() / data.name).exists():
        here[f"$ATTNEXP_DATA/{data.name}"] = str(place)
    for name, path in here.items():
        if path is not None:
            return path, name
    return None, "stanfordnlp/imdb" if data.name is DataName.imdb else data.hub or data.path or ""


def snapshot(name: str) -> Path:
    """Folder, named by its commit, of a data set of the hub: from its cache, else downloaded."""
    from huggingface_hub import HfApi, constants, snapshot_download

    with suppress(Exception):  # not in the cache, or no name that the hub could have
        return Path(snapshot_download(name, repo_type="dataset", local_files_only=True))
    try:
        HfApi().dataset_info(name, timeout=DEADLINE)
        return Path(snapshot_download(name, repo_type="dataset"))
    except Exception as error:  # two libraries and what they stand on: no common base
        raise UserError(
            f"Data set {name} is not in the Hugging Face cache and cannot be fetched from "
            f"{constants.ENDPOINT} ({' '.join(str(error).split())[:300]}). Check its name, and try "
            f"again when online (HF_ENDPOINT names a mirror). Or give a copy as data.path=PATH, "
            f"$ATTNEXP_IMDB or $ATTNEXP_DATA/NAME: {FORMATS}. Or do without: data=contrast, the "
            f"embedded corpus."
        ) from error


def _choose(found: Mapping[str, T], where: Path, data: DataConfig) -> dict[str, T]:
    """What was found for train, test and val. Raises `UserError` where a split is not there."""
    names = {"train": data.train_split, "test": data.test_split or "test", "val": data.val_split}
    for split, name in names.items():
        needed = split != "test" or data.test_split or data.name is DataName.imdb
        if name and name not in found and needed:
            raise UserError(
                f"{where} has no split {name}, but {some(sorted(found)) or 'nothing'}. Name one: "
                f"data=files data.{split}_split=NAME. What can be read is {FORMATS}."
            )
    if ignored := found.keys() - names.values():
        progress.note(f"Not read: {some(sorted(ignored))}.")
    return {split: found[name] for split, name in names.items() if name in found}


def _of_folder(path: Path, data: DataConfig) -> tuple[str, Frames]:
    """Kind and tables of a folder of reviews, of a saved data set, or of tables."""
    for folder in (path, path / "aclImdb"):
        if reviews := [*folder.glob("t*/[np][eo][gs]/*.txt")]:
            files = ((file.relative_to(folder).as_posix(), file.read_bytes()) for file in reviews)
            return "aclImdb folder", _choose(_acl_imdb(files), path, data)
    if _is_saved(path):
        return "saved data set in", _of_datasets(path, data)
    chosen = _choose(_by_split(path, data), path, data)
    for split, files in chosen.items():
        homes = {f"{file.parent}/*.{tables.kind_of(file)}" for file in files}
        wanted = re.search(r"-of-0*(\d+)", files[0].name)
        if len(homes) > 1 or (wanted and int(wanted[1]) != len(files)):
            raise UserError(
                f"{path}: the {len(files)} files of {split} are no whole set: "
                f"{some(sorted(homes))}. Give one data set, with all its parts."
            )
    return f"{tables.kind_of(chosen['train'][0])} files in", {
        split: pd.concat(map(tables.read_rows, files), ignore_index=True)
        for split, files in chosen.items()
    }


def _by_split(path: Path, data: DataConfig) -> dict[str, list[Path]]:
    """Tables in a folder by split: by their names without a number, or else by their folders."""
    found = (*path.glob("*"), *path.glob("*/*"))
    files = sorted(file for file in found if tables.kind_of(file) and file.is_file())
    if len(files) == 1 and not data.test_split:
        return {data.train_split: files}
    by_name, by_folder = defaultdict(list), defaultdict(list)
    for file in files:
        by_name[re.sub(r"[-_]\d.*", "", file.name.partition(".")[0])].append(file)
        by_folder[file.parent.name].append(file)
    return by_folder if data.train_split in by_folder.keys() - by_name.keys() else by_name


def _of_file(path: Path, data: DataConfig) -> tuple[str, Frames]:
    """Kind and tables of a table, of the archive of reviews, or of Keras's ranks."""
    if kind := tables.kind_of(path):
        return f"{kind} file", {"train": tables.read_rows(path)}
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            files = ((one.name, archive.extractfile(one)) for one in archive if one.isfile())
            reviews = _acl_imdb((name, file.read()) for name, file in files if file)
        return "aclImdb archive", _choose(reviews, path, data)
    content = path.read_bytes()
    if (digest := hashlib.sha256(content).hexdigest()) not in KERAS_NPZ:
        raise UserError(
            f"{path} is in no known format, and not the imdb.npz that Keras publishes (its SHA-256 "
            f"is {digest}; no other npz is read). Give {FORMATS}."
        )
    with np.load(io.BytesIO(content), allow_pickle=True) as arrays:
        ranks = {
            split: pd.DataFrame({
                "text": map(np.array, arrays[f"x_{split}"]), "label": arrays[f"y_{split}"]
            })
            for split in ("train", "test")
        }  # fmt: skip
    return "Keras's word ranks in", _choose(ranks, path, data)


def _acl_imdb(files: Iterable[tuple[str, bytes]]) -> Frames:
    """Reviews (Maas et al. 2011) by name, ordered as in the hub's parquet: by side and number."""
    texts = dict[tuple[str, str, int, str], str | None]()
    for name, content in files:
        if match := REVIEW.fullmatch(name):
            split, side, number = match.groups()
            texts[split, side, int(number), name.rpartition("/")[2]] = content.decode() or None
    rows = [(split, side, text) for (split, side, *_), text in sorted(texts.items())]
    return dict([*pd.DataFrame(rows, columns=["split", "label", "text"]).groupby("split")])


def _is_saved(folder: Path) -> bool:
    """Whether `save_to_disk` of `datasets` wrote the folder."""
    return any((folder / name).exists() for name in ("dataset_dict.json", "state.json"))


def _of_datasets(folder: Path, data: DataConfig) -> Frames:
    """Tables of a saved data set, or of one of the hub, which is read by its card."""
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    with TemporaryDirectory() as scratch:
        found = (
            datasets.load_from_disk(str(folder), keep_in_memory=True)
            if _is_saved(folder)
            else datasets.load_dataset(
                str(folder), data.config, cache_dir=scratch, keep_in_memory=True
            )
        )
    splits = found if isinstance(found, dict) else {data.train_split: found}
    chosen = _choose(splits, folder, data)
    return {split: tables.from_arrow(one.with_format("arrow")[:]) for split, one in chosen.items()}
