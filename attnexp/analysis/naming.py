"""Names of variants: which runs are one variant, and what it is called."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from attnexp.runs.labels import as_word

Tree = dict[str, Any]


def name_variants(runs: pd.DataFrame, settings_of: Mapping[str, Tree]) -> pd.DataFrame:
    """The same runs with the column variant: all with the same settings, vectors, code and kind of
    seeds. runs: `RunRows.record`. settings_of: by key.

    A variant has its name and place from its study, and so have runs of a bare folder that are like
    it. Where that names several, the settings that differ are added, or what else tells them apart.
    Variants without a study are named by these settings alone, those closest to the defaults first.
    """
    # a run takes its label from the first study that has it; runs without a label come last
    rank = runs["num_departures"].mask(runs["label"] != "", -1)
    firsts = runs.assign(rank=rank).sort_values("rank", kind="stable").drop_duplicates("run_id")

    # Runs of one key are a variant. Variants of a study may differ by `seeds.*` alone, and two
    # results for one seed differ by what no setting names.
    firsts["identity"] = firsts["key"] + firsts["seed_kind"]
    for column, keys in (("label", ["study", "identity"]), ("run_id", ["identity", "seed"])):
        num_values = firsts.groupby(keys)[column].transform("nunique")
        firsts["identity"] += firsts[column].where(num_values > 1, "")

    names = _name_identities(firsts.drop_duplicates("identity"), settings_of)
    firsts["variant"] = firsts["identity"].map(names)
    return firsts[["run_id", "variant"]].merge(runs, on="run_id")


def _name_identities(firsts: pd.DataFrame, settings_of: Mapping[str, Tree]) -> dict[str, str]:
    """Names by identity. firsts: one run of each."""
    names: dict[str, str] = {}
    # runs that vary `seed` take a name before those of other kinds that have the same
    for run in sorted(firsts.itertuples(), key=lambda run: run.seed_kind != "seed"):
        namesakes = firsts[firsts["label"] == run.label]
        words = [run.label] if run.label else []
        for key, value in settings_of[run.key].items():
            # a setting that pieces of namesakes do not have says no more than the pieces do
            differs = [settings_of[other].get(key, value) != value for other in namesakes["key"]]
            if any(differs):
                words.append(as_word(key, value))
        name = " ".join(words) or run.default_label
        # what else tells variants apart that have the same name
        suffixes = ["", f" (code {run.run_id.partition('-')[2]})", f" (run {run.run_id})"]
        if run.seed_kind != "seed":
            suffixes.insert(1, f" ({run.seed_kind})")
        candidates = [name + suffix for suffix in suffixes]
        unused = [text for text in candidates if text not in names.values()]
        names[run.identity] = unused[0]
    return names
