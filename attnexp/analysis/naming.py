"""Names of variants: which runs are one variant, and what it is called."""

import json
from collections.abc import Collection
from typing import Any

import pandas as pd

from attnexp.runs.labels import as_word, settings


def kind_of_seeds(config: dict[str, Any]) -> str:
    """The source of chance that differs between runs: `seed`, or those of `seeds.` that a config
    sets, such as `seeds.init`. Runs of different kinds are never pooled."""
    sources = [f"seeds.{name}" for name, number in config["seeds"].items() if number is not None]
    return " ".join(sources) or "seed"


def settings_and_code(row: dict[str, Any]) -> str:
    """What runs of one variant have in common, but for their seeds. row: config, code, vectors."""
    return json.dumps([settings(row["config"]), row["code"], row["vectors"]], sort_keys=True)


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
    runs = runs.assign(settings=runs["config"].map(settings))
    runs = runs.assign(key=_keys(runs))
    names = _name_keys(runs.drop_duplicates("key"))
    return runs[["run_id"]].assign(variant=runs["key"].map(names)).merge(rows, on="run_id")


def _keys(runs: pd.DataFrame) -> "pd.Series[str]":
    """What runs of one variant have in common, as text."""
    columns = runs[["config", "code", "vectors"]].to_dict("records")
    keys = pd.Series([settings_and_code(run) for run in columns], runs.index)
    keys += runs["seed_kind"]
    # variants of a study that differ by `seeds.*` alone have their labels besides
    labels = runs["label"].groupby([runs["study"], keys])
    keys += runs["label"].where(labels.transform("nunique") > 1, "")
    # two results for one seed have read something that no setting names
    is_repeated = runs["seed"].groupby([keys, runs["seed"]]).transform("size") > 1
    return keys + runs["run_id"].where(is_repeated, "")


def _name_keys(firsts: pd.DataFrame) -> dict[str, str]:
    """Names by key. firsts: one run of each key."""
    names: dict[str, str] = {}
    # runs that vary `seed` take a name before those of other kinds that have the same
    is_other_kind = firsts["seed_kind"] != "seed"
    for run in firsts.iloc[is_other_kind.argsort(kind="stable")].itertuples():
        namesakes = firsts.loc[firsts["label"] == run.label, "settings"]
        differing = [
            as_word(key, value)
            for key, value in run.settings.items()
            if _differs(key, value, namesakes)
        ]
        name = " ".join(filter(None, [run.label, *differing])) or run.default_label
        names[run.key] = _tell_apart(name, names.values(), run)
    return names


def _differs(key: str, value: Any, namesakes: "pd.Series[Any]") -> bool:
    """Whether a setting has another value in another variant. One that the others' pieces do not
    have says no more than the pieces do."""
    return any(settings.get(key, value) != value for settings in namesakes)


def _tell_apart(name: str, taken: Collection[str], run: Any) -> str:
    """The name, with what tells it from a variant with the same name and the same settings."""
    suffixes = [f" (code {run.run_id[-8:]})", f" (run {run.run_id})"]
    if run.seed_kind != "seed":
        suffixes.insert(0, f" ({run.seed_kind})")
    for suffix in ["", *suffixes]:
        if name + suffix not in taken:
            return name + suffix
    raise AssertionError("an id names one run")
