"""Load a data set from wherever it lies: files on disk, the Hugging Face cache, the hub."""

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
from typing import Any

import numpy as np
import pandas as pd  # noqa: TID253 - this module is imported where data are read

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import contrast, tables
from attnexp.data.corpus import SPLITS, Corpus, make_corpus, some

KERAS_NPZ = {"69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f"}
"""SHA-256 of the imdb.npz that Keras publishes. Any other would be a pickle from a stranger."""
REVIEW = re.compile(r"(?:.*/)?(train|test)/(neg|pos)/(\d+)_\d+\.txt")  # split, side, number
DEADLINE = 5.0  # seconds for the hub's first answer; the library's own retries take minutes
FORMATS = (
    "a csv, tsv, jsonl or parquet file, a folder of such files (train.csv, test.csv, or "
    "train-*.parquet as on the hub), what save_to_disk of `datasets` wrote, the aclImdb folder, "
    "aclImdb_v1.tar.gz, or Keras's imdb.npz"
)

Parts = Mapping[str, Any]
"""Splits by their own names: each a table, a data set of `datasets`, or a list of files."""


def load_corpus(data: DataConfig) -> Corpus:
    """The data set that `data` names; what is on no disk is downloaded from the hub. Raises
    `UserError`, which says what to do, when it is nowhere, damaged, or not of labelled texts."""
    if data.name is DataName.contrast:
        return contrast.generate(data.order_fraction or 0.0)
    place, name = locate(data)
    path = snapshot(name) if place is None else Path(place).expanduser().absolute()
    if not path.exists():
        raise UserError(f"{name}={place} does not exist. Give {FORMATS}.")
    hub = f"hub: {name}@{path.name[:12]}"
    source = hub if place is None else name if name.startswith("$") else str(path)
    is_saved = any((path / about).exists() for about in ("dataset_dict.json", "state.json"))
    try:
        if place is None or is_saved:
            found = _of_datasets(str(path), data, is_saved=is_saved)
        else:
            found = (_of_folder if path.is_dir() else _of_file)(path, data)
        parts = {split: _read(part) for split, part in _choose(found, source, data).items()}
        columns = tables.choose_columns([*parts["train"]], source, data)
        rows = pd.concat([
            part.reindex(columns=columns).set_axis(["text", "label"], axis=1).astype(object)
            .assign(split=split)
            for split, part in parts.items()
        ], ignore_index=True)  # fmt: skip
    except UserError:
        raise
    except Exception as error:  # of pandas, datasets, tarfile and others, with no base in common
        raise UserError(
            f"{path} cannot be read ({' '.join(str(error).split())[:300]}). Where it has several "
            f"configurations, choose one: data.config=NAME. Where it is damaged, fetch it again."
        ) from error
    if columns not in ([data.text, data.label], ["text", "label"]):
        progress.note(f"Column {some(columns[:1])} is the text, {some(columns[1:])} the label.")
    return make_corpus(rows.where(rows.notna(), None), source, data.test_share)


def locate(data: DataConfig) -> tuple[str | None, str]:
    """The file or folder to read and what names it: `data.path`, for IMDB `$ATTNEXP_IMDB`, or the
    folder of this name in `$ATTNEXP_DATA`; or else None and the name of a data set of the hub."""
    if data.name is DataName.contrast:
        return "generated", "attnexp"
    if data.path is not None and data.name is not DataName.hub:
        return data.path, "data.path"
    if data.name is DataName.imdb and (place := os.environ.get("ATTNEXP_IMDB")):
        return place, "$ATTNEXP_IMDB"
    home = os.environ.get("ATTNEXP_DATA")
    folder = Path(home or "", data.name).expanduser()
    if home and data.name is not DataName.hub and folder.exists():
        return str(folder), f"$ATTNEXP_DATA/{data.name}"
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
            f"again when online (HF_ENDPOINT names a mirror). Or give data.path=PATH, "
            f"$ATTNEXP_IMDB or $ATTNEXP_DATA/NAME: {FORMATS}. Or do without: data=contrast."
        ) from error


