"""Rows of a data set: tables in files by pandas, saved and downloaded sets by `datasets`."""

import csv
import io
import json
import re
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pandas as pd  # noqa: TID253 - this module is imported where data are read
import pyarrow as pa  # noqa: TID253
from pyarrow import parquet  # noqa: TID253

from attnexp.base.errors import UserError, join_names, on_one_line
from attnexp.config.schema import DataConfig, DataName

FORMATS = (
    "a csv, tsv, json, jsonl or parquet file; a folder of such files by split (train.csv, "
    "train/a.csv, or train-*.parquet as on the hub); a folder of texts by split and class "
    "(train/pos/1.txt, train/neg/1.txt); or what save_to_disk of `datasets` wrote"
)
TABLE = re.compile(r".+?\.(csv|tsv|jsonl|ndjson|json|parquet)(\.(gz|zst|bz2))?", re.I)
SEPARATORS = {"csv": ",;\t|", "tsv": "\t"}  # what may separate cells
COMPRESSIONS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
TEXTS = "[!.]*/[!.]*.txt"  # texts in the folders of their classes, none hidden
SHARD = re.compile(r"-(?P<number>\d+)-of-0*(?P<total>\d+)(?:-[0-9a-f]{16})?(?=\.)")
"""Number and total of shards, as in train-00000-of-00002.csv. `datasets` once added 16 digits."""
CSV_ADVICE = (
    "In a csv, a text with a delimiter, a quote or a line break stands in quotes, its quotes "
    "doubled."
)
JSON_ADVICE = 'Give rows as {"text": "good", "label": 1}: one a line, or a list of objects.'
ADVICE = {"csv": CSV_ADVICE, "tsv": CSV_ADVICE, "parquet": "Write or fetch it again."}

Readers = dict[str, Callable[[], pd.DataFrame]]  # what reads each file of a split, by its name
Splits = dict[str, Readers]  # by every name that a user may give a split
Tables = dict[str, dict[str, pd.DataFrame]]  # by split (train, test or val) and name of the file
DEFAULTS = DataConfig()


# One file: a table.
def read_table(file: Path, data: DataConfig = DEFAULTS) -> pd.DataFrame:
    """Rows of a file, csv if its name has no ending. Cells of csv and tsv stay texts. data.header:
    the first row names the columns; else they are numbered. data.quotes: quotes enclose cells."""
    match = TABLE.fullmatch(file.name)
    if file.suffix and not match:
        raise UserError(f"{file} is in no known format. Give {FORMATS}.")
    kind = match[1].lower() if match else "csv"
    content = pa.py_buffer(file.read_bytes())
    try:
        if kind == "parquet":
            table = parquet.read_table(pa.BufferReader(content))
            table.validate(full=True)  # Pandas notices a text that is not UTF-8 too late.
            return convert_arrow(table)
        compression = COMPRESSIONS.get(file.suffix.lower())
        text = pa.input_stream(content, compression=compression).read().decode("utf-8-sig")
        if kind in SEPARATORS:
            return _parse_csv(text, SEPARATORS[kind], data)
        return _parse_json(text)
    except (OSError, ValueError, pa.ArrowException) as error:
        advice = ADVICE.get(kind, JSON_ADVICE)
        raise UserError(f"{file} cannot be read: {_describe(error)}. {advice}") from error


def _describe(error: Exception) -> str:
    """What is wrong with a file; where it is not UTF-8, with the line and what to do."""
    if not isinstance(error, UnicodeDecodeError):
        return on_one_line(error)
    line = error.object.count(b"\n", 0, error.start) + 1
    return (
        f"line {line}: {error}; a file of Windows becomes UTF-8 by: iconv -f cp1252 -t utf-8 "
        f"OLD > NEW"
    )


