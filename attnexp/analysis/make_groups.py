"""From the rows of runs to groups: runs that may be compared, with the names of their variants."""

from collections.abc import Mapping, Sequence

import pandas as pd

from attnexp.analysis.endpoints import ENDPOINTS, Endpoint
from attnexp.analysis.families import Family, differences_from, family_of_study
from attnexp.analysis.group import RUN_COLUMNS, Group, Key, Marks
from attnexp.analysis.kexue import k_rows_like
from attnexp.analysis.metrics import BY_NAME
from attnexp.analysis.naming import name_variants
from attnexp.analysis.rows import RunRows, Setup
from attnexp.runs.manifest import Manifest
from attnexp.runs.predictions import unpack_bits
from attnexp.statistics.chance import guesses

RUN = ["variant", "seed"]  # what tells the runs of a group apart
ABOUT = ["data", "protocol", *RUN, "run_id"]
Studies = Mapping[str, Manifest]  # by key, which is the `study` of runs


def make_groups(runs: Sequence[RunRows], studies: Studies) -> list[Group]:
    """Groups of one data set and one protocol. runs: one of several studies is there for each."""
    all_entries = pd.DataFrame([run.entry for run in runs])
    all_entries = all_entries.drop_duplicates(["run_id", "study", "label"])
    finished = set(all_entries["run_id"])
    num_contents = all_entries.groupby("source")["fingerprint"].nunique()
    groups = []
    for _, in_group in all_entries.groupby(["fingerprint", "n_test", "protocol"], sort=False):
        source = in_group["source"].iloc[0]
        setups = [run.setup for run in in_group["run"]]
        data = _name_data(setups, has_namesake=num_contents[source] > 1)
        entries = name_variants(in_group).assign(data=data)
        planned = _list_planned(entries, studies, finished)
        groups.append(_make_group(entries, planned, studies))
    return groups


def _name_data(setups: Sequence[Setup], *, has_namesake: bool) -> str:
    """The data set of these runs, with its fingerprint if it has a namesake of other contents, and
    with its size, as in ` (2,000 + 500 texts)`, or its test set's, if all variants share it."""
    facts = setups[0].facts
    name = str(facts["name"])
    if has_namesake:
        name += f" ({facts['fingerprint'][:8]})"
    keys = ("data.limit_train", "data.limit_test")
    limits = {tuple(map(setup.settings.get, keys)) for setup in setups}
    if len(limits) == 1 and limits != {(None, None)}:
        name += f" ({facts['n_train']:,} + {facts['n_test']:,} texts)"
    elif all(limit_test is not None for _, limit_test in limits):
        name += f" ({facts['n_test']:,} test texts)"
    return name


def _make_group(entries: pd.DataFrame, planned: pd.DataFrame, studies: Studies) -> Group:
    """The group of entries from `name_variants`, with data. planned: from `_list_planned`."""
    by_run = entries.drop_duplicates("run_id")
    first_runs = by_run.drop_duplicates("variant").set_index("variant")  # of each variant
    setups = {variant: run.setup for variant, run in first_runs["run"].items()}
    first = by_run.iloc[0]  # What is read of it, all runs share.
    facts = first["run"].setup.facts
    endpoints = ENDPOINTS[first["protocol"]]
    epochs = pd.concat({run.run_id: run.epochs for run in by_run["run"]}, names=["run_id"])
    epochs = by_run[ABOUT].merge(epochs.reset_index("run_id"), on="run_id")
    metrics = [name for name in epochs if name.startswith(("train_", "val_"))]
    # One variant after the other, for means over seeds keep the order of rows.
    by_variant = [
        _melt(own, ["epoch"], metrics) for _, own in epochs.groupby("variant", sort=False)
    ]
    measured = _measure_endpoints(epochs, endpoints)
    right, guess = _unpack_answers(measured, list(by_run["run"]))
    made_by = {str(made): made for run in by_run["run"] for made in run.made_by}
    num_texts = {}
    k_rows = []
    for variant, setup in setups.items():
        for point in endpoints:
            num_texts[variant, point.name] = setup.facts[f"n_{point.measured}"]
        k_rows.append(k_rows_like(setup.settings, setup.facts).assign(variant=variant))
    return Group(
        data=first["data"],
        source=first["source"],
        protocol=first["protocol"],
        variants=list(setups),
        endpoints=endpoints,
        families=_make_families(planned, first_runs["variant_kind"]),
        at_endpoints=_melt(measured, ["epoch", "point"], list(BY_NAME)),
        epochs=pd.concat(by_variant),
        right=right,
        num_texts=num_texts,
        chance=guesses(facts.get("largest_class"), len(facts["classes"])),
        guess=guess,
        sequential=frozenset(entries.loc[entries["sequential"], "variant"]),
        setups=setups,
        runs=by_run[RUN_COLUMNS],
        made_by=list(made_by.values()),
        studies=[studies[key] for key in entries["study"].unique() if key in studies],
        planned=planned.groupby("variant", sort=False)["seed"].unique().map(list).to_dict(),
        published=pd.concat(k_rows),
    )


