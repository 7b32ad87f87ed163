"""Load a data set: locate its source, read its splits, and join their rows."""

from collections.abc import Mapping, Sequence

import pandas as pd  # noqa: TID253 - this module is imported where data are read

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config.schema import DataConfig, DataName
from attnexp.data import contrast
from attnexp.data.corpus import Corpus, join_names, make_corpus
from attnexp.data.sources import describe_source, locate_source, resolve_path
from attnexp.data.splits import choose_splits, find_splits
from attnexp.data.tables import choose_columns


def load_corpus(data: DataConfig) -> Corpus:
    """The data set that `data` names; what is on no disk is downloaded from the hub. Raises
    `UserError`, which says what to do, when it is nowhere, damaged, or not of labelled texts."""
    if data.name is DataName.contrast:
        return contrast.generate_corpus(data.order_fraction or 0.0)
    source = locate_source(data)
    path = resolve_path(source)
    title = describe_source(source, path)
    try:
        splits = choose_splits(find_splits(path, data, is_hub=source.path is None), title, data)
        tables = {split: read() for split, read in splits.items()}
        columns = choose_columns(list(tables["train"]), title, data)
        rows = as_rows(tables, columns)
    except UserError:
        raise
    except Exception as error:  # of pandas, datasets, tarfile and others, with no base in common
        raise UserError(
            f"{path} cannot be read ({' '.join(str(error).split())[:300]}). Where it has several "
            f"configurations, choose one: data.config=NAME. Where it is damaged, fetch it again."
        ) from error
    if columns not in ([data.text, data.label], ["text", "label"]):
        text, label = map(join_names, ([column] for column in columns))
        progress.note(f"Column {text} is the text, {label} the label.")
    return make_corpus(rows, title, data.test_share)


def as_rows(tables: Mapping[str, pd.DataFrame], columns: Sequence[str]) -> pd.DataFrame:
    """Rows of all splits: split, text and label, None where a cell is empty or its column is not
    there. columns: names of that of texts and that of labels."""
    parts = []
    for split, table in tables.items():
        part = table.reindex(columns=list(columns)).set_axis(["text", "label"], axis=1)
        parts.append(part.astype(object).assign(split=split))
    rows = pd.concat(parts, ignore_index=True)
    return rows.where(rows.notna(), None)
