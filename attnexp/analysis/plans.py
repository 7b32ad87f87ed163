"""What studies planned for a group: contrasts that are judged together, and seeds."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import pandas as pd

from attnexp.analysis.families import Family, differences_from, family_of_study
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
        finished = all_entries[all_entries["study"] == key]
        begun = finished.drop_duplicates(["key", "fingerprint"])["setup"]
        for run in study.runs:
            for data, plan in study.settings[run.variant].items():
                if not _belongs(plan, begun):
                    seeds[f"{run.variant} on {data}"][run.seed] = None
        levels = {}
        for variant, run in _list_planned(key, study, entries, all_entries):
            seeds[variant][run.seed] = None
            levels[variant] = study.variants[run.variant]
        if levels:
            families.append(family_of_study(levels))
    for _, variants in entries.groupby("seed_kind", sort=False)["variant"]:
        unplanned = [variant for variant in variants.unique() if variant not in seeds]
        families.append(differences_from(variants.iloc[0], unplanned))
    return Plans(list(filter(None, families)), dict(seeds))


def _list_planned(
    key: str, study: Manifest, entries: pd.DataFrame, all_entries: pd.DataFrame
) -> list[tuple[str, PlannedRun]]:
    """The runs that a study planned for the group of entries, each after its variant."""
    own = entries[entries["study"] == key]
    variant_of_run = own.set_index("run_id")["variant"].to_dict()
    # Without finished runs, the label is the name, with the kind of seeds beside a namesake.
    namesakes = entries.loc[entries["seed_kind"] != study.seed_kind, "variant"]
    variant_of_label = {name: f"{name} ({study.seed_kind})" for name in namesakes}
    variant_of_label |= own.set_index("label")["variant"].to_dict()
    finished_elsewhere = set(all_entries["run_id"]) - variant_of_run.keys()
    setups = entries.drop_duplicates("variant")["setup"]
    planned = []
    for run in study.runs:
        of_label = variant_of_label.get(run.variant, run.variant)
        variant = variant_of_run.get(run.run_id, of_label)
        for plan in study.settings[run.variant].values():
            if _belongs(plan, setups) and run.run_id not in finished_elsewhere:
                planned.append((variant, run))
    return planned


def _belongs(plan: Tree, setups: Iterable[Setup]) -> bool:
    """Whether runs of a plan, from `Manifest.settings`, are of a group that has these setups."""
    return any(
        plan[FINGERPRINT].startswith(setup.facts["fingerprint"])  # That of vectors may follow.
        and plan["train.protocol"] == setup.settings["train.protocol"]
        and plan["data.limit_test"] == setup.settings["data.limit_test"]
        for setup in setups
    )
