"""What studies planned for a group: contrasts that are judged together, and seeds."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

import pandas as pd

from attnexp.analysis.families import Family, differences_from, family_of_study
from attnexp.analysis.rows import Setup
from attnexp.config.options import Tree
from attnexp.runs.manifest import FINGERPRINT, Manifest, PlannedRun

Studies = Mapping[str, Manifest]  # by key, which is the `study` of runs


class Plans(NamedTuple):
    """What studies planned for a group."""

    families: list[Family]  # of each study; for each kind of seeds one of what none planned
    seeds: Mapping[str, Collection[str]]
    """By variant, finished or not; in every group of a study also those on data of which it has no
    group yet, as of `pe on imdb`."""


def read_plans(entries: pd.DataFrame, all_entries: pd.DataFrame, studies: Studies) -> Plans:
    """The plans of studies. entries: of the group, with variants; all_entries: of every group."""
    families = []
    seeds: defaultdict[str, list[str]] = defaultdict(list)
    for key, study in studies.items():
        finished = all_entries[all_entries["study"] == key]
        begun = finished.drop_duplicates(["key", "fingerprint"])["setup"]
        for run in study.runs:
            for data, plan in study.settings[run.variant].items():
                if not _belongs(plan, begun):
                    seeds[f"{run.variant} on {data}"].append(run.seed)
        levels = {}
        for variant, run in _list_planned(key, study, entries, all_entries):
            seeds[variant].append(run.seed)
            levels[variant] = study.variants[run.variant]
        if levels:
            families.append(family_of_study(levels))
    for _, variants in entries.groupby("seed_kind", sort=False)["variant"]:
        unplanned = [variant for variant in variants.unique() if variant not in seeds]
        families.append(differences_from(variants.iloc[0], unplanned))
    each_once = {variant: list(dict.fromkeys(planned)) for variant, planned in seeds.items()}
    return Plans([family for family in families if family], each_once)


def _list_planned(
    key: str, study: Manifest, entries: pd.DataFrame, all_entries: pd.DataFrame
) -> list[tuple[str, PlannedRun]]:
    """The runs that a study planned for the group of entries, each after its variant."""
    own = entries[entries["study"] == key]
    variant_of_run = own.set_index("run_id")["variant"].to_dict()
    variant_of_label = _name_labels(study, own, entries)
    finished_elsewhere = set(all_entries["run_id"]) - variant_of_run.keys()
    setups = entries.drop_duplicates("variant")["setup"]
    return [
        (variant_of_run.get(run.run_id, variant_of_label[run.variant]), run)
        for run in study.runs
        if run.run_id not in finished_elsewhere
        for plan in study.settings[run.variant].values()
        if _belongs(plan, setups)
    ]


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
    is_other_kind = entries["seed_kind"] != study.seed_kind
    namesakes = set(entries.loc[is_other_kind, "variant"])
    names = {label: label for label in study.variants}
    names |= {name: f"{name} ({study.seed_kind})" for name in namesakes}
    names |= own.set_index("label")["variant"].to_dict()
    return names
