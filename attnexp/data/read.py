"""Rows of files and of data sets: tables by pandas, saved and downloaded sets by `datasets`."""

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd  # noqa: TID253 - this module is imported where data are read
import pyarrow as pa  # noqa: TID253
from pyarrow import parquet  # noqa: TID253

from attnexp.base.errors import UserError, join_names, on_one_line
from attnexp.config.schema import DataConfig, DataName

FORMATS = (
    "a csv, tsv, json, jsonl or parquet file, a folder of such files (train.csv, test.csv, or "
    "train-*.parquet as on the hub), of texts by class (train/pos/*.txt), or what save_to_disk of "
    "`datasets` wrote"
)
TABLE = re.compile(r".+?\.(csv|tsv|jsonl|ndjson|json|parquet)(\.(gz|zst|bz2))?", re.I)
"""The name of a file that holds a table."""
SHARD = re.compile(r"(.+)-(\d+)-of-0*(\d+)(-[0-9a-f]{16})?\..*")
"""The name of one of several files of a split; `datasets` once added sixteen digits."""
SAVED = ("dataset_dict.json", "state.json")
"""Files of which `save_to_disk` of `datasets` writes one."""

Frames = dict[str, pd.DataFrame]
"""Rows by the names of their files, or of the splits of a data set."""


def kind_of(file: Path) -> str | None:
    """Format of a table by its name: csv for train.csv and train.csv.gz; None for other files."""
    match = TABLE.fullmatch(file.name)
    return match[1].lower() if match else None


def read_table(file: Path, *, has_header: bool = True, has_quotes: bool = True) -> pd.DataFrame:
    """Rows of a file, which is read as csv if its name tells no format. Cells of csv and tsv are
    texts as they stand there. has_header, has_quotes: whether the first row of a csv or tsv names
    its columns (else they are numbered), and whether a cell may stand in quotes."""
    kind = kind_of(file) or "csv"
    try:
        if kind == "parquet":
            return convert_arrow(parquet.read_table(file))
        with pa.input_stream(str(file), compression="detect") as stream:
            text = _decode(stream.read())
        if kind in ("csv", "tsv"):
            return _parse_csv(text, has_header, has_quotes)
        return _parse_json(text)
    except (OSError, ValueError) as error:
        advice = ""
        if kind in ("csv", "tsv"):
            advice = (
                "In a csv, a text with a delimiter, a quote or a line break stands in quotes, its "
                "quotes doubled."
            )
        elif kind != "parquet":
            advice = 'Give rows as {"text": "good", "label": 1}: one a line, or a list of objects.'
        raise UserError(f"{file} cannot be read: {on_one_line(error)}. {advice}") from error


