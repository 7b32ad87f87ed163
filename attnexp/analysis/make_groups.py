"""From the rows of runs to groups: runs that may be compared, with the names of their variants."""

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any

import pandas as pd

from attnexp.analysis.endpoints import ENDPOINTS, Endpoint
from attnexp.analysis.families import Family, differences_from, family_of_study
from attnexp.analysis.group import Bits, Group
from attnexp.analysis.kexue import k_rows_like
from attnexp.analysis.metrics import BY_NAME
from attnexp.analysis.naming import name_variants
from attnexp.analysis.rows import RunRows, Setup
from attnexp.runs.manifest import Manifest
from attnexp.runs.predictions import unpack_bits
from attnexp.statistics.chance import guesses

RUN = ["variant", "seed"]
"""What tells the runs of a group apart."""
ABOUT = ["data", "protocol", *RUN, "run_id", "resample"]


def make_groups(runs: Sequence[RunRows], studies: Mapping[str, Manifest]) -> list[Group]:
    """Groups of runs: only accuracies on one data set under one protocol may be compared. studies:
    manifests by the `study` of runs. A record is a run as one study has it: `RunRows.record`."""
    records = pd.DataFrame([run.record for run in runs])
    records = records.drop_duplicates(["run_id", "study", "label"])
    for key, study in studies.items():
        if study.settings:  # A study knows its kind of seeds, which `seeds.init=0` may hide.
            records.loc[records["study"] == key, "seed_kind"] = study.seed_kind
    num_contents = records.groupby("source")["fingerprint"].nunique()
    finished = set(records["run_id"])
    groups = []
    for _, own in records.groupby(["fingerprint", "n_test", "protocol"], sort=False):
        data = _name_data(own["setup"], has_namesake=num_contents[own["source"].iloc[0]] > 1)
        named = name_variants(own).assign(data=data)
        planned = _list_planned(named, studies, finished)
        groups.append(_make_group(named, planned, studies))
    return groups


def _name_data(setups: "pd.Series[Any]", *, has_namesake: bool) -> str:
    """`imdb`, with the fingerprint where other runs read other contents under this name, and the
    size, as in ` (2,000 + 500 texts)`, of a cut that all variants share."""
    facts = setups.iloc[0].facts
    name = str(facts["name"])
    if has_namesake:
        name += f" ({facts['fingerprint'][:8]})"
    keys = ("data.limit_train", "data.limit_test")
    limits = {tuple(map(setup.settings.get, keys)) for setup in setups}
    if len(limits) == 1 and limits != {(None, None)}:
        name += f" ({facts['n_train']:,} + {facts['n_test']:,} texts)"
    return name


def _make_group(
    records: pd.DataFrame, planned: pd.DataFrame, studies: Mapping[str, Manifest]
) -> Group:
    """The group of all these records, which have a variant now. planned: from `_list_planned`."""
    runs = records.drop_duplicates("run_id")
    variants = runs.drop_duplicates("variant").set_index("variant")  # the first run of each
    setups: dict[str, Setup] = variants["setup"].to_dict()
    first = runs.iloc[0]
    facts = first["setup"].facts  # of the data: all variants share those that are read here
    epochs = pd.concat([*runs["epochs"]], keys=runs["run_id"], names=["run_id"])
    epochs = runs[ABOUT].merge(epochs.reset_index("run_id"), on="run_id")
    metrics = [name for name in epochs if name.startswith(("train_", "val_"))]
    by_epoch = _melt(epochs, ["epoch"], metrics)
    points = ENDPOINTS[first["protocol"]]
    measured = _measure_endpoints(epochs, points)
    largest_classes = [bits for bits in runs["largest_class"] if bits]
    guess = unpack_bits(largest_classes[0], facts["n_test"]) if largest_classes else None
    versions = {str(made): made for made_by in runs["made_by"] for made in made_by}
    return Group(
        data=first["data"],
        source=first["source"],
        protocol=first["protocol"],
        variants=list(setups),
        points=points,
        endpoints=_melt(measured, ["epoch", "point"], list(BY_NAME)),
        epochs=pd.concat([by_epoch[by_epoch["variant"] == variant] for variant in setups]),
        families=_make_families(planned, variants["seed_kind"]),
        published=pd.concat(
            k_rows_like(setup.settings, facts).assign(variant=name)
            for name, setup in setups.items()
        ),
        setups=setups,
        right=_unpack_answers(measured, points, facts["n_test"]),
        runs=runs[["variant", "seed", "run_id", "folder", "command"]],
        made_by=list(versions.values()),
        studies=[studies[key] for key in records["study"].unique() if key in studies],
        num_texts={point.name: facts[f"n_{point.measured}"] for point in points},
        chance=guesses(facts.get("largest_class"), len(facts["classes"])),
        guess=guess,
        sequential=frozenset(records.loc[records["sequential"], "variant"]),
        planned=planned.groupby("variant", sort=False)["seed"].unique().map(list).to_dict(),
    )


