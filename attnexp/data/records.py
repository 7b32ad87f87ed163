"""Records of text files: csv and tsv by their quotes, JSON by its layout. The index of their rows,
named `LINE`, is the line at which each begins, from 1."""

import csv
import io
import json
import re
from contextlib import suppress
from typing import Any, NamedTuple

import pandas as pd  # noqa: TID253 - this module is imported where data are read

from attnexp.base.errors import join_names

LINE = "line"
NO_BLANK = re.compile(r"\S")


class Records(NamedTuple):
    """Records of a csv or tsv: the cells of each, and the line at which it begins."""

    cells: list[list[str]]
    lines: list[int]


def parse_csv(text: str, kind: str, *, has_header: bool) -> pd.DataFrame:
    """Rows of a csv or tsv. Without a header its columns are numbered from 0. Raises `ValueError`
    where a row has more cells than there are columns, or two columns have one name."""
    rows, lines = split_records(text, kind)
    if not rows:
        raise ValueError("no columns: it is empty")
    if has_header:
        names = [name.strip() for name in rows.pop(0)]
        lines.pop(0)
        if all(len(row) == len(names) + 1 and row[0].isdigit() for row in rows):
            names = ["", *names]  # R numbered the rows
    else:
        names = list(map(str, range(len(rows[0]))))
    columns = pd.Index(names)
    repeated = {*columns[columns.duplicated()]} - {""}
    if repeated:
        raise ValueError(
            f"it has more than one column {join_names(sorted(repeated))}; leave one, or write "
            f"{guess_columns(pd.DataFrame(rows))} if its first row holds no names"
        )
    for row, line in zip(rows, lines, strict=True):
        num_missing = len(names) - len(row)
        if num_missing < 0:
            raise ValueError(f"line {line} has {len(row)} cells, and there are {len(names)} names")
        row += [""] * num_missing  # a spreadsheet leaves out empty cells at an end
    return pd.DataFrame(rows, columns=columns, index=pd.Index(lines, name=LINE), dtype=str)


def guess_columns(rows: pd.DataFrame) -> str:
    """Settings for a csv without names: texts are the longest cells; of the other columns with more
    than one value, labels have the fewest."""
    cells = rows.fillna("")
    cells.columns = range(rows.shape[1])
    mean_lengths = cells.map(len).mean().fillna(0)
    text = mean_lengths.idxmax()
    num_values = cells.drop(columns=text).nunique()
    num_values = num_values[num_values > 1]
    label = "NUMBER" if num_values.empty else num_values.idxmin()
    return f"data.header=false data.text={text} data.label={label}"


def split_records(text: str, kind: str) -> Records:
    """Records of a csv or tsv, the header's too; blank lines are none. Quotes are those of a csv
    writer where all are closed as such (within a text doubled, or behind a backslash), and part of
    the texts where only that gives every line as many cells as the first. Raises `ValueError`,
    with the line, where neither is so, or both are with another number of records."""
    dialect = _guess_dialect(text, kind)
    by_line = _split(text, quoting=csv.QUOTE_NONE, **dialect)
    if '"' not in text:
        return by_line
    num_cells = {len(row) for row in by_line.cells}
    # only a writer of csv sets names in quotes, and so its texts, too
    header = by_line.cells[0]
    has_quoted_name = any(re.fullmatch('".*"', name.strip()) for name in header)
    is_table = len(num_cells) == 1 and num_cells != {1} and not has_quoted_name
    try:
        by_quotes = _split_by_quotes(text, dialect)
    except ValueError:
        if is_table:
            return by_line
        raise
    if is_table and len(by_quotes.cells) < len(by_line.cells):
        # records begin at the same lines up to the first that has several
        pairs = zip(by_quotes.lines, by_line.lines, strict=False)
        line = max(line for line, same_line in pairs if line == same_line)
        raise ValueError(
            f"line {line}: its quote is closed on a later line, and yet every line is a row by "
            f"itself: {len(by_quotes.cells)} records, or {len(by_line.cells)} if quotes are part "
            f"of texts. If they are, double them and put the text in quotes"
        )
    return by_quotes