def _decode(content: bytes) -> str:
    """Text of UTF-8. Raises `ValueError`, with the line, for another encoding."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"line {line}: {error}; a file of Windows becomes UTF-8 by: iconv -f cp1252 -t utf-8 "
            f"OLD > NEW"
        ) from None


def _parse_csv(text: str, has_header: bool, has_quotes: bool) -> pd.DataFrame:
    """Rows of a csv. Raises `ValueError` where two columns have one name, where a row has more
    cells than the first, or where quotes are not those of a csv."""
    first_line, _, _ = text.partition("\n")
    unquoted = re.sub('"[^"]*"', "", first_line)
    separator = max(",;\t|", key=unquoted.count)
    cells = pd.read_csv(
        io.StringIO(text),
        header=None,  # A first row of names would let a longer second row shift the columns.
        sep=separator,
        quoting=csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE,
        dtype=str,
        keep_default_na=False,
    )
    if has_quotes and '"' in text:
        _check_quotes(text, separator, len(cells))
    if not has_header:
        return cells.rename(columns=str)
    names = cells.iloc[0].str.strip()
    repeated = names[names.duplicated() & (names != "")]
    if len(repeated):
        raise ValueError(f"several columns are called {join_names(repeated)}")
    return cells[1:].set_axis(names.tolist(), axis=1)


def _check_quotes(text: str, separator: str, num_rows: int) -> None:
    """Raise `ValueError` for a quote that pandas drops or takes for the end of a cell although no
    separator follows it, and where quotes join lines that are rows by themselves."""
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        for _ in reader:
            pass
    except csv.Error as error:
        raise ValueError(
            f"line {reader.line_num}: {error}; data.quotes=false takes quotes as parts of texts"
        ) from None
    lines = [line for line in re.split("\r\n?|\n", text) if line]
    num_separators = {line.count(separator) for line in lines}
    if len(num_separators) == 1 and len(lines) > num_rows and not text.startswith('"'):
        raise ValueError(f"{len(lines)} lines are {num_rows} rows, since quotes join some")


def _parse_json(text: str) -> pd.DataFrame:
    """Rows of a list of objects, or of one object a line. Raises `ValueError` for other layouts."""
    is_list = text.lstrip().startswith("[")
    rows = pd.read_json(io.StringIO(text), lines=not is_list, dtype=False)
    if len(rows) == 1 and rows.map(lambda cell: isinstance(cell, dict | list)).all(axis=None):
        raise ValueError("all of it is one object")
    return rows.rename(columns=str)


def convert_arrow(table: pa.Table) -> pd.DataFrame:
    """Rows of an Arrow table. Labels that `datasets` stores as numbers get the names of classes."""
    frame = table.to_pandas(ignore_metadata=True)  # so that a named index is a column
    about = json.loads((table.schema.metadata or {}).get(b"huggingface", "{}"))
    features = about.get("info", {}).get("features", {})
    for column in frame.columns.intersection(list(features)):
        feature = features[column]
        names = feature.get("names") if isinstance(feature, dict) else None
        if names and (frame[column] != -1).any():  # else the hub does not show its labels
            frame[column] = frame[column].map(dict(enumerate(names)))
    return frame


def read_splits(path: Path, data: DataConfig, *, is_hub: bool) -> dict[str, Frames]:
    """Rows of train, test and val, by these names and by file. is_hub: whether it is a data set of
    the hub, whose card says what its files are."""
    is_saved = any((path / name).exists() for name in SAVED)
    if is_hub or is_saved:
        rows = _read_datasets(path, data, is_saved=is_saved)
        names = _choose_splits(path, {name: name for name in rows}, data)
        return {key: {f"split {name}": rows[name]} for key, name in names.items()}
    if path.is_file() and not kind_of(path):
        raise UserError(f"{path} is in no known format. Give {FORMATS}.")
    files = {data.train_split: [path]} if path.is_file() else _find_files(path, data)
    names = _choose_splits(path, files, data)
    return {key: _read_files(path, name, files[name], data) for key, name in names.items()}


def _read_datasets(path: Path, data: DataConfig, *, is_saved: bool) -> Frames:
    """What `save_to_disk` of `datasets` wrote, or what the library reads by the hub's card."""
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    try:
        if is_saved:
            found = datasets.load_from_disk(str(path), keep_in_memory=True)
        else:
            with TemporaryDirectory() as cache:
                found = datasets.load_dataset(
                    str(path), data.config, cache_dir=cache, keep_in_memory=True
                )
    except Exception as error:  # The errors of datasets have no base in common.
        raise UserError(
            f"{path} cannot be read ({on_one_line(error)[:300]}). Where it has several "
            f"configurations, choose one: data.config=NAME."
        ) from error
    if not isinstance(found, dict):
        found = {data.train_split: found}
    return {name: convert_arrow(rows.with_format("arrow")[:]) for name, rows in found.items()}