def _parse_csv(text: str, separators: str, data: DataConfig) -> pd.DataFrame:
    """Rows of a csv; the most frequent of `separators` in its first line separates. Raises
    `ValueError` for two columns of one name, too long a row, or quotes that are none of a csv."""
    lines = io.StringIO(text, newline="").readlines()
    first_line = next(filter(str.strip, lines), "")
    unquoted = re.sub('"[^"]*"', "", first_line)  # A name may hold separators.
    separator = max(separators, key=unquoted.count)
    rows = _split_cells(lines, separator, data.quotes)
    width = len(rows[0])
    longest = max(rows, key=len)
    if len(longest) > width:
        first_number = 0 if data.header else 1
        number = rows.index(longest) + first_number
        raise ValueError(f"row {number} has {len(longest)} cells, the first line {width}")
    padded = [[*row, *[None] * (width - len(row))] for row in rows]
    frame = pd.DataFrame(padded, dtype=object)
    if not data.header:
        return frame.rename(columns=str)
    names = [name.strip() for name in rows[0]]
    repeated = {name for name in names if name and names.count(name) > 1}
    if repeated:
        raise ValueError(f"several columns are called {join_names(repeated)}")
    return frame[1:].set_axis(names, axis=1)


def _split_cells(lines: list[str], separator: str, has_quotes: bool) -> list[list[str]]:
    """Cells of each row. Raises `ValueError` if there is none, or for quotes that a csv forbids."""
    csv.field_size_limit(2**31 - 1)  # A text may be long.
    reader = csv.reader(
        lines,
        delimiter=separator,
        quoting=csv.QUOTE_MINIMAL if has_quotes else csv.QUOTE_NONE,
        strict=True,
    )
    try:
        rows = [row for row in reader if row]
    except csv.Error as error:
        raise ValueError(
            f"line {reader.line_num}: {error}; data.quotes=false takes quotes as parts of texts"
        ) from None
    if not rows:
        raise ValueError("it is empty")
    # Two stray quotes join the lines between them. They are found by a guess: if all lines have
    # equally many separators, each is a row. A file that begins with a quote quotes on purpose.
    filled_lines = [line for line in lines if line.strip()]
    num_separators = {line.count(separator) for line in filled_lines}
    lines_are_rows = len(num_separators) == 1 and not filled_lines[0].startswith('"')
    if lines_are_rows and len(rows) < len(filled_lines):
        joined = f"{len(filled_lines)} lines are {len(rows)} rows, since quotes join some"
        raise ValueError(f"{joined}; if they should, put the names of the columns into quotes, too")
    return rows


def _parse_json(text: str) -> pd.DataFrame:
    """Rows of a list of objects, or of one object a line. Raises `ValueError` for other layouts."""
    is_list = text.lstrip().startswith("[")
    rows = pd.read_json(io.StringIO(text), lines=not is_list, dtype=False)
    if len(rows) == 1 and rows.map(lambda cell: isinstance(cell, dict | list)).all(axis=None):
        raise ValueError("all of it is one object")
    return rows.rename(columns=str)


def convert_arrow(table: pa.Table) -> pd.DataFrame:
    """Rows of an Arrow table. Labels that `datasets` stores as numbers get the names of classes."""
    frame = table.to_pandas(ignore_metadata=True)  # An index that has a name becomes a column.
    metadata = table.schema.metadata or {}
    about = json.loads(metadata.get(b"huggingface", "{}"))
    features = about.get("info", {}).get("features", {})
    for column, feature in features.items():
        is_class = isinstance(feature, dict) and feature.get("_type") == "ClassLabel"
        if is_class and column in frame:
            name_of = {-1: -1} | dict(enumerate(feature["names"]))  # The hub hides labels as -1.
            frame[column] = frame[column].map(name_of)
    return frame


# A data set: which files are its train, test and val.
def read_splits(path: Path, data: DataConfig, *, is_hub: bool) -> Tables:
    """Rows of train, test and val. is_hub: of the hub, where a card says what the files are."""
    # `save_to_disk` of `datasets` writes one of these.
    is_saved = any((path / name).exists() for name in ("dataset_dict.json", "state.json"))
    if is_hub or is_saved:
        splits = _load_datasets(path, data, is_saved=is_saved)
    elif path.is_file():
        files: Readers = {path.name: partial(read_table, path, data)}
        splits = {"train": files, path.name: files}
    else:
        splits = _list_folder(path, data)
    tables = {}
    for split, readers in _choose_splits(path, splits, data).items():
        tables[split] = {name: read() for name, read in readers.items()}
    return tables