def _guess_dialect(text: str, kind: str) -> dict[str, Any]:
    """Delimiter of a csv, and whether spaces follow it. Raises `ValueError` for Excel's `sep=`."""
    # names in quotes may hold delimiters and line breaks
    beginning = re.sub('"[^"]*"', "", text[:100_000])
    header, _, _ = beginning.partition("\n")
    if header.lower().startswith("sep="):
        raise ValueError(f"remove its first line, {header.strip()!r}, which only Excel reads")
    delimiter = "\t"
    if kind != "tsv":
        delimiter = max(",;\t|", key=header.count)
    skips_spaces = f"{delimiter} " in header
    if not skips_spaces:
        quoted_after_space = rf'[{delimiter}] +"[^"\n]+"([{delimiter}]|$)'
        skips_spaces = re.search(quoted_after_space, text, re.M) is not None
    return {"delimiter": delimiter, "skipinitialspace": skips_spaces}


def _split_by_quotes(text: str, dialect: dict[str, Any]) -> Records:
    """Records whose quotes are doubled within a text, or, as databases write them, behind \\."""
    try:
        return _split(text, quoting=csv.QUOTE_MINIMAL, **dialect)
    except ValueError:
        with suppress(ValueError):
            return _split(text.replace('\\"', '""'), quoting=csv.QUOTE_MINIMAL, **dialect)
        raise


def _split(text: str, **dialect: Any) -> Records:
    """Records of a csv, and none for its blank lines. Raises `ValueError` for an open quote."""
    csv.field_size_limit(2**31 - 1)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, **dialect)
    records = Records([], [])
    begin = 1
    try:
        for cells in reader:
            if len(cells) > 1 or any(cell.strip(" \t") for cell in cells):
                records.cells.append(cells)
                records.lines.append(begin)
            begin = reader.line_num + 1
    except csv.Error as error:
        raise ValueError(
            f"line {begin}: a quote opens in this row that is not closed before a delimiter or the "
            f"end of a line ({error})"
        ) from None
    return records


def parse_json(text: str) -> pd.DataFrame:
    """Rows of JSON: objects one after the other, a list of objects, or an object as pandas'
    `to_json` writes it. Raises `ValueError`, with the line, for anything else."""
    values, lines = _decode_values(text)
    match values:
        case [dict(tree)]:
            return _parse_object(tree, is_row="\n" not in text.strip())
        case [list(listed)]:
            values = listed
    if not _are_objects(values):
        raise ValueError("what it lists are not objects; give one object a line")
    frame = pd.DataFrame(values, dtype=object)
    if len(lines) == len(values):
        frame.index = pd.Index(lines, name=LINE)
    return frame


def _are_objects(values: list[Any]) -> bool:
    return all(isinstance(value, dict) for value in values)


def _decode_values(text: str) -> tuple[list[Any], list[int]]:
    """Values of JSON, one after the other, and the line at which each begins."""
    decoder = json.JSONDecoder(object_pairs_hook=_make_object)
    values = []
    lines = []
    begin = end = 0
    line = 1
    while match := NO_BLANK.search(text, end):
        line += text.count("\n", begin, match.start())
        begin = match.start()
        try:
            value, end = decoder.raw_decode(text, begin)
            json.dumps(value, ensure_ascii=False).encode()  # fails at half a character
        except ValueError as error:
            raise ValueError(f"the value that begins in line {line}: {error}") from None
        values.append(value)
        lines.append(line)
    return values, lines


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Object of JSON. Raises `ValueError` for a key that occurs twice: Python would take one."""
    cells = dict(pairs)
    if len(cells) < len(pairs):
        raise ValueError(f"a key stands twice in one object, of {join_names(cells)}")
    return cells


def _parse_object(tree: dict[str, Any], *, is_row: bool) -> pd.DataFrame:
    """Rows of a file that is one object. is_row: whether it may be the only row."""
    data = tree.get("data")
    if len(tree) == 1:  # such as {"rows": [...]}
        (data,) = tree.values()
    kinds = set(map(type, tree.values()))
    if isinstance(data, list) and ("columns" in tree or _are_objects(data)):
        # orient="split" names columns apart, orient="table" in each row
        return pd.DataFrame(data, columns=tree.get("columns"), dtype=object)
    if kinds == {dict} and "".join(tree).isdigit():  # orient="index"
        return pd.DataFrame([*tree.values()], dtype=object)
    if kinds == {dict}:  # orient="columns"
        return pd.DataFrame(tree, dtype=object)
    if kinds == {list}:
        with suppress(ValueError):  # they differ in length, and are no columns
            return pd.DataFrame(tree, dtype=object)
    elif is_row:
        return pd.DataFrame([tree], dtype=object)
    raise ValueError(
        f"it is one object with the keys {join_names(tree)}; give one object a line, a list of "
        f"objects, or what pandas' to_json writes"
    )