def _melt(rows: pd.DataFrame, keys: list[str], metrics: list[str]) -> pd.DataFrame:
    """A row for each metric that was measured."""
    long = rows.melt(["data", "protocol", *RUN, *keys], metrics, "metric")
    return long.dropna(subset="value").reset_index(drop=True)


def _list_planned(entries: pd.DataFrame, studies: Studies, finished: set[str]) -> pd.DataFrame:
    """The runs that the studies of these entries planned for their group, finished or not, with the
    levels of two crossed factors, if any; baselines first. finished: run ids of all groups."""
    source = entries["source"].iloc[0]
    # A run of two studies is one of the first's. Where study B varies `seeds.init`, and shares the
    # run of seed 0 with A, which varies `seed`, it is no run of B's variants.
    entries = entries[entries["seed_kind"] == entries["variant_kind"]]
    planned = []
    for key, in_study in entries.groupby("study", sort=False):
        if key not in studies:
            continue
        study = studies[key]
        by_id = dict(zip(in_study["run_id"], in_study["variant"], strict=True))
        by_label = dict(zip(in_study["label"], in_study["variant"], strict=True))
        elsewhere = finished - by_id.keys()  # in other groups, or of another kind of seeds
        for run in study.runs:
            if source in study.settings[run.variant] and run.run_id not in elsewhere:
                variant = by_id.get(run.run_id) or by_label.get(run.variant, run.variant)
                planned.append((key, variant, run.seed, study.variants[run.variant]))
    return pd.DataFrame(planned, columns=["study", "variant", "seed", "levels"])


def _make_families(planned: pd.DataFrame, seed_kinds: "pd.Series[str]") -> list[Family]:
    """The family of each study; then, for each kind of seeds, one of the variants that no study
    planned, compared with the first variant of this kind. seed_kinds: by variant."""
    families = []
    for _, plan in planned.drop_duplicates(["study", "variant"]).groupby("study", sort=False):
        levels = plan.set_index("variant")["levels"]
        families.append(family_of_study(levels.to_dict()))
    for kind in seed_kinds.unique():
        variants = seed_kinds.index[seed_kinds == kind]
        unplanned = variants.difference(planned["variant"], sort=False)
        families.append(differences_from(variants[0], list(unplanned)))
    return [family for family in families if family]


def _measure_endpoints(epochs: pd.DataFrame, endpoints: Sequence[Endpoint]) -> pd.DataFrame:
    """Metrics and correct of each run at each endpoint; a column that no run has is NaN."""
    parts = []
    for point in endpoints:
        accuracies = epochs.pivot(index=RUN, columns="epoch", values=f"{point.measured}_accuracy")
        chosen = point.select(accuracies).rename("epoch")
        at_point = epochs.merge(chosen.reset_index(), on=[*RUN, "epoch"])
        # `val_accuracy` becomes accuracy, and so on; gap is made of two others.
        names = {f"{point.measured}_{name}": name for name in BY_NAME if name != "gap"}
        columns = [*ABOUT, "epoch", "train_accuracy_after", "correct", *names]
        at_point = at_point.reindex(columns=columns).rename(columns=names)
        gap = at_point["train_accuracy_after"] - at_point["accuracy"]
        parts.append(at_point.assign(point=point.name, split=point.split, gap=gap))
    return pd.concat(parts)


def _unpack_answers(
    measured: pd.DataFrame, runs: Sequence[RunRows]
) -> tuple[dict[Key, Marks], Marks | None]:
    """`Group.right` and `Group.guess`; none where runs have other test sets, as each seed may draw
    its own. Answers of another accuracy than the run's are not used."""
    right: dict[Key, Marks] = {}
    if len({run.redraw for run in runs}) > 1:
        return right, None
    num_texts = runs[0].setup.facts["n_test"]
    on_test = measured[measured["split"] == "test"].dropna(subset="correct")
    for row in on_test.itertuples():
        answers = unpack_bits(row.correct, num_texts)
        if abs(answers.sum() - row.accuracy * num_texts) < 0.5:
            right[row.variant, row.seed, row.point] = answers
    for run in runs:
        if run.largest_class:
            return right, unpack_bits(run.largest_class, num_texts)
    return right, None
