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
    rank = runs["num_departures"].mask(runs["label"] != "", -1)
    runs = runs.assign(rank=rank).sort_values("rank", kind="stable")
    runs = runs.drop_duplicates("run_id")

    # Runs of one key are a variant. Variants of a study may differ by `seeds.*` alone, and two
    # results for one seed differ by what no setting names.
    runs["key"] += runs["seed_kind"]
    for column, keys in (("label", ["study", "key"]), ("run_id", ["key", "seed"])):
        num_values = runs.groupby(keys)[column].transform("nunique")
        runs["key"] += runs[column].where(num_values > 1, "")

    names = _name_keys(runs.drop_duplicates("key"))
    runs["variant"] = runs["key"].map(names)
    variants = runs[["run_id", "variant"]]
    return variants.merge(rows, on="run_id")


def _name_keys(firsts: pd.DataFrame) -> dict[str, str]:
    """Names by key. firsts: one run of each key."""
    names: dict[str, str] = {}
    # runs that vary `seed` take a name before those of other kinds that have the same
    for run in sorted(firsts.itertuples(), key=lambda run: run.seed_kind != "seed"):
        namesakes = firsts[firsts["label"] == run.label]
        words = [run.label] if run.label else []
        for key, value in run.settings.items():
            # a setting that pieces of namesakes do not have says no more than the pieces do
            differs = [settings.get(key, value) != value for settings in namesakes["settings"]]
            if any(differs):
                words.append(as_word(key, value))
        name = " ".join(words) or run.default_label
        # what else tells variants apart that have the same name
        suffixes = ["", f" (code {run.run_id.partition('-')[2]})", f" (run {run.run_id})"]
        if run.seed_kind != "seed":
            suffixes.insert(1, f" ({run.seed_kind})")
        candidates = [name + suffix for suffix in suffixes]
        unused = [text for text in candidates if text not in names.values()]
        names[run.key] = unused[0]
    return names
