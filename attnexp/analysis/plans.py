"""What studies planned for a group: contrasts that are judged together, and seeds."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import pandas as pd

from attnexp.analysis.families import Family, differences_from, family_of_study
from attnexp.analysis.rows import GROUP_KEYS, Setup
from attnexp.config.options import Tree
from attnexp.runs.manifest import FINGERPRINT, Manifest, PlannedRun

Studies = Mapping[str, Manifest]  # by key, which is the `study` of runs
NamedRuns = list[tuple[str, PlannedRun]]  # each after the name of its variant


class Plans(NamedTuple):
    """What studies planned for a group."""

    families: list[Family]  # of each study; for each kind of seeds one of what none planned
    seeds: Mapping[str, Collection[str]]  # by variant, whether or not their runs have finished


def read_plans(entries: pd.DataFrame, all_entries: pd.DataFrame, studies: Studies) -> Plans:
    """The plans of studies. entries: of the group, with variants; all_entries: of every group."""
    families = []
    seeds: defaultdict[str, dict[str, None]] = defaultdict(dict)  # in order, each once
    for key, study in studies.items():
        here, not_begun = _sort_runs(key, study, entries, all_entries)
        for name, run in not_begun + here:
            seeds[name][run.seed] = None
        if here:
            levels = {variant: study.variants[run.variant] for variant, run in here}
            families.append(family_of_study(levels))
    for _, variants in entries.groupby("seed_kind", sort=False)["variant"]:
        unplanned = [variant for variant in variants.unique() if variant not in seeds]
        families.append(differences_from(variants.iloc[0], unplanned))
    return Plans(list(filter(None, families)), dict(seeds))


def _sort_runs(
    key: str, study: Manifest, entries: pd.DataFrame, all_entries: pd.DataFrame
) -> tuple[NamedRuns, NamedRuns]:
    """Runs that a study planned for the group of entries; and where it has none, as `a on imdb`."""
    own = entries[entries["study"] == key]
    variant_of_run = dict(zip(own["run_id"], own["variant"], strict=True))
    variant_of_label = _name_labels(study, own, entries)
    finished_elsewhere = set(all_entries["run_id"]) - variant_of_run.keys()
    setups = entries.drop_duplicates("variant")["setup"]
    in_study = all_entries[all_entries["study"] == key]
    begun_setups = in_study.drop_duplicates(GROUP_KEYS)["setup"]
    here = []
    not_begun = []
    for run in study.runs:
        for data, plan in study.settings[run.variant].items():
            if not _belongs(plan, begun_setups):
                not_begun.append((f"{run.variant} on {data}", run))
            elif _belongs(plan, setups) and run.run_id not in finished_elsewhere:
                variant = variant_of_run.get(run.run_id, variant_of_label[run.variant])
                here.append((variant, run))
    return here, not_begun


def _belongs(plan: Tree, setups: Iterable[Setup]) -> bool:
    """Whether runs of a plan, from `Manifest.settings`, are of a group that has these setups."""
    return any(
        plan[FINGERPRINT].startswith(setup.facts["fingerprint"])  # That of vectors may follow.
        and plan["train.protocol"] == setup.settings["train.protocol"]
        and plan["data.limit_test"] == setup.settings["data.limit_test"]
        for setup in setups
    )


def _name_labels(study: Manifest, own: pd.DataFrame, entries: pd.DataFrame) -> dict[str, str]:
    """Variants by label: of own runs, or the label, with the kind of seeds beside a namesake."""
    of_other_kinds = set(entries.loc[entries["seed_kind"] != study.seed_kind, "variant"])
    names = {label: label for label in study.variants}
    names |= {name: f"{name} ({study.seed_kind})" for name in of_other_kinds}
    return names | dict(zip(own["label"], own["variant"], strict=True))
