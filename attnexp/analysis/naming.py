"""Names of variants: which runs are one variant, and what it is called."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from attnexp.runs.labels import as_word

Tree = dict[str, Any]


def name_variants(runs: pd.DataFrame, settings_of: Mapping[str, Tree]) -> pd.DataFrame:
    """The same rows with the column variant. runs: `RunRows.record`. settings_of: by key.

    A variant is all runs with the same settings, vectors, code and kind of seeds. It has the name
    and the place that its study gives it, also where it has more runs in a folder without a study.
    Variants without a study are named by the settings in which they differ, and those closest to
    the defaults come first.
    """
    # A run takes its label from the first study that has it; runs without a label come last.
    rank = runs["num_departures"].mask(runs["label"] != "", -1)
    firsts = runs.assign(rank=rank).sort_values("rank", kind="stable").drop_duplicates("run_id")

    identity = firsts["key"] + firsts["seed_kind"]
    # Variants of a study may differ by `seeds.*` alone.
    num_labels = firsts.groupby(["study", identity])["label"].transform("nunique")
    identity += firsts["label"].where(num_labels > 1, "")
    # Two results for one seed differ by something that no setting names.
    num_results = firsts.groupby([identity, "seed"])["run_id"].transform("nunique")
    identity += firsts["run_id"].where(num_results > 1, "")

    variants = firsts.assign(identity=identity).drop_duplicates("identity")
    firsts["variant"] = identity.map(_name_identities(variants, settings_of))
    return firsts[["run_id", "variant"]].merge(runs, on="run_id")


def _name_identities(variants: pd.DataFrame, settings_of: Mapping[str, Tree]) -> dict[str, str]:
    """Names by identity: the label, and the settings that differ from variants of this label."""
    names: dict[str, str] = {}
    # Variants that vary `seed` take a name before those of other kinds that have the same.
    for run in sorted(variants.itertuples(), key=lambda run: run.seed_kind != "seed"):
        namesakes = variants.loc[variants["label"] == run.label, "key"].map(settings_of)
        words = [run.label] if run.label else []
        for key, value in settings_of[run.key].items():
            # A setting that components of namesakes do not have says no more than these do.
            if any(settings.get(key, value) != value for settings in namesakes):
                words.append(as_word(key, value))
        name = " ".join(words) or run.default_label
        if name in names.values() and run.seed_kind != "seed":
            name += f" ({run.seed_kind})"
        if name in names.values():
            name += f" (run {run.run_id})"
        names[run.identity] = name
    return names
