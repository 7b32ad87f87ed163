"""Names of variants: which runs are one variant, and what it is called."""

import pandas as pd

from attnexp.runs.labels import as_word


def name_variants(runs: pd.DataFrame) -> pd.DataFrame:
    """The rows with the column variant, in the order of variants. runs: `RunRows.record`.

    A variant is all runs with the same settings, vectors, code and kind of seeds. It has the name
    and the place that its study gives it, also where it has more runs in a folder without a study.
    Variants without a study are named by the settings in which they differ, and those closest to
    the defaults come first.
    """
    # A run takes its label from the first study that has it; runs without a label come last.
    has_label = runs["label"] != ""
    unlabelled = runs[~has_label].sort_values("num_departures", kind="stable")
    once = pd.concat([runs[has_label], unlabelled]).drop_duplicates("run_id")

    once["identity"] = once["key"] + once["seed_kind"]  # Equal in one variant; split below.
    # Variants of a study may differ by `seeds.*` alone.
    once["identity"] += _where_several(once, "label", within=["identity", "study"])
    # Two results for one seed differ by something that no setting names.
    once["identity"] += _where_several(once, "run_id", within=["identity", "seed"])

    names = _name_identities(once.drop_duplicates("identity"))
    once["variant"] = once["identity"].map(names)
    return once[["run_id", "variant"]].merge(runs, on="run_id")


def _where_several(runs: pd.DataFrame, column: str, *, within: list[str]) -> "pd.Series[str]":
    """The texts of a column where runs that are equal in the columns `within` have several of them,
    else empty texts."""
    num_values = runs.groupby(within)[column].transform("nunique")
    return runs[column].where(num_values > 1, "")


def _name_identities(variants: pd.DataFrame) -> dict[str, str]:
    """Names by identity: the label, and the settings in which variants of equal label differ."""
    names: dict[str, str] = {}
    # Of variants with the same name those that vary `seed` keep it, so they come first.
    for run in sorted(variants.itertuples(), key=lambda run: run.seed_kind != "seed"):
        namesakes = variants.loc[variants["label"] == run.label, "setup"]
        words = [run.label] if run.label else []
        for key, value in run.setup.settings.items():
            # A key that a namesake lacks belongs to another kind of piece, which its kind shows.
            if any(setup.settings.get(key, value) != value for setup in namesakes):
                words.append(as_word(key, value))
        name = " ".join(words) or run.default_label
        if name in names.values() and run.seed_kind != "seed":
            name += f" ({run.seed_kind})"
        if name in names.values():
            name += f" (run {run.run_id})"
        names[run.identity] = name
    return names
