"""What studies planned for a group: contrasts that are judged together, and seeds."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import pandas as pd

from attnexp.analysis.families import Family, differences_from, family_of_study
from attnexp.analysis.naming import name_planned
from attnexp.analysis.rows import Setup
from attnexp.config.settings import Tree
from attnexp.runs.manifest import FINGERPRINT, Manifest, PlannedRun

Studies = Mapping[str, Manifest]  # by key, which is the `study` of runs


class Plans(NamedTuple):
    """What studies planned for a group; and for data that have no group yet, as `pe on imdb`."""

    families: list[Family]  # of each study; for each kind of seeds one of what none planned
    seeds: Mapping[str, Collection[str]]  # by variant, whether or not their runs have finished


def read_plans(entries: pd.DataFrame, all_entries: pd.DataFrame, studies: Studies) -> Plans:
    """The plans of studies. entries: of the group, with variants; all_entries: of every group."""
    families = []
    seeds: defaultdict[str, dict[str, None]] = defaultdict(dict)  # in order, each once
    for key, study in studies.items():
        measured = all_entries.loc[all_entries["study"] == key, "setup"]
        for label, plans in study.settings.items():
            own_seeds = [run.seed for run in study.runs if run.variant == label]
            for data, plan in plans.items():
                # No group has these data yet, so each group of the study tells of them.
                if not _belong([plan], measured):
                    seeds[f"{label} on {data}"] |= dict.fromkeys(own_seeds)
        levels = {}
        for variant, run in _list_planned(key, study, entries, all_entries):
            seeds[variant][run.seed] = None
            levels[variant] = study.variants[run.variant]
        if levels:
            families.append(family_of_study(levels))
    for _, variants in entries.groupby("seed_kind", sort=False)["variant"]:
        unplanned = [variant for variant in variants.unique() if variant not in seeds]
        families.append(differences_from(variants.iloc[0], unplanned))
    return Plans(list(filter(None, families)), seeds)


def _list_planned(
    key: str, study: Manifest, entries: pd.DataFrame, all_entries: pd.DataFrame
) -> list[tuple[str, PlannedRun]]:
    """The runs that a study planned for the group of entries, each after its variant."""
    own = entries[entries["study"] == key]
    finished_elsewhere = set(all_entries["run_id"]).difference(own["run_id"])
    setups = entries.drop_duplicates("variant")["setup"]
    return [
        (variant, run)
        for variant, run in name_planned(study, own, entries)
        if run.run_id not in finished_elsewhere
        and _belong(study.settings[run.variant].values(), setups)
    ]


def _belong(plans: Iterable[Tree], setups: Iterable[Setup]) -> bool:
    """Whether runs of plans, from `Manifest.settings`, are of a group that has these setups."""
    return any(
        # A plan's fingerprint is that of the data, then that of word vectors.
        plan[FINGERPRINT].startswith(setup.facts["fingerprint"])
        and plan["train.protocol"] == setup.settings["train.protocol"]
        and plan["data.limit_test"] == setup.settings["data.limit_test"]
        for plan in plans
        for setup in setups
    )
