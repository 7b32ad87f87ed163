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
    the settings that differ, or the code, are added to it. Runs without a study are named by these
    settings alone, those closest to the default settings first.
    """
    groups: dict[str, list[Run]] = {}
    for run in sorted(runs, key=_departures):
        made_by = [run.label, settings(run.result.config), run.result.code]
        groups.setdefault(json.dumps(made_by, sort_keys=True), []).append(run)
    firsts = [group[0] for group in groups.values()]
    named: dict[str, list[Run]] = {}
    for first, group in zip(firsts, groups.values(), strict=True):
        name = _name(first, [other for other in firsts if other.label == first.label])
        if name in named:  # a run without a study may have another's label by chance
            name = f"{name} ({first.path.name})"
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


def _name(run: Run, namesakes: Sequence[Run]) -> str:
    """Name of a variant among those with the same label."""
    own = settings(run.result.config)
    others = [settings(other.result.config) for other in namesakes if other is not run]
    # a setting that the others' pieces do not have says no more than the pieces do
    differing = [key for key in own if any(o.get(key, own[key]) != own[key] for o in others)]
    parts = [run.label, *(as_word(key, own[key]) for key in differing)]
    if any(other == own for other in others):
        parts.append(f"code {run.result.run_id.rpartition('-')[2]}")
    return " ".join(filter(None, parts)) or default_label(run.result.config)


def _seeds(run: Run) -> list[int]:
    config = run.result.config
    return [config["seed"], *(seed for seed in config["seeds"].values() if seed is not None)]
