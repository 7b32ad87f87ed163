"""Names of variants: which runs are one variant, and what it is called."""

from collections.abc import Mapping

import pandas as pd

from attnexp.analysis.rows import RunRows
from attnexp.runs.labels import as_word


def name_variants(entries: pd.DataFrame, run_of: Mapping[str, RunRows]) -> pd.DataFrame:
    """The columns run_id and variant, in the order of the variants. entries: `RunRows.columns`, a
    row for each run and study that has it. run_of: the runs by id.

    A variant is all runs with the same settings, vectors, code and kind of seeds, but those are
    several where a study gives them several labels (its variants may differ by `seeds.*` alone),
    and where two of them have one seed (they differ by something that no setting names). It has the
    name and the place that its study gives it, also where it has more runs in a folder without a
    study. Variants without a study are named by the settings in which they differ, and those
    closest to the defaults come first.
    """
    # A run takes its label from the first study that has it; runs without a label come last.
    has_label = entries["label"] != ""
    unlabelled = entries[~has_label].sort_values("num_departures", kind="stable")
    runs = pd.concat([entries[has_label], unlabelled]).drop_duplicates("run_id")
    # Runs that are equal in these columns are one variant: the label is one of them where a study
    # has several labels, the id where a seed has several runs.
    same = ["key", "seed_kind"]
    for column, within in (("label", "study"), ("run_id", "seed")):
        num_values = runs.groupby([*same, within])[column].transform("nunique")
        runs[f"own_{column}"] = runs[column].where(num_values > 1, "")
        same.append(f"own_{column}")
    runs["number"] = runs.groupby(same, sort=False).ngroup()  # of the variant
    names = _name_variants(runs.drop_duplicates("number"), run_of)
    runs["variant"] = runs["number"].map(names)
    return runs[["run_id", "variant"]]


def _name_variants(variants: pd.DataFrame, run_of: Mapping[str, RunRows]) -> dict[int, str]:
    """Names by number: the label, and the settings in which variants of equal label differ.
    variants: the first run of each."""
    names: dict[int, str] = {}
    # Of variants with the same name those that vary `seed` keep it, so they come first.
    rows = sorted(variants.itertuples(), key=lambda row: row.seed_kind != "seed")
    for row in rows:
        run = run_of[row.run_id]
        namesakes = [run_of[other.run_id].setup for other in rows if other.label == row.label]
        words = [row.label] if row.label else []
        for key, value in run.setup.settings.items():
            # A key that a namesake lacks belongs to another kind of piece, which its kind shows.
            if any(setup.settings.get(key, value) != value for setup in namesakes):
                words.append(as_word(key, value))
        name = " ".join(words) or run.default_label
        if name in names.values() and row.seed_kind != "seed":
            name += f" ({row.seed_kind})"
        if name in names.values():
            name += f" (run {row.run_id})"
        names[row.number] = name
    return names
