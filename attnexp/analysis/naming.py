"""Names of variants: which runs are one variant, and what it is called."""

import pandas as pd

from attnexp.runs.labels import as_word
from attnexp.runs.manifest import Manifest, PlannedRun


def name_variants(entries: pd.DataFrame) -> pd.DataFrame:
    """The entries of a group, see make_groups.py, with their variants.

    Runs with the same settings, vectors, code and kind of seeds are one variant, but
    1. labels that one study tells apart stay apart: its variants may differ by `seeds.*` alone;
    2. such runs with the same seed stay apart, each alone: no setting names what differs.
    A variant has the name and the place that its study gives it, also where it has more runs in a
    folder without a study. Variants without a study come last, closest to the defaults first."""
    # Studies come first: distance 0. The first one gives a run its label, kind of seeds and place.
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
        with_kind = name if row.seed_kind == "seed" else f"{name} ({row.seed_kind})"
        longer_and_longer = (name, with_kind, f"{with_kind} (run {row.run_id})")
        names[row.number] = next(each for each in longer_and_longer if each not in names.values())
    return names


def name_planned(
    study: Manifest, own: pd.DataFrame, entries: pd.DataFrame
) -> list[tuple[str, PlannedRun]]:
    """The runs of a study, each after its variant. entries: of the group; own: of the study."""
    variant_of_run = own.set_index("run_id")["variant"].to_dict()
    # Until a run finishes, the label is the name, beside a namesake with its kind: `seed`, too.
    namesakes = entries.loc[entries["seed_kind"] != study.seed_kind, "variant"]
    name_of_label = {name: f"{name} ({study.seed_kind})" for name in namesakes}
    name_of_label |= own.set_index("label")["variant"].to_dict()
    return [
        (variant_of_run.get(run.run_id) or name_of_label.get(run.variant, run.variant), run)
        for run in study.runs
    ]
