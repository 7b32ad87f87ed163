"""Where reviews come from: files on disk, the Hugging Face cache, the Hugging Face hub.

`find` says where a data set is and what its bytes are; `Source.read` reads it.
"""

import hashlib
import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attnexp.config.schema import DataConfig, DataName
from attnexp.data import acl_imdb, hub, keras_npz
from attnexp.data.corpus import SPLITS, Corpus, as_user_error, corpus
from attnexp.data.text import Ragged
from attnexp.errors import UserError

if TYPE_CHECKING:
    import pyarrow as pa

IMDB = "stanfordnlp/imdb"

FORMATS = (
    "a folder of parquet files as on the hub (train-*.parquet, test-*.parquet, columns text and "
    "label), the aclImdb folder, aclImdb_v1.tar.gz, or Keras's imdb.npz"
)
WAYS_TO_IMDB = f"""Ways to get IMDB:
  data.path=PATH     {FORMATS}
  ATTNEXP_IMDB=PATH  the same, as an environment variable
  {IMDB}   the Hugging Face hub, when online (HF_ENDPOINT names a mirror)
Or do without IMDB: data=contrast, the embedded synthetic corpus."""
WAYS_TO_OTHERS = (
    f"Online, try again (HF_ENDPOINT names a mirror); on disk, use data=files: {FORMATS}."
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Source:
    """Where a data set was found; reading waits until it is asked for."""

    description: str
    """For people and result.json, such as "parquet files in /data/imdb"."""
    key: str
    """SHA-256, in hex, of what identifies the bytes: it changes when the data change."""
    read: Callable[[], Corpus]
    """Raises `UserError` if the data turn out damaged or are not reviews labelled 0 and 1."""


def find(data: DataConfig) -> Source:
    """Find the data set that `data` names; not for `contrast`, which is generated.

    What the hub has and its cache has not is downloaded.
    Raises `UserError`, which says what to do, when it is nowhere or not in a known format.
    """
    assert data.name is not DataName.contrast
    if data.name is DataName.hub:
        return _on_hub(data.path or "", remedy=WAYS_TO_OTHERS)
    if data.name is DataName.imdb and not data.path:
        return _on_hub(IMDB, remedy=WAYS_TO_IMDB)
    return _on_disk(data.path or "")


def _on_hub(name: str, *, remedy: str) -> Source:
    folder = hub.cached(name) or hub.download(name, remedy=remedy)

    def read() -> Corpus:
        tables = hub.tables(folder)
        return corpus({split: _columns(tables[split], str(folder)) for split in SPLITS}, folder)

    return Source(
        description=f"hub: {name}@{folder.name[:12]}",
        key=hashlib.sha256(f"{name}@{folder.name}".encode()).hexdigest(),
        read=read,
    )


def _on_disk(given: str) -> Source:
    path = Path(given).expanduser().absolute()
    with as_user_error(path):
        if not given or not path.exists():
            setting = "ATTNEXP_IMDB" if os.environ.get("ATTNEXP_IMDB") == given else "data.path"
            raise UserError(f"{setting}={given} does not exist. Give {FORMATS}.")
        return _in_folder(path) if path.is_dir() else _in_file(path)


def _in_folder(path: Path) -> Source:
    for folder in (path, path / "aclImdb"):
        if acl_imdb.is_acl_imdb(folder):
            return _source(
                "aclImdb folder", folder, acl_imdb.key_of_folder(folder), acl_imdb.read_folder
            )
    files = [file for pattern in ("*.parquet", "*/*.parquet") for file in path.glob(pattern)]
    shards = {
        split: sorted(file for file in files if file.name.startswith(f"{split}-"))
        for split in SPLITS
    }
    homes = sorted({file.parent for split in SPLITS for file in shards[split]})
    if not homes:
        held = ", ".join(sorted(os.listdir(path))[:5]) or "nothing"
        raise UserError(f"{path} is in no known format; it holds {held}. Give {FORMATS}.")
    if len(homes) > 1:
        raise UserError(f"{path} holds several data sets. Give one: {', '.join(map(str, homes))}.")
    digest = hashlib.sha256()
    for split in SPLITS:
        _check_complete(shards[split], split, homes[0])
        digest.update(split.encode() + b"".join(_digest(file) for file in shards[split]))
    read = partial(_read_parquet, shards)
    return _source("parquet files in", homes[0], digest.hexdigest(), read)


def _check_complete(shards: list[Path], split: str, home: Path) -> None:
    wanted = max(
        (int(n) for file in shards for n in re.findall(r"-of-(\d+)", file.name)), default=1
    )
    if len(shards) < wanted:
        raise UserError(
            f"{home} holds {len(shards)} of {wanted} parquet files {split}-*.parquet. Both train "
            f"and test are needed, whole: fetch the missing files."
        )


def _in_file(path: Path) -> Source:
    with path.open("rb") as file:
        start = file.read(2)
    if start == b"\x1f\x8b":
        return _source("aclImdb archive", path, _digest(path).hex(), acl_imdb.read_archive)
    if start == b"PK":
        return _source("Keras's word ranks in", path, _digest(path).hex(), _read_keras)
    raise UserError(
        f"{path} is in no known format ({path.stat().st_size} bytes, beginning with {start!r}). "
        f"Give {FORMATS}."
    )


def _source(kind: str, path: Path, key: str, read: Callable[[Path], Corpus]) -> Source:
    def checked() -> Corpus:
        with as_user_error(path):
            return read(path)

    return Source(description=f"{kind} {path}", key=key, read=checked)


def _digest(path: Path) -> bytes:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").digest()


def _read_parquet(shards: dict[str, list[Path]], home: Path) -> Corpus:
    from pyarrow import parquet

    halves: dict[str, tuple[list[str], list[Any]]] = {split: ([], []) for split in SPLITS}
    for split, files in shards.items():
        for file in files:
            with as_user_error(file), parquet.ParquetFile(file) as opened:
                texts, labels = _columns(opened.read(), str(file))
            halves[split][0].extend(texts)
            halves[split][1].extend(labels)
    return corpus(halves, home)


def _read_keras(path: Path) -> Corpus:
    arrays = keras_npz.load(path)
    halves = {split: (Ragged.of(x), y.tolist()) for split, (x, y) in arrays.items()}
    return corpus(halves, path)


def _columns(table: "pa.Table", where: str) -> tuple[list[str], list[Any]]:
    """The texts and labels of a table, in its order."""
    import pyarrow as pa

    if twice := [name for name in ("text", "label") if table.column_names.count(name) > 1]:
        raise UserError(f"{where} has more than one column {' and '.join(twice)}. Leave one.")
    if missing := [name for name in ("text", "label") if name not in table.column_names]:
        raise UserError(
            f"{where} has no column {' or '.join(missing)}; its columns are "
            f"{', '.join(table.column_names)}. Rename the review column to text and the column of "
            f"0 and 1 to label."
        )
    text, label = table["text"], table["label"]
    if not (pa.types.is_string(text.type) or pa.types.is_large_string(text.type)):
        raise UserError(f"{where}: column text holds {text.type}, not strings. Save it as strings.")
    texts = text.to_pylist()
    if text.null_count:
        raise UserError(
            f"{where}: the text of row {texts.index(None)} is null ({text.null_count} such rows). "
            f"Remove rows without text."
        )
    return texts, label.to_pylist()
