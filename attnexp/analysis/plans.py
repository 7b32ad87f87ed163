"""What studies planned for a group: contrasts that are judged together, and seeds."""

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import NamedTuple

import pandas as pd

from attnexp.analysis.families import Family, differences_from, family_of_study
from attnexp.analysis.rows import Setup
from attnexp.config.settings import Flat
from attnexp.runs.manifest import FINGERPRINT, Manifest, PlannedRun

Studies = Mapping[str, Manifest]  # by key, which is the `study` of runs


class Plans(NamedTuple):
    """What studies planned for a group."""

    families: list[Family]  # of each study; then, by kind of seeds, of variants that are in none
    seeds: Mapping[str, Collection[str]]
    """By variant, finished or not; by `pe on imdb` where the study has no finished run on imdb."""


def read_plans(entries: pd.DataFrame, all_entries: pd.DataFrame, studies: Studies) -> Plans:
    """The plans of studies. entries: of the group, with variants; all_entries: of every group."""
    families = []
    seeds: defaultdict[str, dict[str, None]] = defaultdict(dict)  # in order, each once
    for key, study in studies.items():
        measured = all_entries.loc[all_entries["study"] == key, "setup"]
        for label, settings_by_data in study.settings.items():
            own_seeds = [run.seed for run in study.runs if run.variant == label]
            for data, settings in settings_by_data.items():
                # The study has no finished run on these data, so each of its groups tells of them.
                if not _belong([settings], measured):
                    seeds[f"{label} on {data}"] |= dict.fromkeys(own_seeds)
        planned = _list_planned(key, study, entries, all_entries)
        for variant, run in planned:
            seeds[variant][run.seed] = None
        levels = {variant: study.variants[run.variant] for variant, run in planned}
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
    of_study = entries[entries["study"] == key]
    variant_of_run = of_study.set_index("run_id")["variant"].to_dict()
    variant_of_label = of_study.set_index("label")["variant"].to_dict()
    of_other_seeds = set(entries.loc[entries["seed_kind"] != study.seed_kind, "variant"])
    finished_elsewhere = set(all_entries["run_id"]).difference(of_study["run_id"])
    setups = entries.drop_duplicates("variant")["setup"]
    planned = []
    for run in study.runs:
        label = run.variant
        if run.run_id in finished_elsewhere or not _belong(study.settings[label].values(), setups):
            continue
        # One label may have become several variants, so the run itself is asked first.
        variant = variant_of_run.get(run.run_id) or variant_of_label.get(label)
        if variant is None:  # None of its runs has finished.
            variant = f"{label} ({study.seed_kind})" if label in of_other_seeds else label
        planned.append((variant, run))
    return planned


def _belong(planned_settings: Collection[Flat], setups: Collection[Setup]) -> bool:
    """Whether runs of settings, as `Manifest.settings` has, are of a group with these setups."""
    return any(
        # A plan's fingerprint is that of the data, then that of word vectors.
        planned[FINGERPRINT].startswith(setup.facts["fingerprint"])
        and planned["train.protocol"] == setup.settings["train.protocol"]
        and planned["data.limit_test"] == setup.settings["data.limit_test"]
        for planned in planned_settings
        for setup in setups
    )
