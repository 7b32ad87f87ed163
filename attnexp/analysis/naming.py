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
    has_label = runs["label"] != ""
    rank = runs["num_departures"].mask(has_label, -1)
    order = rank.argsort(kind="stable")
    runs = runs.iloc[order].drop_duplicates("run_id")

    # runs of one key are a variant
    key = runs["key"] + runs["seed_kind"]
    # labels tell variants of a study apart that differ by `seeds.*` alone
    labels = runs["label"].groupby([runs["study"], key])
    has_several_labels = labels.transform("nunique") > 1
    key += runs["label"].where(has_several_labels, "")
    # two results for one seed have read something that no setting names
    results = runs["run_id"].groupby([key, runs["seed"]])
    is_repeated = results.transform("size") > 1
    key += runs["run_id"].where(is_repeated, "")

    runs = runs.assign(key=key)
    names = _name_keys(runs.drop_duplicates("key"))
    runs["variant"] = runs["key"].map(names)
    return runs[["run_id", "variant"]].merge(rows, on="run_id")


def _name_keys(firsts: pd.DataFrame) -> dict[str, str]:
    """Names by key. firsts: one run of each key."""
    # runs that vary `seed` take a name before those of other kinds that have the same
    is_other_kind = firsts["seed_kind"] != "seed"
    order = is_other_kind.argsort(kind="stable")
    names: dict[str, str] = {}
    for run in firsts.iloc[order].itertuples():
        namesakes = firsts[firsts["label"] == run.label]
        words = [run.label] if run.label else []
        for key, value in run.settings.items():
            # a setting that pieces of namesakes do not have says no more than the pieces do
            values = [settings.get(key, value) for settings in namesakes["settings"]]
            if any(namesake_value != value for namesake_value in values):
                words.append(as_word(key, value))
        name = " ".join(words) or run.default_label
        # what else tells variants apart that have the same name
        candidates = [name]
        if run.seed_kind != "seed":
            candidates.append(f"{name} ({run.seed_kind})")
        candidates.append(f"{name} (code {run.run_id[-8:]})")
        candidates.append(f"{name} (run {run.run_id})")
        unused = [text for text in candidates if text not in names.values()]
        names[run.key] = unused[0]
    return names
