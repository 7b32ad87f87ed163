"""Names of variants: which runs are one variant, and what it is called."""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from attnexp.runs.labels import as_word


def name_variants(rows: pd.DataFrame) -> pd.DataFrame:
    """The same rows with the column variant: all runs with the same settings, vectors, code and
    kind of seeds. rows: as `read_runs.make_rows` gives them.

    A variant has its name and place from its study, and so have runs of a bare folder that are like
    it. Where that names several, the settings that differ are added, or what else tells them apart.
    Variants without a study are named by these settings alone, those closest to the defaults first.
    """
    runs = rows.drop_duplicates(["run_id", "label"])
    distance = runs["num_departures"].where(runs["label"] == "", -1)
    runs = runs.iloc[distance.argsort(kind="stable")].drop_duplicates("run_id")
    keys = runs["key"] + runs["seed_kind"]
    # variants of a study that differ by `seeds.*` alone have their labels besides
    labels = runs["label"].groupby([runs["study"], keys])
    keys += runs["label"].where(labels.transform("nunique") > 1, "")
    # two results for one seed have read something that no setting names
    is_repeated = runs["seed"].groupby([keys, runs["seed"]]).transform("size") > 1
    keys += runs["run_id"].where(is_repeated, "")
    names = _name_keys(runs.assign(key=keys).drop_duplicates("key"))
    return runs[["run_id"]].assign(variant=keys.map(names)).merge(rows, on="run_id")


def _name_keys(firsts: pd.DataFrame) -> dict[str, str]:
    """Names by key. firsts: one run of each key."""
    names: dict[str, str] = {}
    # runs that vary `seed` take a name before those of other kinds that have the same
    is_other_kind = firsts["seed_kind"] != "seed"
    for run in firsts.iloc[is_other_kind.argsort(kind="stable")].itertuples():
        namesakes = firsts.loc[firsts["label"] == run.label, "settings"]
        words = [run.label]
        for key, value in run.settings.items():
            # a setting that the others' pieces do not have says no more than the pieces do
            if any(settings.get(key, value) != value for settings in namesakes):
                words.append(as_word(key, value))
        name = " ".join(filter(None, words)) or run.default_label
        names[run.key] = next(text for text in _candidates(name, run) if text not in names.values())
    return names


def _candidates(name: str, run: Any) -> Iterator[str]:
    """The name, and with what tells it from a variant with the same name and the same settings."""
    yield name
    if run.seed_kind != "seed":
        yield f"{name} ({run.seed_kind})"
    yield f"{name} (code {run.run_id[-8:]})"
    yield f"{name} (run {run.run_id})"
