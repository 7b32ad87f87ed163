"""Sources of texts: files on disk, the Hugging Face cache, the Hugging Face hub.

`find` says where a data set is and what its bytes are; `Source.read` reads it.
"""

import hashlib
import io
import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import acl_imdb, hub, tables
from attnexp.data.corpus import SPLITS, Corpus, as_user_error, corpus
from attnexp.data.text import Ragged

IMDB = "stanfordnlp/imdb"
KERAS_NPZ = {"69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f"}
"""SHA-256 of the imdb.npz that Keras publishes. Any other would be a pickle from a stranger."""

FORMATS = (
    "a csv, tsv, jsonl or parquet file, a folder of such files (train.csv, test.csv, or "
    "train-*.parquet as on the hub), what save_to_disk of `datasets` wrote, the aclImdb folder, "
    "aclImdb_v1.tar.gz, or Keras's imdb.npz"
)
WAYS_TO_IMDB = f"""Ways to get IMDB:
  data.path=PATH     {FORMATS}
  ATTNEXP_IMDB=PATH  the same, as an environment variable
  {IMDB}   the Hugging Face hub, when online (HF_ENDPOINT names a mirror)
Or do without IMDB: data=contrast, the embedded synthetic corpus."""
WAYS_TO_PRESET = """Ways to get {name}:
  attnexp data prepare data={name}: when online; it is then cached (HF_ENDPOINT names a mirror)
  data.path=PATH: a copy on disk, as csv, tsv, jsonl, parquet, or a folder of them
  ATTNEXP_DATA=FOLDER: a folder of data sets by name, of which FOLDER/{name} is read
Or do without it: data=contrast, the embedded synthetic corpus."""
WAYS_FROM_HUB = (
    f"Online, try again (HF_ENDPOINT names a mirror). A copy on disk is read with data=files "
    f"data.path=PATH: {FORMATS}."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Source of a data set, found but not read yet."""

    description: str
    """Description for people and result.json, as "parquet files in /data/imdb"."""
    key: str
    """SHA-256, in hex, of what identifies the bytes: it changes when the data change."""
    read: Callable[[], Corpus]
    """Raises `UserError` if the data turn out damaged or are not labelled texts."""


def find(data: DataConfig) -> Source:
    """Find the data set that `data` names; not for `contrast`, which is generated.

    What the hub has and its cache has not is downloaded.
    Raises `UserError`, which says what to do, when it is nowhere or not in a known format.
    """
    assert data.name is not DataName.contrast
    place, setting = local_path(data)
    if place is None:
        return _on_hub(data)
    path = Path(place).expanduser().absolute()
    with as_user_error(path):
        if not path.exists():
            raise UserError(f"{setting}={place} does not exist. Give {FORMATS}.")
        source = _in_folder(path, data) if path.is_dir() else _in_file(path, data)
    if setting.startswith("$"):  # results name no folder of this machine
        source = replace(source, description=source.description.replace(str(path), setting))
    return source


def local_path(data: DataConfig) -> tuple[str | None, str]:
    """The folder or file to read and its name: `data.path`, for IMDB `$ATTNEXP_IMDB`, or the
    folder of this name in `$ATTNEXP_DATA`. None where the data are to come from the hub."""
    if data.name is DataName.hub:
        return None, ""
    if data.path is not None:
        return data.path, "data.path"
    if data.name is DataName.imdb and (given := os.environ.get("ATTNEXP_IMDB")):
        return given, "$ATTNEXP_IMDB"
    place = Path(os.environ.get("ATTNEXP_DATA") or "nowhere").expanduser() / data.name
    return (str(place), f"$ATTNEXP_DATA/{data.name}") if place.exists() else (None, "")


def cached(data: DataConfig) -> Path | None:
    """The folder in the hub's cache of a data set of the hub; None if it is not there whole."""
    splits = [data.test_split] if data.test_split else []
    return hub.cached(hub_name(data), SPLITS if data.name is DataName.imdb else splits)


def hub_name(data: DataConfig) -> str:
    """Name on the hub of a data set that no local folder is named for."""
    return IMDB if data.name is DataName.imdb else data.hub or data.path or ""


def _on_hub(data: DataConfig) -> Source:
    name = hub_name(data)
    ways = {DataName.imdb: WAYS_TO_IMDB, DataName.hub: WAYS_FROM_HUB}
    remedy = ways.get(data.name) or WAYS_TO_PRESET.format(name=data.name)
    folder = cached(data) or hub.download(name, remedy=remedy)
    return Source(
        description=f"hub: {name}@{folder.name[:12]}",
        key=_key(_digest_of_folder(folder), data),
        read=lambda: _of_tables(folder, data),
    )


def _in_folder(path: Path, data: DataConfig) -> Source:
    for folder in (path, path / "aclImdb"):
        if any((folder / name).is_dir() for name in acl_imdb.FOLDERS):
            key = acl_imdb.key_of_folder(folder)
            return _as_published("aclImdb folder", folder, key, acl_imdb.read_folder, data)
    if hub.is_saved(path):
        key = _key(_digest_of_folder(path), data)
        return _source("saved data set in", path, key, lambda folder: _of_tables(folder, data))
    files = sorted(
        file
        for pattern in ("*", "*/*")
        for file in path.glob(pattern)
        if tables.kind_of(file) and not file.is_dir()
    )
    return _of_files(path, _by_split(path, files, data), files, data)


def _by_split(path: Path, files: list[Path], data: DataConfig) -> dict[str, list[Path]]:
    """The files to train and, if there are any, to test on."""
    names = {"train": data.train_split, "test": data.test_split or "test"}
    found: dict[str, list[Path]] = {"train": [], "test": []}
    for file in files:
        folder = file.relative_to(path).as_posix().removesuffix(file.name)
        stem = folder + file.name.partition(".")[0]
        for split, name in names.items():  # its name, a numbered part of it, or in such a folder
            if re.fullmatch(rf"(.*/)?{re.escape(name)}([-_]\d[^/]*|/[^/]*)?", stem):
                found[split].append(file)
    if not found["train"] and len(files) == 1 and not data.test_split:
        found = {"train": files, "test": []}
    for split, shards in found.items():
        if not shards and (split == "train" or data.test_split):
            held = ", ".join(sorted(os.listdir(path))[:5]) or "nothing"
            raise UserError(
                f"{path} holds no {names[split]} file in a known format; it holds {held}. Name "
                f"its files: data=files data.train_split=NAME data.test_split=NAME. Or give "
                f"{FORMATS}."
            )
        if len(homes := {f"{file.parent}/*.{tables.kind_of(file)}" for file in shards}) > 1:
            raise UserError(
                f"{path} holds several data sets. Give one: {', '.join(sorted(homes))}."
            )
        parts = [int(n) for file in shards for n in re.findall(r"-of-(\d+)", file.name)]
        if len(shards) < max(parts, default=0):
            raise UserError(
                f"{path} holds {len(shards)} of {max(parts)} files {names[split]}-*. Fetch the "
                f"missing files."
            )
    return {split: shards for split, shards in found.items() if shards}


def _in_file(path: Path, data: DataConfig) -> Source:
    if tables.kind_of(path):
        return _of_files(path, {"train": [path]}, [path], data)
    with path.open("rb") as file:
        start = file.read(2)
    if start == b"\x1f\x8b":
        return _as_published("aclImdb archive", path, _digest(path), acl_imdb.read_archive, data)
    if path.suffix == ".npz":
        return _as_published("Keras's word ranks in", path, _digest(path), _read_keras, data)
    raise UserError(
        f"{path} is in no known format ({path.stat().st_size} bytes, beginning with {start!r}). "
        f"Give {FORMATS}."
    )


def _as_published(
    kind: str, path: Path, key: str, read: Callable[[Path], Corpus], data: DataConfig
) -> Source:
    """Source of IMDB in a published form, which has no columns or splits to choose."""
    for name in ("text", "label", "train_split", "test_split"):
        if (given := getattr(data, name)) not in (None, "train"):
            raise UserError(
                f"data.{name}={given} would do nothing: {kind} {path} has no choice of it."
            )
    return _source(kind, path, key, read)


def _of_files(
    path: Path, shards: Mapping[str, list[Path]], files: list[Path], data: DataConfig
) -> Source:
    home = shards["train"][0].parent if path.is_dir() else path
    kind = f"{tables.kind_of(shards['train'][0])} file{'s in' if path.is_dir() else ''}"
    digests = {split: _digest(*held) for split, held in shards.items()}

    def read(where: Path) -> Corpus:
        used = [file for held in shards.values() for file in held]
        if ignored := [str(file.relative_to(path)) for file in files if file not in used]:
            progress.note(f"Not read: {', '.join(ignored)}.")
        halves = {
            split: tables.read_files(held, data.text, data.label) for split, held in shards.items()
        }
        return _corpus(halves, where, data)

    return _source(kind, home, _key(json.dumps(digests), data), read)


def _of_tables(folder: Path, data: DataConfig) -> Corpus:
    found = hub.tables(folder, data.config, data.train_split, data.test_split)
    halves = {
        split: tables.labelled(table, f"{split} in {folder}", data.text, data.label)
        for split, table in found.items()
    }
    return _corpus(halves, folder, data)


def _corpus(halves: Mapping[str, tables.Labelled], where: Path, data: DataConfig) -> Corpus:
    if "test" not in halves and data.name is DataName.imdb:
        raise UserError(
            f"{where} holds train, but no test, and IMDB has both. Data of your own are "
            f"data=files: a share of train is drawn for test there."
        )
    text, label = halves["train"].columns
    if (text, label) not in ((data.text, data.label), ("text", "label")):
        progress.note(f"Column {text} is the text, {label} the label.")
    pairs = {split: (half.texts, half.labels) for split, half in halves.items()}
    return corpus(pairs, where, test_share=data.test_share)


def _source(kind: str, path: Path, key: str, read: Callable[[Path], Corpus]) -> Source:
    def checked() -> Corpus:
        with as_user_error(path):
            return read(path)

    return Source(description=f"{kind} {path}", key=key, read=checked)


def _key(content: str, data: DataConfig) -> str:
    """Digest of the bytes, and of the settings that choose what is read from them."""
    asked = [data.config, data.text, data.label, data.train_split, data.test_split, data.test_share]
    return hashlib.sha256(json.dumps([content, *asked]).encode()).hexdigest()


def _digest(*files: Path) -> str:
    digests = []
    for path in files:
        with path.open("rb") as file:
            digests.append(hashlib.file_digest(file, "sha256").hexdigest())
    return ",".join(digests)


def _digest_of_folder(folder: Path) -> str:
    held = sorted(file for file in folder.rglob("*") if file.is_file())
    return json.dumps({str(file.relative_to(folder)): _digest(file) for file in held})


def _read_keras(path: Path) -> Corpus:
    content = path.read_bytes()
    if (digest := hashlib.sha256(content).hexdigest()) not in KERAS_NPZ:
        raise UserError(
            f"{path} is not the imdb.npz that Keras publishes, and no other npz is read: its "
            f"SHA-256 is {digest}. Fetch it again with keras.datasets.imdb.load_data(), or give "
            f"{FORMATS}."
        )
    with np.load(io.BytesIO(content), allow_pickle=True) as arrays:
        halves = {
            split: (Ragged.of(arrays[f"x_{split}"]), arrays[f"y_{split}"].tolist())
            for split in SPLITS
        }
    return corpus(halves, path)
