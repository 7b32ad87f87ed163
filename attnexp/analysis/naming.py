"""Names of variants: which runs are one variant, and what it is called."""

import pandas as pd

from attnexp.runs.labels import as_word


def name_variants(entries: pd.DataFrame) -> pd.DataFrame:
    """The entries of a group with a column variant. Runs are one variant if settings, vectors, code
    and kind of seeds are the same, but for two exceptions below. A variant has the name and place
    that its study gives it; those without a study come last, closest to the defaults first."""
    # Studies come first: distance 0. The first one gives a run its label, kind of seeds and place.
    runs = entries.sort_values("distance", kind="stable").drop_duplicates("run_id")
    same = ["key", "seed_kind"]
    # Labels that one study gives stay apart, for its variants may differ by `seeds.*` alone.
    runs["own_label"] = _where_several(runs, "label", [*same, "study"])
    # Runs that then still share a seed stay apart, each alone: no setting names what differs.
    runs["own_id"] = _where_several(runs, "run_id", [*same, "own_label", "seed"])
    runs["number"] = runs.groupby([*same, "own_label", "own_id"], sort=False).ngroup()
    names = _names_by_number(runs.drop_duplicates("number"))
    runs["variant"] = runs["number"].map(names)
    variant_of_run = runs[["run_id", "seed_kind", "variant"]]
    # A run counts for studies that vary the seeds which its first study varies: others drop out.
    return variant_of_run.merge(entries, on=["run_id", "seed_kind"])


def _where_several(runs: pd.DataFrame, column: str, keys: list[str]) -> "pd.Series[str]":
    """A column where runs with equal keys have several values of it; else empty."""
    num_values = runs.groupby(keys)[column].transform("nunique")
    return runs[column].where(num_values > 1, "")


def _names_by_number(variants: pd.DataFrame) -> dict[int, str]:
    """Names by number: `pe`; of namesakes `pe model.heads=4`, `pe (seeds.init)` or `pe (run ID)`;
    without a label settings that differ, or the default one. variants: the first run of each."""
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
        kind = "" if row.seed_kind == "seed" else f" ({row.seed_kind})"
        candidates = (name, name + kind, f"{name}{kind} (run {row.run_id})")
        names[row.number] = next(each for each in candidates if each not in names.values())
    return names
