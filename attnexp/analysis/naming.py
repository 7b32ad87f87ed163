"""Names of variants: which runs are one variant, and what it is called."""

import pandas as pd

from attnexp.runs.labels import as_word


def name_variants(runs: pd.DataFrame) -> pd.DataFrame:
    """The same rows with the column variant. runs: `RunRows.record`.

    A variant is all runs with the same settings, vectors, code and kind of seeds. It has the name
    and the place that its study gives it, also where it has more runs in a folder without a study.
    Variants without a study are named by the settings in which they differ, and those closest to
    the defaults come first.
    """
    # A run takes its label from the first study that has it; runs without a label come last.
    rank = runs["num_departures"].mask(runs["label"] != "", -1)
    firsts = runs.assign(rank=rank).sort_values("rank", kind="stable").drop_duplicates("run_id")

    firsts["identity"] = firsts["key"] + firsts["seed_kind"]
    # Variants of a study may differ by `seeds.*` alone.
    firsts["identity"] += _list_where_several(firsts, "label", ["identity", "study"])
    # Two results for one seed differ by something that no setting names.
    firsts["identity"] += _list_where_several(firsts, "run_id", ["identity", "seed"])

    names = _name_identities(firsts.drop_duplicates("identity"))
    firsts["variant"] = firsts["identity"].map(names)
    return firsts[["run_id", "variant"]].merge(runs, on="run_id")


def _list_where_several(runs: pd.DataFrame, column: str, keys: list[str]) -> "pd.Series[str]":
    """The texts of a column where runs of the same keys have several, else empty texts."""
    num_values = runs.groupby(keys)[column].transform("nunique")
    return runs[column].where(num_values > 1, "")


def _name_identities(variants: pd.DataFrame) -> dict[str, str]:
    """Names by identity: the label, and the settings in which variants of this label differ."""
    names: dict[str, str] = {}
    # Variants that vary `seed` take a name before those of other kinds that have the same.
    for run in sorted(variants.itertuples(), key=lambda run: run.seed_kind != "seed"):
        namesakes = variants.loc[variants["label"] == run.label, "setup"]
        words = [run.label] if run.label else []
        for key, value in run.setup.settings.items():
            # Where a namesake's component lacks the setting, the kinds of components differ.
            if any(setup.settings.get(key, value) != value for setup in namesakes):
                words.append(as_word(key, value))
        name = " ".join(words) or run.default_label
        if name in names.values() and run.seed_kind != "seed":
            name += f" ({run.seed_kind})"
        if name in names.values():
            name += f" (run {run.run_id})"
        names[run.identity] = name
    return names
