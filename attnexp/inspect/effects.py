"""What `attnexp probe` measured, as one frame: of runs by their `probe.json`, or of a published
file; and what it says over the seeds of a variant.

Rows of interventions have the columns data, variant, seed, intervention, num_texts, accuracy (of
the untouched model), changed_accuracy, flips (share of answers that change), won and lost (which
texts became right and wrong, as bits: `numpy.packbits`). Rows of `attention`, which is measured on
the untouched model, have measure and value instead.
"""

import base64
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, reading
from attnexp.statistics.crossed import crossed, widen
from attnexp.statistics.intervals import t_interval

FILE = "probe.json"
SCHEMA = 3

COLUMNS = """data variant seed intervention num_texts accuracy changed_accuracy flips won lost
    measure value""".split()
EFFECTS = """data variant intervention num_texts metric n mean sd low high texts_low texts_high
    flips""".split()

Row = dict[str, Any]  # of `probe.json`, without data, variant and seed; bits are in base64


def load_rows(folder: Path) -> list[Row]:
    """The rows in a run's folder; none if they are another program's, or (noted) not readable."""
    file = folder / FILE
    if not file.exists():
        return []
    try:
        with reading(file, "Measured again."):
            document = json.loads(file.read_bytes())
            if document["schema"] != SCHEMA:
                return []
            rows: list[Row] = document["rows"]
            for row in rows:
                if "measure" in row:  # of attention, without bits
                    float(row["value"])
                    continue
                num_bytes = math.ceil(row["num_texts"] / 8)
                for name in ("won", "lost"):
                    if len(base64.b64decode(row[name])) != num_bytes:
                        raise ValueError(f"{row['intervention']}: {name} is cut")
            return rows
    except UserError as error:
        progress.note(str(error))
        return []


def save_rows(folder: Path, rows: Sequence[Row]) -> None:
    """Store the rows of a run in its folder."""
    document = json.dumps({"schema": SCHEMA, "rows": rows})
    with atomic_write(folder / FILE) as file:
        file.write(document.encode())


def as_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Rows of several runs, with data, variant and seed."""
    frame = pd.DataFrame(rows, columns=COLUMNS)
    for name in ("won", "lost"):
        frame[name] = frame[name].map(base64.b64decode, na_action="ignore")
    return frame


def read_published(file: Path, words: Sequence[str]) -> pd.DataFrame:
    """Published rows of the interventions that words name. Raises `UserError` without any."""
    with reading(file, "It is no published file of probe."):
        rows = pd.read_parquet(file, columns=COLUMNS)
    interventions = rows["intervention"]
    names = interventions.str.partition("=")[0]
    is_chosen = names.isin(words) | interventions.isin(words)
    chosen = rows[is_chosen]
    if chosen.empty:
        asked = ", ".join(words)
        published = ", ".join(names.unique())
        raise UserError(f"{file} has none of {asked}. It has {published}.")
    return chosen


def estimate_effects(frame: pd.DataFrame) -> pd.DataFrame:
    """Over the seeds of each variant, a row for each intervention (metric accuracy: the change from
    the untouched model, paired by seed, as a share) and for each measure of attention.

    Columns: `EFFECTS`. low and high are the 95 % interval for other seeds, texts_low and texts_high
    that for other texts too; flips is the share of answers that change.
    """
    effects: list[Row] = []
    keys = ["data", "variant", "intervention", "num_texts", "measure"]
    groups = frame.groupby(keys, sort=False, dropna=False)
    for key, rows in groups:
        effect = dict(zip(keys, key, strict=True))
        if isinstance(effect["measure"], str):
            level = t_interval(rows["value"])
            effect |= {"metric": effect["measure"], **level._asdict()}
            if level.n > 1:  # entropies and shares lie in 0 to 1
                effect["low"] = max(level.low, 0.0)
                effect["high"] = min(level.high, 1.0)
        else:
            effect |= {"metric": "accuracy", **_estimate_change(rows)}
        effects.append(effect)
    return pd.DataFrame(effects, columns=EFFECTS)


def _estimate_change(rows: pd.DataFrame) -> Row:
    """The effect of an intervention on accuracy, from a row a seed of equally many texts."""
    num_texts = int(rows["num_texts"].iloc[0])
    bits = {}
    for name in ("won", "lost"):
        by_seed = [np.frombuffer(packed, np.uint8) for packed in rows[name]]
        unpacked = np.unpackbits(np.array(by_seed), axis=-1, count=num_texts)
        bits[name] = unpacked.astype(float)
    # 1 where a text became right, -1 where wrong: (seeds, texts)
    change = bits["won"] - bits["lost"]
    seeds = t_interval(change.mean(axis=1), step=1 / num_texts)
    effect = seeds._asdict()
    effect["flips"] = rows["flips"].mean()
    texts = crossed(change)
    if texts is not None:
        low, high = widen(texts, seeds)
        effect |= {"texts_low": low, "texts_high": high}
    return effect


def note_on_heads(effects: pd.DataFrame) -> list[str]:
    """A line on the intervals of heads, where effects have any over several seeds."""
    averages = effects[effects["n"] > 1]
    is_without_head = averages["intervention"].str.startswith("no_head=")
    is_of_head = averages["metric"].str.contains(", head ")
    if not (is_without_head | is_of_head).any():
        return []
    return ["Heads are averaged over seeds; the folder of a run gives those of one seed."]