def _load_datasets(path: Path, data: DataConfig, *, is_saved: bool) -> Splits:
    """Files of what `save_to_disk` of `datasets` wrote, or of a data set of the hub."""
    import datasets

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity(datasets.logging.CRITICAL)
    try:
        if is_saved:
            content = datasets.load_from_disk(str(path), keep_in_memory=True)
        else:
            with TemporaryDirectory() as cache:
                content = datasets.load_dataset(
                    str(path), data.config, cache_dir=cache, keep_in_memory=True
                )
    except Exception as error:  # The errors of datasets have no base in common.
        raise UserError(
            f"{path} cannot be read ({on_one_line(error)[:300]}). Where it has several "
            f"configurations, choose one: data.config=NAME."
        ) from error
    if not isinstance(content, dict):
        content = {data.train_split: content}
    return {
        split: {f"split {split}": partial(convert_arrow, rows.with_format("arrow")[:])}
        for split, rows in content.items()
    }


def _list_folder(path: Path, data: DataConfig) -> Splits:
    """Files by every name that a user may give a split: new/train-0-of-2.csv by that path, by train
    and by new; train/pos/1.txt by train. A single table that has no texts beside it is train. Two
    files of one name, such as train.csv and train/a.csv, are listed; `_find_split` refuses them."""
    top = [*path.glob("[!._]*")]  # none hidden, no __MACOSX
    splits: Splits = defaultdict(dict)
    for folder in [*top, *path.glob("aclImdb/[!._]*")]:
        if any(folder.glob(TEXTS)):
            name = folder.relative_to(path).as_posix()
            splits[folder.name][f"{name}/*/*.txt"] = partial(_read_texts, folder)
    tables: Readers = {}
    for file in sorted([*top, *path.glob("[!._]*/[!._]*")]):
        if TABLE.fullmatch(file.name):
            tables[file.relative_to(path).as_posix()] = partial(read_table, file, data)
    if len(tables) == 1 and not splits and data.train_split == "train" and not data.test_split:
        return {"train": tables}
    for name, read in tables.items():
        *folders, file_name = name.split("/")
        stem = SHARD.sub("", file_name).split(".")[0]
        for split in (name, stem, *folders):
            splits[split][name] = read
    return splits


def _choose_splits(path: Path, splits: Splits, data: DataConfig) -> dict[str, Readers]:
    """Files of train, test and val. Raises `UserError` as `_find_split`, or where two share one."""
    has_test = "test" in splits or data.name is DataName.imdb  # Else it is drawn from train.
    test = data.test_split or ("test" if has_test else None)
    names = {"train": data.train_split, "test": test, "val": data.val_split}
    chosen = {key: _find_split(path, splits, key, name) for key, name in names.items() if name}
    all_files = [file for files in chosen.values() for file in files]
    if len(set(all_files)) < len(all_files):
        raise UserError(
            f"{path}: two of the splits {join_names(filter(None, names.values()))} have a file in "
            f"common. Name others: data.train_split, data.test_split, data.val_split."
        )
    return chosen


def _find_split(path: Path, splits: Splits, key: str, name: str) -> Readers:
    """Files of a split: the named file, a single one, or all shards of one; else a `UserError`."""
    if name not in splits:
        listed = sorted(splits) or sorted(file.name for file in path.glob("[!._]*"))
        raise UserError(
            f"{path} has no split {name}; it holds {join_names(listed) or 'nothing'}. Name a "
            f"split, data.{key}_split=NAME, or another data.path. What can be read is {FORMATS}."
        )
    files = splits[name]
    stems = {SHARD.sub("", file) for file in files}
    shards = {match.groups() for match in map(SHARD.search, files) if match}
    totals = [total for _, total in shards]
    is_whole = len(stems) == 1 and totals in ([], [str(len(files))] * len(files))
    if name not in files and not is_whole:
        raise UserError(
            f"{path}: {join_names(files)}: {len(files)} files are no whole split. Keep one of "
            f"them, or all shards of one (train-00000-of-00002.csv, train-00001-of-00002.csv), or "
            f"name a file: data.{key}_split=FILE."
        )
    return files


def _read_texts(folder: Path) -> pd.DataFrame:
    """Texts whose folders name their classes, by class and number: the order of the hub's IMDB."""
    rows = []
    for file in folder.glob(TEXTS):
        label = file.parent.name
        if label == "unsup":  # Reviews of aclImdb without labels.
            continue
        try:
            text = file.read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UserError(f"{file} cannot be read: {_describe(error)}.") from None
        digits = re.sub(r"\D.*", "", file.name)
        rows.append((label, int(digits or 0), file.name, text))
    return pd.DataFrame(sorted(rows), columns=["label", "number", "file", "text"])
