"""Which runs may be compared, and which of them are one variant."""

import json
from collections.abc import Iterable, Sequence

from attnexp.runs.identity import as_word, default_label, default_settings, settings
from attnexp.runs.result import Run


def comparison_groups(runs: Iterable[Run]) -> list[list[Run]]:
    """Runs grouped by data set and protocol: only accuracies of one group may be compared."""
    groups: dict[str, list[Run]] = {}
    for run in runs:
        result = run.result
        protocol = result.config["train"]["protocol"]
        key = json.dumps([result.data["fingerprint"], result.data["n_test"], protocol])
        groups.setdefault(key, []).append(run)
    return list(groups.values())


def by_variant(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Runs of the same settings and code, which differ only in their seed, sorted by seed.

    Variants have the names and the order of their study. If one name stands for several variants,
    the study is added to it; if that does not tell them apart, the settings that differ, or the
    code. Runs without a study are named by these settings alone, those closest to the default
    settings first.
    """
    groups: dict[str, list[Run]] = {}
    for run in sorted(runs, key=_departures):
        made_by = [run.label, settings(run.result.config), run.result.code]
        groups.setdefault(json.dumps(made_by, sort_keys=True), []).append(run)
    named: dict[str, list[Run]] = {}
    for group in groups.values():
        namesakes = [other for other in groups.values() if other[0].label == group[0].label]
        name = _name(group, [other for other in namesakes if other is not group])
        if name in named:  # a run without a study may have another's label by chance
            name = f"{name} ({group[0].path.name})"
        named[name] = sorted(group, key=_seeds)
    return named


def label_of(run: Run, runs: Sequence[Run]) -> str:
    """Name of a run's variant in the tables of these runs."""
    for group in comparison_groups(runs):
        for label, found in by_variant(group).items():
            if run.result.run_id in (one.result.run_id for one in found):
                return label
    return default_label(run.result.config)


def _departures(run: Run) -> list[str]:
    """Sort key that orders runs without a label; those with a label keep their order."""
    if run.label:
        return []
    default, given = default_settings(), settings(run.result.config)
    differing = [as_word(k, v) for k, v in given.items() if default.get(k) != v]
    return [f"{len(differing):03d}", *differing]


def _name(runs: Sequence[Run], namesakes: Sequence[Sequence[Run]]) -> str:
    """Name of a variant beside others with the same label."""
    label, studies = runs[0].label, _studies(runs)
    if studies and namesakes and all(studies.isdisjoint(_studies(other)) for other in namesakes):
        return f"{label} ({', '.join(sorted(studies))})"
    own = settings(runs[0].result.config)
    others = [settings(other[0].result.config) for other in namesakes]
    # a setting that the others' pieces do not have says no more than the pieces do
    differing = [key for key in own if any(o.get(key, own[key]) != own[key] for o in others)]
    parts = [label, *(as_word(key, own[key]) for key in differing)]
    if any(other == own for other in others):
        parts.append(f"code {runs[0].result.run_id.rpartition('-')[2]}")
    return " ".join(filter(None, parts)) or default_label(runs[0].result.config)


def _studies(runs: Iterable[Run]) -> set[str]:
    """Names of the studies that contain these runs."""
    return {folder.name for run in runs for folder in run.studies}


def _seeds(run: Run) -> list[int]:
    config = run.result.config
    return [config["seed"], *(seed for seed in config["seeds"].values() if seed is not None)]
