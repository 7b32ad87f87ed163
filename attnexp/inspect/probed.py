"""What `attnexp probe` found, as one frame: of runs by their `probe.json`, or of a published file.

Rows of interventions have the columns data, variant, seed, intervention, num_texts, accuracy (of
the untouched model), changed_accuracy, flips (share of answers that change), won and lost (which
texts became right and wrong, as bits: `numpy.packbits`). Rows of `attention`, which is measured on
the untouched model, have measure and value instead.
"""

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attnexp.base.files import atomic_write
from attnexp.statistics.crossed import crossed
from attnexp.statistics.intervals import t_interval

FILE, SCHEMA = "probe.json", 3

COLUMNS = """data variant seed intervention num_texts accuracy changed_accuracy flips won lost
    measure value""".split()
EFFECTS = """data variant intervention num_texts metric n mean sd low high texts_low texts_high
    flips""".split()

Row = dict[str, Any]  # of `probe.json`, without data, variant and seed; bits are in base64


def load(folder: Path) -> list[Row]:
    """The rows that are stored in the folder of a run."""
    file = folder / FILE
    tree = json.loads(file.read_bytes()) if file.exists() else {}
    return tree["rows"] if tree.get("schema") == SCHEMA else []


def save(folder: Path, rows: Sequence[Row]) -> None:
    """Store the rows of a run in its folder."""
    with atomic_write(folder / FILE) as file:
        file.write(json.dumps({"schema": SCHEMA, "rows": rows}).encode())


def frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Rows of several runs, with data, variant and seed."""
    found = pd.DataFrame(rows, columns=COLUMNS)
    for name in ("won", "lost"):
        found[name] = found[name].map(base64.b64decode, na_action="ignore")
    return found


def effects(found: pd.DataFrame) -> pd.DataFrame:
    """Over the seeds of each variant, a row for each intervention (metric accuracy: the change from
    the untouched model, paired by seed, as a share) and for each measure of attention.

    Columns: `EFFECTS`. low and high are the 95 % interval for other seeds, texts_low and texts_high
    that for other texts too; flips is the share of answers that change.
    """
    keys, rows = EFFECTS[:4], list[dict[str, Any]]()
    for (*key, measure), own in found.groupby([*keys, "measure"], sort=False, dropna=False):
        row = dict(zip(keys, key, strict=True))
        if isinstance(measure, str):
            rows.append(row | {"metric": measure} | t_interval(own["value"])._asdict())
            continue
        n = int(row["num_texts"])
        packed = [[np.frombuffer(bits, np.uint8) for bits in own[name]] for name in ("won", "lost")]
        won, lost = np.unpackbits(np.array(packed), axis=-1, count=n).astype(float)
        d = won - lost  # (seeds, texts)
        seeds, texts = t_interval(d.mean(axis=1), step=1 / n), crossed(d)
        row |= {"metric": "accuracy", **seeds._asdict(), "flips": own["flips"].mean()}
        if texts is not None:  # never narrower
            row["texts_low"] = min(texts.low, seeds.low)
            row["texts_high"] = max(texts.high, seeds.high)
        rows.append(row)
    return pd.DataFrame(rows, columns=EFFECTS)