def _melt(rows: pd.DataFrame, keys: list[str], metrics: list[str]) -> pd.DataFrame:
    """A row for each metric that was measured."""
    long = rows.melt(["data", "protocol", *RUN, *keys], metrics, "metric")
    return long.dropna(subset="value").reset_index(drop=True)


def _list_planned(
    records: pd.DataFrame, studies: Mapping[str, Manifest], finished: Set[str]
) -> pd.DataFrame:
    """What the studies of these records planned for their group, finished or not: study, variant,
    seed, and levels of two crossed factors, if any; the baselines first. finished: ids of the runs
    of all groups."""
    kinds = records.groupby("variant")["seed_kind"].transform("first")
    # Rows of another kind than their variant's are runs that a later study has, too.
    counted = records[records["seed_kind"] == kinds]
    planned = []
    for key, own in counted.groupby("study", sort=False):
        study = studies.get(str(key))
        if study is not None:
            planned += [(key, *row) for row in _planned_by(study, own, finished)]
    return pd.DataFrame(planned, columns=["study", "variant", "seed", "levels"])


def _planned_by(study: Manifest, records: pd.DataFrame, finished: Set[str]) -> Iterator[Any]:
    """Variant, seed and levels of each run that a study planned for the group of its records: none
    on other data sets, none that finished in another group, as on other contents of the data."""
    variant_of_run = records.set_index("run_id")["variant"].to_dict()
    variant_of_label = records.set_index("label")["variant"].to_dict()
    source = records["source"].iloc[0]
    for run in study.runs:
        label = run.variant
        data_sets = study.settings.get(label)  # Older studies do not say.
        if data_sets and source not in data_sets:
            continue
        variant = variant_of_run.get(run.run_id)
        if variant is None:
            if run.run_id in finished:  # in another group
                continue
            variant = variant_of_label.get(label, label)  # of other runs of its label, if any
        yield variant, run.seed, study.variants[label]


def _make_families(planned: pd.DataFrame, seed_kinds: "pd.Series[str]") -> list[Family]:
    """The family of each study; then, for each kind of seeds, one of the variants that no study
    planned, compared with the first variant of this kind. seed_kinds: by variant."""
    families = []
    planned_variants = planned.drop_duplicates(["study", "variant"])
    for _, plan in planned_variants.groupby("study", sort=False):
        levels = plan.set_index("variant")["levels"]
        families.append(family_of_study(levels.to_dict()))
    for kind in seed_kinds.unique():
        variants = seed_kinds.index[seed_kinds == kind]
        unplanned = variants.difference(planned["variant"], sort=False)
        families.append(differences_from(variants[0], list(unplanned)))
    return [family for family in families if family]


def _measure_endpoints(epochs: pd.DataFrame, points: Sequence[Endpoint]) -> pd.DataFrame:
    """A row for each run at each endpoint, with its metrics and correct."""
    parts = []
    for point in points:
        accuracies = epochs.pivot(index=RUN, columns="epoch", values=f"{point.measured}_accuracy")
        chosen = point.select(accuracies).rename("epoch")
        at_point = epochs.merge(chosen.reset_index(), on=[*RUN, "epoch"])
        # `val_accuracy` becomes accuracy, and so on; gap is made of two others.
        names = {f"{point.measured}_{name}": name for name in BY_NAME if name != "gap"}
        columns = [*ABOUT, "epoch", "train_accuracy_after", "correct", *names]
        at_point = at_point.reindex(columns=columns).rename(columns=names)
        gap = at_point["train_accuracy_after"] - at_point["accuracy"]
        parts.append(at_point.assign(point=point.name, gap=gap))
    return pd.concat(parts)


def _unpack_answers(
    measured: pd.DataFrame, points: Sequence[Endpoint], num_texts: int
) -> dict[tuple[str, str, str], Bits]:
    """Which test texts are right, by variant, seed and endpoint; none where runs have other test
    sets, as each seed may draw its own. Answers of another accuracy than the run's are not used."""
    answers: dict[tuple[str, str, str], Bits] = {}
    if measured["resample"].nunique(dropna=False) > 1:
        return answers
    on_test = [point.name for point in points if point.split == "test"]
    rows = measured[measured["point"].isin(on_test)].dropna(subset="correct")
    for row in rows.itertuples():
        bits = unpack_bits(row.correct, num_texts)
        if abs(bits.sum() - row.accuracy * num_texts) < 0.5:
            answers[row.variant, row.seed, row.point] = bits
    return answers
