"""Names of variants: which runs are one variant, and what it is called."""

import pandas as pd

from attnexp.runs.labels import as_word


def name_variants(rows: pd.DataFrame) -> pd.DataFrame:
    """The same rows with the column variant: all runs with the same settings, vectors, code and
    kind of seeds. rows: as in `analysis.rows`.

    A variant has its name and place from its study, and so have runs of a bare folder that are like
    it. Where that names several, the settings that differ are added, or what else tells them apart.
    Variants without a study are named by these settings alone, those closest to the defaults first.
    """
    runs = rows.drop_duplicates(["run_id", "label"])
    # a run takes its label from the first study that has it; runs without a label come last
    rank = runs["num_departures"].where(runs["label"] == "", -1)
    runs = runs.iloc[rank.argsort(kind="stable")].drop_duplicates("run_id")

    # runs of one key are a variant
    runs = runs.assign(key=runs["key"] + runs["seed_kind"])
    # labels tell variants of a study apart that differ by `seeds.*` alone
    num_labels = runs.groupby(["study", "key"])["label"].transform("nunique")
    runs["key"] += runs["label"].where(num_labels > 1, "")
    # two results for one seed have read something that no setting names
    num_results = runs.groupby(["key", "seed"])["run_id"].transform("size")
    runs["key"] += runs["run_id"].where(num_results > 1, "")

    names = _name_keys(runs.drop_duplicates("key"))
    runs["variant"] = runs["key"].map(names)
    return runs[["run_id", "variant"]].merge(rows, on="run_id")


def _name_keys(firsts: pd.DataFrame) -> dict[str, str]:
    """Names by key. firsts: one run of each key."""
    # runs that vary `seed` take a name before those of other kinds that have the same
    is_other_kind = firsts["seed_kind"] != "seed"
    names: dict[str, str] = {}
    for run in firsts.iloc[is_other_kind.argsort(kind="stable")].itertuples():
        namesakes = firsts.loc[firsts["label"] == run.label, "settings"]
        words = [run.label] if run.label else []
        for key, value in run.settings.items():
            # a setting that the others' pieces do not have says no more than the pieces do
            values = [settings.get(key, value) for settings in namesakes]
            if any(namesake_value != value for namesake_value in values):
                words.append(as_word(key, value))
        name = " ".join(words) or run.default_label
        # what tells variants apart that have the same name and the same settings
        candidates = [name, f"{name} (code {run.run_id[-8:]})", f"{name} (run {run.run_id})"]
        if run.seed_kind != "seed":
            candidates.insert(1, f"{name} ({run.seed_kind})")
        unused = [text for text in candidates if text not in names.values()]
        names[run.key] = unused[0]
    return names