def _choose(found: Parts, source: str, data: DataConfig) -> Parts:
    """The splits for train, test and val. Raises `UserError` where one is not there."""
    wanted = (data.train_split, data.test_split or "test", data.val_split or "")
    names = dict(zip(SPLITS, wanted, strict=True))
    for split, name in names.items():
        needed = split != "test" or data.test_split or data.name is DataName.imdb
        if name and name not in found and needed:
            raise UserError(
                f"{source} has no split {name}, but {some(sorted(found)) or 'nothing'}. Name one: "
                f"data=files data.{split}_split=NAME. What can be read is {FORMATS}."
            )
    if ignored := found.keys() - names.values():
        progress.note(f"Not read: {some(sorted(ignored))}.")
    return {split: found[name] for split, name in names.items() if name in found}


def _read(part: Any) -> pd.DataFrame:
    if isinstance(part, pd.DataFrame):
        return part
    if not isinstance(part, list):
        return tables.from_arrow(part.with_format("arrow")[:])
    kinds = {f"{file.parent}/*.{tables.kind_of(file)}" for file in part}
    wanted = re.search(r"-of-0*(\d+)", part[0].name)
    if len(kinds) > 1 or (wanted and int(wanted[1]) != len(part)):
        raise ValueError(f"{len(part)} files are no whole split of one data set: {some(kinds)}")
    return pd.concat(map(tables.read_rows, part), ignore_index=True)


def _of_folder(path: Path, data: DataConfig) -> Parts:
    """Reviews, or tables by split: by their names without a number, or else by their folders."""
    for folder in (path, path / "aclImdb"):
        if reviews := [*folder.glob("t*/[np][eo][gs]/*.txt")]:
            return _acl_imdb((file.as_posix(), file.read_bytes()) for file in reviews)
    inside = (*path.glob("*"), *path.glob("*/*"))
    files = sorted(file for file in inside if tables.kind_of(file) and file.is_file())
    if len(files) == 1 and not data.test_split:
        return {data.train_split: files}
    by_name, by_folder = defaultdict(list), defaultdict(list)
    for file in files:
        by_name[re.sub(r"[-_]\d.*", "", file.name.partition(".")[0])].append(file)
        by_folder[file.parent.name].append(file)
    return by_folder if data.train_split in by_folder.keys() - by_name.keys() else by_name


def _of_file(path: Path, data: DataConfig) -> Parts:
    """A table, the archive of reviews, or Keras's ranks."""
    if tables.kind_of(path):
        return {data.train_split: [path]}
    if tarfile.is_tarfile(path):
        with tarfile.open(path) as archive:
            files = ((one.name, archive.extractfile(one)) for one in archive if one.isfile())
            return _acl_imdb((name, file.read()) for name, file in files if file)
    content = path.read_bytes()
    if (digest := hashlib.sha256(content).hexdigest()) not in KERAS_NPZ:
        raise UserError(
            f"{path} is in no known format. Give {FORMATS} as Keras publishes it: its SHA-256 is "
            f"{digest}."
        )
    with np.load(io.BytesIO(content), allow_pickle=True) as arrays:
        columns = [(arrays[f"x_{split}"], arrays[f"y_{split}"]) for split in ("train", "test")]
    train, test = (pd.DataFrame({"text": map(np.array, x), "label": y}) for x, y in columns)
    return {"train": train, "test": test}


def _acl_imdb(files: Iterable[tuple[str, bytes]]) -> Parts:
    """Reviews (Maas et al. 2011) by name, ordered as in the hub's parquet: by side and number."""
    texts = dict[tuple[str, str, int, str], str | None]()
    for name, content in files:
        if match := REVIEW.fullmatch(name):
            split, side, number = match.groups()
            texts[split, side, int(number), name.rpartition("/")[2]] = content.decode() or None
    rows = [(split, side, text) for (split, side, *_), text in sorted(texts.items())]
    return dict([*pd.DataFrame(rows, columns=["split", "label", "text"]).groupby("split")])


def _of_datasets(path: str, data: DataConfig, *, is_saved: bool) -> Parts:
    """What `save_to_disk` of `datasets` wrote, or what the library reads by the hub's card."""
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    if is_saved:
        found = datasets.load_from_disk(path, keep_in_memory=True)
    else:
        with TemporaryDirectory() as scratch:
            found = datasets.load_dataset(path, data.config, cache_dir=scratch, keep_in_memory=True)
    return found if isinstance(found, dict) else {data.train_split: found}
