"""From the rows of runs to groups: runs that may be compared, with the names of their variants."""

from collections import defaultdict
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
PROTOCOL = "train.protocol"  # among the settings of a plan
ABOUT = ["data", "protocol", *RUN, "run_id"]
Studies = Mapping[str, Manifest]  # by key, which is the `study` of runs
Planned = defaultdict[str, dict[str, None]]  # seeds by variant, in order
Plans = tuple[list[Family], Planned]


def make_groups(runs: Sequence[RunRows], studies: Studies) -> list[Group]:
    """Groups of one data set and one protocol. runs: one of several studies is there for each."""
    if not runs:  # All that a sweep began may have failed.
        return []
    all_entries = pd.DataFrame([run.entry for run in runs])
    all_entries = all_entries.drop_duplicates(["run_id", "study", "label"])
    num_contents = all_entries.groupby("source")["fingerprint"].nunique()
    groups = []
    for _, in_group in all_entries.groupby(["fingerprint", "n_test", "protocol"], sort=False):
        source = in_group["source"].iloc[0]
        setups = [run.setup for run in in_group["run"]]
        data = _name_data(setups, has_namesake=num_contents[source] > 1)
        entries = name_variants(in_group).assign(data=data)
        own_studies = {key: studies[key] for key in in_group["study"].unique() if key in studies}
        groups.append(_make_group(entries, all_entries, own_studies))
    return groups


def _name_data(setups: Sequence[Setup], *, has_namesake: bool) -> str:
    """The data set of these runs, with its fingerprint if it has a namesake of other contents, and
    its size, as ` (2,000 + 500 texts)`, if all limits agree, or its test set's if all limit it."""
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


def _make_group(entries: pd.DataFrame, all_entries: pd.DataFrame, studies: Studies) -> Group:
    """The group of entries from `name_variants`, with data, and of studies that planned them."""
    by_run = entries.drop_duplicates("run_id")
    first_runs = by_run.drop_duplicates("variant").set_index("variant")  # of each variant
    setups = {variant: run.setup for variant, run in first_runs["run"].items()}
    first = by_run.iloc[0]  # All runs share what is read of it.
    facts = first["run"].setup.facts
    endpoints = ENDPOINTS[first["protocol"]]
    epochs = pd.concat({run.run_id: run.epochs for run in by_run["run"]}, names=["run_id"])
    epochs = by_run[ABOUT].merge(epochs.reset_index("run_id"), on="run_id")
    measured = _measure_endpoints(epochs, endpoints)
    right, guess = _unpack_answers(measured, list(by_run["run"]))
    families, planned = _read_plans(entries, all_entries, studies)
    made_by = {str(made): made for run in by_run["run"] for made in run.made_by}
    num_texts = {
        (variant, endpoint.name): setup.facts[f"n_{endpoint.measured}"]
        for variant, setup in setups.items()
        for endpoint in endpoints
    }
    k_rows = [k_rows_like(s.settings, s.facts).assign(variant=v) for v, s in setups.items()]
    return Group(
        data=first["data"],
        source=first["source"],
        protocol=first["protocol"],
        variants=list(setups),
        endpoints=endpoints,
        families=families,
        at_endpoints=_melt(measured, ["epoch", "point"], list(BY_NAME)),
        epochs=_melt_epochs(epochs),
        right=right,
        num_texts=num_texts,
        chance=guesses(facts.get("largest_class"), len(facts["classes"])),
        guess=guess,
        sequential=frozenset(entries.loc[entries["sequential"], "variant"]),
        setups=setups,
        runs=by_run[RUN_COLUMNS],
        made_by=list(made_by.values()),
        studies=list(studies.values()),
        planned=planned,
        published=pd.concat(k_rows),
    )


def _melt(rows: pd.DataFrame, keys: list[str], metrics: list[str]) -> pd.DataFrame:
    """A row for each metric that was measured."""
    long = rows.melt(["data", "protocol", *RUN, *keys], metrics, "metric")
    return long.dropna(subset="value").reset_index(drop=True)


def _melt_epochs(epochs: pd.DataFrame) -> pd.DataFrame:
    """A row for each metric, variant by variant, for means over seeds keep the order of rows."""
    metrics = [name for name in epochs if name.startswith(("train_", "val_"))]
    by_variant = epochs.groupby("variant", sort=False)
    return pd.concat(_melt(own, ["epoch"], metrics) for _, own in by_variant)


def _read_plans(entries: pd.DataFrame, all_entries: pd.DataFrame, studies: Studies) -> Plans:
    """The families of each study, and for each kind of seeds one of variants that none planned; and
    the seeds that studies planned, by variant."""
    families = []
    first = entries.iloc[0]
    planned = _list_not_begun(all_entries, studies)
    for key, study in studies.items():
        own = entries[entries["study"] == key]
        by_id = dict(zip(own["run_id"], own["variant"], strict=True))
        finished_elsewhere = set(all_entries["run_id"]) - by_id.keys()
        namesakes = entries.loc[entries["seed_kind"] != study.seed_kind, "variant"]
        by_label = {name: f"{name} ({study.seed_kind})" for name in namesakes}
        by_label |= zip(own["label"], own["variant"], strict=True)
        levels: dict[str, dict[str, str]] = {}
        for run in study.runs:
            plan = study.settings[run.variant].get(first["source"])
            is_here = plan and plan[PROTOCOL] == first["protocol"]
            if is_here and run.run_id not in finished_elsewhere:
                variant = by_id.get(run.run_id) or by_label.get(run.variant, run.variant)
                levels[variant] = study.variants[run.variant]
                planned[variant][run.seed] = None
        if levels:
            families.append(family_of_study(levels))
    for _, of_kind in entries.groupby("seed_kind", sort=False)["variant"]:
        unplanned = [variant for variant in of_kind.unique() if variant not in planned]
        families.append(differences_from(of_kind.iloc[0], unplanned))
    return list(filter(None, families)), planned


def _list_not_begun(all_entries: pd.DataFrame, studies: Studies) -> Planned:
    """Seeds that studies planned on a data set, under a protocol, where no run of theirs has
    finished, as those of a variant `pe on imdb`."""
    planned: Planned = defaultdict(dict)
    for key, study in studies.items():
        own = all_entries[all_entries["study"] == key]
        places = zip(own["source"], own["protocol"], strict=True)
        begun = set(places)
        for run in study.runs:
            for data, plan in study.settings[run.variant].items():
                if (data, plan[PROTOCOL]) not in begun:
                    planned[f"{run.variant} on {data}"][run.seed] = None
    return planned


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
