"""`attnexp probe`: finished runs under interventions, as groups of variants.

A model under an intervention is a variant, such as `pe, shuffle`, and so is each of its heads, `pe,
head 1`: `compare` judges them like any other. Rows here are those of `measure`, with data, variant
(that of the untouched model) and seed.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd

from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.families import Family, difference
from attnexp.analysis.group import Group
from attnexp.analysis.read_runs import load_groups
from attnexp.base.errors import UserError
from attnexp.base.files import reading
from attnexp.inspect.interventions import DEFAULT
from attnexp.inspect.measure import UNTOUCHED, Row, probe_run
from attnexp.runs.find import load_run

METRICS = ["accuracy", "flips", "entropy"]  # flips: share of answers that change


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
    fails, and a run that cannot be evaluated."""
    words = words or DEFAULT
    rows: list[Row] = []
    notes: list[str] = []
    folders: list[Path] = []
    for path in paths:
        name = str(path).removesuffix(".parquet").removesuffix(".probe")
        file = Path(f"{name}.probe.parquet")
        if file.exists():
            rows += read_published(file, words)
        else:
            folders.append(path)
    for group in load_groups(folders) if folders else []:
        for run in group.runs.itertuples():
            if run.folder is None:
                raise UserError("A published study holds no models. Name folders of your own runs.")
            measured, impossible = probe_run(
                load_run(run.folder), words, limit, trust_code=trust_code, any_code=any_code
            )
            about = {"data": group.data, "variant": run.variant, "seed": run.seed}
            rows += [about | row for row in measured]
            notes += [f"{run.variant}, {line}" for line in impossible]
    frame = pd.DataFrame(rows)
    suffix = frame["name"].radd(", ").where(frame["name"] != UNTOUCHED, "")
    frame = frame.assign(untouched=frame["variant"], variant=frame["variant"] + suffix)
    groups = []
    for (source, num_texts), own in frame.groupby(["data", "num_texts"], sort=False):
        groups.append(_make_group(source, num_texts, own, list(dict.fromkeys(notes))))
    return groups


def read_published(file: Path, words: Sequence[str]) -> list[Row]:
    """Rows of the untouched models and of the interventions that words name. The file holds which
    texts an intervention won and lost: right is 1 and -1 there, and 0 for all texts of the
    untouched model, so that differences are those of the answers. Raises `UserError` without any.
    """
    with reading(file, "It is no published file of probe."):
        frame = pd.read_parquet(file)
        names = frame["intervention"]
        is_named = names.isin(words) | names.str.partition("=")[0].isin(words)
        if not is_named.any():
            raise UserError(f"{file} has none of {', '.join(words)}.")
        return list(frame[is_named | (names == UNTOUCHED)].to_dict("records"))


def _make_group(source: str, num_texts: int, rows: pd.DataFrame, notes: list[str]) -> Group:
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
        variants=list(rows["variant"].unique()),
        endpoints=endpoints.astype({"value": float}),
        epochs=endpoints.iloc[:0],
        families=[_make_family(own) for _, own in answers.groupby("untouched", sort=False)],
        right={
            (row.variant, row.seed, row.point): np.asarray(row.right, float)
            for row in answers.itertuples()
        },
        num_texts={RESULT.name: num_texts},
        notes=notes,
    )


def _make_family(rows: pd.DataFrame) -> Family:
    """The difference that each intervention makes to a model; rows: of this model alone."""
    changed = rows[rows["name"] != UNTOUCHED].drop_duplicates("variant")
    family = []
    for row in changed.itertuples():
        contrast = difference(row.variant, row.untouched)
        family.append(replace(contrast, variant_level=row.name))
    return family
