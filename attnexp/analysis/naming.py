"""Names of variants: which runs are one variant, and what it is called."""

import pandas as pd

from attnexp.runs.labels import as_word


def name_variants(entries: pd.DataFrame) -> pd.DataFrame:
    """The entries of a group, see make_groups.py, with their variants.

    Runs with the same settings, vectors, code and kind of seeds are one variant, but
    1. labels that one study tells apart stay apart: its variants may differ by `seeds.*` alone;
    2. where two such runs have the same seed, each is a variant: no setting names what differs.
    A variant has the name and the place that its study gives it, also where it has more runs in a
    folder without a study. Variants without a study come last, closest to the defaults first."""
    # A run takes its label and kind of seeds from the first study that has it.
    runs = entries.sort_values("distance", kind="stable").drop_duplicates("run_id")
    same = ["key", "seed_kind"]
    num_labels = runs.groupby([*same, "study"])["label"].transform("nunique")
    runs["separating_label"] = runs["label"].where(num_labels > 1, "")  # rule 1
    num_runs = runs.groupby([*same, "separating_label", "seed"])["run_id"].transform("size")
    runs["separating_id"] = runs["run_id"].where(num_runs > 1, "")  # rule 2
    identity = [*same, "separating_label", "separating_id"]
    runs["number"] = runs.groupby(identity, sort=False).ngroup()
    names = _names_by_number(runs.drop_duplicates("number"))
    runs["variant"] = runs["number"].map(names)
    named = runs[["run_id", "seed_kind", "variant"]]
    # A run that studies of two kinds of seeds share counts for the first alone.
    return named.merge(entries, on=["run_id", "seed_kind"])


def _names_by_number(variants: pd.DataFrame) -> dict[int, str]:
    """Names by number, such as `pe`; where variants have equal names `pe model.heads=4`, or
    `pe (seeds.init)`, or `pe (run ID)`. variants: the first run of each."""
    names: dict[int, str] = {}
    # Of variants with the same name those that vary `seed` keep it, so they come first.
    rows = sorted(variants.itertuples(), key=lambda row: row.seed_kind != "seed")
    for row in rows:
        namesakes = [other.setup.settings for other in rows if other.label == row.label]
        words = [row.label] if row.label else []
        for key, value in row.setup.settings.items():
            # A key that a namesake lacks belongs to another kind of piece, which its kind shows.
            if any(other.get(key, value) != value for other in namesakes):
                words.append(as_word(key, value))
        name = " ".join(words) or row.default_label
        if name in names.values() and row.seed_kind != "seed":
            name += f" ({row.seed_kind})"
        if name in names.values():
            name += f" (run {row.run_id})"
        names[row.number] = name
    return names
