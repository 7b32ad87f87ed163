"""`attnexp probe`: finished runs under interventions, as groups of variants.

A model under an intervention is a variant, such as `pe, shuffle`, and so is each of its heads, `pe,
head 1`: `compare` judges them like any other. Frames here have a row for each of them and seed:
data, variant (that of the untouched model), seed, name (what is added to the variant; empty for the
untouched model), num_texts, right (an array with a number for each test text) and metrics.
"""

import base64
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pandas as pd

from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.families import Family, difference
from attnexp.analysis.group import Group
from attnexp.analysis.read_runs import load_groups
from attnexp.base.errors import UserError
from attnexp.base.files import reading
from attnexp.inspect.interventions import DEFAULT
from attnexp.inspect.measure import UNTOUCHED, Row, probe_run
from attnexp.runs.manifest import load_run
from attnexp.runs.predictions import unpack

KEYS = ["data", "variant", "seed", "name", "num_texts"]
METRICS = ["accuracy", "flips", "entropy", "distance"]  # flips: share of answers that change
HEADS = "Heads are averaged over seeds; the folder of a run gives those of one seed."


def probe_studies(
    paths: Sequence[Path],
    words: Sequence[str] = (),
    *,
    limit: int | None = None,
    trust_code: bool = False,
    any_code: bool = False,
) -> list[Group]:
    """Groups of the models under interventions, with notes on what cannot be done.

    paths: of runs, studies and published studies. words: as `choose_interventions` reads them, or
    the defaults. limit: texts of the test set. Raises `UserError` for a wrong word, a function that
    fails, a run that cannot be evaluated, and where nothing can be measured."""
    words = words or DEFAULT
    frames: list[pd.DataFrame] = []
    folders: list[Path] = []
    for path in paths:
        name = str(path).removesuffix(".parquet").removesuffix(".probe")
        file = Path(f"{name}.probe.parquet")
        if file.exists():
            frames.append(read_published(file, words))
        else:
            folders.append(path)
    notes: list[str] = []
    for group in load_groups(folders) if folders else []:
        for row in group.runs.itertuples():
            if row.folder is None:
                raise UserError("A published study holds no models. Name folders of your own runs.")
            run = load_run(row.folder)
            measured, impossible = probe_run(
                run, words, limit, trust_code=trust_code, any_code=any_code
            )
            about = {"data": group.data, "variant": row.variant, "seed": row.seed}
            frames.append(pd.DataFrame(map(_unpack_row, measured)).assign(**about))
            notes += [f"{row.variant}, {line}" for line in impossible]
    rows = pd.concat(frames)
    if (rows["name"] == UNTOUCHED).all():
        reasons = "; ".join(dict.fromkeys(notes))
        raise UserError(f"Nothing can be measured here: {reasons}.")
    return _make_groups(rows, notes)


def read_published(file: Path, words: Sequence[str]) -> pd.DataFrame:
    """The interventions that words name. Raises `UserError` without any. A published file holds
    which texts an intervention won and lost: right is 1 and -1 there, and 0 for all texts of the
    untouched model, so that differences are those of the answers."""
    with reading(file, "It is no published file of probe."):
        published = pd.read_parquet(file)
        names = published["intervention"].str.partition("=")[0]
        chosen = published[names.isin(words) | published["intervention"].isin(words)]
    if chosen.empty:
        asked = ", ".join(words)
        has = ", ".join(names.unique())
        raise UserError(f"{file} has none of {asked}. It has {has}.")
    chosen = chosen.rename(columns={"intervention": "name"})
    after = chosen[chosen["measure"].isna()]
    columns = [after[name] for name in ("won", "lost", "num_texts")]
    right = [
        unpack(won, n).astype(float) - unpack(lost, n)
        for won, lost, n in zip(*columns, strict=True)
    ]
    after = after.assign(right=right)
    before = after.assign(name=UNTOUCHED, flips=0.0, right=0 * after["right"])
    after["accuracy"] = after["changed_accuracy"]
    heads = chosen[chosen["measure"].notna()].drop(columns="name")
    heads = heads.join(heads["measure"].str.extract("(?P<metric>.*), (?P<name>.*)"))
    levels = heads.pivot(index=KEYS, columns="metric", values="value").reset_index()
    columns = [*KEYS, "accuracy", "flips", "right"]
    return pd.concat([before.drop_duplicates(KEYS)[columns], after[columns], levels])


def _unpack_row(row: Row) -> Row:
    """A row of `probe_run` with its answers as an array."""
    if "right" not in row:
        return row
    packed = base64.b64decode(row["right"])
    return row | {"right": unpack(packed, row["num_texts"]).astype(float)}


def _make_groups(rows: pd.DataFrame, notes: list[str]) -> list[Group]:
    """A group for each data set and number of texts, of models beside their interventions."""
    if rows["name"].str.contains("head").any() and rows["seed"].nunique() > 1:
        notes.append(HEADS)
    suffix = rows["name"].radd(", ").where(rows["name"] != UNTOUCHED, "")
    rows = rows.assign(untouched=rows["variant"], variant=rows["variant"] + suffix)
    order = list(rows["untouched"].unique())
    rows = rows.sort_values("untouched", key=lambda names: names.map(order.index), kind="stable")
    groups = []
    for (source, num_texts), own in rows.groupby(["data", "num_texts"], sort=False):
        group = _make_group(source, num_texts, own)
        groups.append(replace(group, notes=list(dict.fromkeys(notes))))
    return groups


def _make_group(source: str, num_texts: int, rows: pd.DataFrame) -> Group:
    """The group of one data set. The interventions on one model are a family."""
    data = f"{source}, {num_texts:,} texts"
    rows = rows.assign(data=data, protocol="", point=RESULT.name, epoch=math.nan)
    metrics = [name for name in METRICS if name in rows]
    keys = ["data", "protocol", "variant", "seed", "point", "epoch"]
    endpoints = rows.melt(keys, metrics, "metric").dropna(subset="value")
    answers = rows.dropna(subset="right")
    return Group(
        data=data,
        source=source,
        protocol="",
        variants=list(rows["variant"].unique()),
        points=[RESULT],
        endpoints=endpoints.astype({"value": float}),
        epochs=endpoints.iloc[:0],
        families=[_make_family(own) for _, own in answers.groupby("untouched", sort=False)],
        right={(row.variant, row.seed, row.point): row.right for row in answers.itertuples()},
        num_texts={RESULT.name: num_texts},
    )


def _make_family(rows: pd.DataFrame) -> Family:
    """The difference that each intervention makes to a model; rows: of this model alone."""
    changed = rows[rows["name"] != UNTOUCHED].drop_duplicates("variant")
    family = []
    for row in changed.itertuples():
        contrast = difference(row.variant, row.untouched)
        family.append(replace(contrast, variant_level=row.name))
    return family