def _choose_splits(path: Path, found: Mapping[str, object], data: DataConfig) -> dict[str, str]:
    """Names of the splits for train, test and val. Raises `UserError` where one is not there, or
    two are the same. found: the content of each split."""
    names = {"train": data.train_split, "test": data.test_split, "val": data.val_split}
    if "test" in found or data.name is DataName.imdb:  # Else it is drawn from train.
        names["test"] = data.test_split or "test"
    chosen: dict[str, str] = {}
    for key, name in names.items():
        if not name:
            continue
        if name not in found:
            listed = sorted(found) or sorted(file.name for file in path.glob("*"))
            raise UserError(
                f"{path} has no split {name}; it holds {join_names(listed) or 'nothing'}. Name a "
                f"split: data.{key}_split=NAME. What can be read is {FORMATS}."
            )
        if found[name] in [found[other] for other in chosen.values()]:
            raise UserError(
                f"data.{key}_split={name} is another split of {path} already. Name another, or "
                f"leave data.{key}_split out."
            )
        chosen[key] = name
    return chosen


def _find_files(folder: Path, data: DataConfig) -> dict[str, list[Path]]:
    """Files of a folder by split: tables by their names, or else by their folders (train/a.csv), or
    texts in a folder for each class (train/pos/1.txt). A split may be named as a file, too."""
    files = [*folder.glob("*"), *folder.glob("*/*")]
    # Hidden files and folders, such as __MACOSX, hold no table of the user's.
    tables = sorted(
        file
        for file in files
        if kind_of(file) and not {file.name[0], file.relative_to(folder).parts[0][0]} & {*"._"}
    )
    if len(tables) == 1 and not data.test_split:
        return {data.train_split: tables}
    splits = defaultdict[str, list[Path]](list)
    by_folder = any(file.parent.name == data.train_split for file in tables)
    for file in tables:
        shard = SHARD.fullmatch(file.name)
        stem = shard[1] if shard else file.name.partition(".")[0]
        splits[file.parent.name if by_folder else stem].append(file)
    for name in filter(None, (data.train_split, data.test_split, data.val_split)):
        if name not in splits and folder / name in tables:
            splits[name] = [folder / name]
    for file in [*folder.glob("*/*/*.txt"), *folder.glob("aclImdb/*/*/*.txt")]:
        if file.parent.name != "unsup":  # Reviews of aclImdb without labels.
            splits[file.parent.parent.name].append(file)
    return splits


def _read_files(path: Path, split: str, files: list[Path], data: DataConfig) -> Frames:
    """Rows of one split by file. Raises `UserError` for files that are no shards of one split."""
    if files[0].suffix == ".txt" and files[0] != path:
        folder = files[0].parent.parent
        return {f"{folder.relative_to(path).as_posix()}/*/*.txt": _read_texts(files)}
    names = [file.relative_to(path).as_posix() if file != path else file.name for file in files]
    shards = [SHARD.fullmatch(file.name) for file in files]
    totals = {int(shard[3]) if shard else 1 for shard in shards}
    if totals != {len(files)} and split not in names and files != [path]:
        raise UserError(
            f"{path}: {join_names(names)}: {len(files)} files are no whole split. Keep one of "
            f"them, or all shards of one (train-00000-of-00002, train-00001-of-00002), or name a "
            f"file: data.train_split={names[0]}."
        )
    return {
        name: read_table(file, has_header=data.header, has_quotes=data.quotes)
        for name, file in zip(names, files, strict=True)
    }


def _read_texts(files: list[Path]) -> pd.DataFrame:
    """Texts whose folders are their classes, by class and number: the order of the hub's IMDB."""
    rows = []
    for file in files:
        try:
            text = file.read_bytes().decode()
        except UnicodeDecodeError as error:
            raise UserError(f"{file} is not UTF-8 ({error}). Convert or remove it.") from None
        number = re.sub(r"\D.*", "", file.name) or 0
        rows.append((file.parent.name, int(number), file.name, text))
    return pd.DataFrame(sorted(rows), columns=["label", "number", "file", "text"])
