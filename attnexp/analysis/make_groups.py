"""From the rows of runs to groups: runs that may be compared, with the names of their variants."""

from collections.abc import Mapping, Sequence, Set
from typing import Any

import numpy as np
import pandas as pd

from attnexp.analysis.endpoints import ENDPOINTS, Endpoint
from attnexp.analysis.families import Family, differences_from, family_of_study
from attnexp.analysis.group import Bits, Group
from attnexp.analysis.kexue import k_rows_like
from attnexp.analysis.metrics import METRICS
from attnexp.analysis.naming import name_variants
from attnexp.analysis.rows import MADE_BY, RunRows, Setup
from attnexp.runs.manifest import Manifest
from attnexp.statistics.chance import guesses

RUN = ["variant", "seed"]
"""What tells the runs of a group apart."""


def make_groups(runs: Sequence[RunRows], studies: Mapping[str, Manifest]) -> list[Group]:
    """Groups of runs: only accuracies on one data set under one protocol may be compared. studies:
    manifests by the `study` of runs."""
    table = pd.DataFrame([run.record for run in runs]).drop_duplicates()
    for key, study in studies.items():
        if study.settings:  # A study knows its kind of seeds, which `seeds.init=0` may hide.
            table.loc[table["study"] == key, "seed_kind"] = study.seed_kind
    by_id = {run.run_id: run for run in runs}
    settings_of = {run.setup.record["key"]: run.setup.settings for run in runs}
    contents_of = table.groupby("source")["fingerprint"].unique()
    groups = []
    for _, records in table.groupby(["fingerprint", "n_test", "protocol"], sort=False):
        own = {run_id: by_id[run_id] for run_id in records["run_id"]}
        setups = [run.setup for run in own.values()]
        data = _name_data(setups, contents_of[setups[0].facts["name"]])
        named = name_variants(records, settings_of).assign(data=data)
        planned = _list_planned(named, studies, by_id.keys())
        groups.append(_make_group(own, named, planned, studies))
    return groups


def _name_data(setups: Sequence[Setup], contents: Sequence[str]) -> str:
    """`imdb`, with the fingerprint where other runs read other contents under this name, and the
    size, as in ` (2,000 + 500 texts)`, of a cut that all variants share."""
    facts = setups[0].facts
    name = str(facts["name"])
    if len(contents) > 1:
        name += f" ({facts['fingerprint'][:8]})"
    settings = [setup.config["data"] for setup in setups]
    limits = {(values.get("limit_train"), values.get("limit_test")) for values in settings}
    if len(limits) == 1 and limits != {(None, None)}:
        name += f" ({facts['n_train']:,} + {facts['n_test']:,} texts)"
    return name


def _make_group(
    runs: Mapping[str, RunRows],
    named: pd.DataFrame,
    planned: pd.DataFrame,
    studies: Mapping[str, Manifest],
) -> Group:
    """The group of runs, by id. named: records with variant and data, one for each study that has
    the run. planned: as `_list_planned` gives them."""
    plans = [studies[key] for key in named["study"].unique() if key in studies]
    sequential = frozenset(named.loc[named["sequential"], "variant"])
    named = named.drop_duplicates("run_id")  # which several studies may have
    firsts = named.drop_duplicates("variant").set_index("variant")
    setups = {variant: runs[run_id].setup for variant, run_id in firsts["run_id"].items()}
    first = next(iter(setups.values()))
    values = _collect_values(runs, named)
    points, endpoints = _measure_endpoints(values, ENDPOINTS[first.protocol])
    by_epoch = values["metric"].str.startswith(("train_", "val_"))
    published = [
        k_rows_like(setup.settings, first.facts).assign(variant=variant)
        for variant, setup in setups.items()
    ]
    versions = dict.fromkeys(made for run in runs.values() for made in run.made_by)
    return Group(
        data=named["data"].iloc[0],
        source=first.facts["name"],
        protocol=first.protocol,
        variants=list(setups),
        points=points,
        endpoints=endpoints.drop(columns="run_id"),
        epochs=values[by_epoch].drop(columns="run_id"),
        families=_make_families(planned, firsts["seed_kind"]),
        published=pd.concat(published),
        configs={variant: setup.config for variant, setup in setups.items()},
        right=_unpack_answers(endpoints, points, runs),
        runs=named[["variant", "seed", "run_id", "folder", "command"]],
        made_by=[dict(zip(MADE_BY, made, strict=True)) for made in versions],
        code={variant: setup.code for variant, setup in setups.items()},
        facts={variant: setup.facts for variant, setup in setups.items()},
        studies=plans,
        num_texts={point.name: first.facts[f"n_{point.measured}"] for point in points},
        chance=_describe_guess(first.facts),
        guess=_unpack_guess(runs),
        sequential=sequential,
        planned=planned.groupby("variant", sort=False)["seed"].unique().map(list).to_dict(),
    )


def _collect_values(runs: Mapping[str, RunRows], named: pd.DataFrame) -> pd.DataFrame:
    """Columns data, protocol, variant, seed, run_id, epoch, metric and value of all runs."""
    rows = [(run_id, *row) for run_id, run in runs.items() for row in run.values]
    values = pd.DataFrame(rows, columns=["run_id", "epoch", "metric", "value"])
    return named[["data", "protocol", *RUN, "run_id"]].merge(values.dropna(), on="run_id")


def _list_planned(
    named: pd.DataFrame, studies: Mapping[str, Manifest], finished: Set[str]
) -> pd.DataFrame:
    """Runs that the studies of these records planned on their data set, but those that finished in
    another group, such as one of another content of the data. Columns study, variant, seed, and
    levels of two crossed factors, if any; the baselines first. finished: ids, of all groups."""
    firsts = named.drop_duplicates("variant").set_index("variant")
    kinds = named["variant"].map(firsts["seed_kind"])
    # A run that two studies have, of different kinds of seeds, counts in the first.
    counted = named[named["seed_kind"] == kinds]
    planned = []
    for key, records in counted.groupby("study", sort=False):
        study = studies.get(str(key))
        if study is None:
            continue
        variant_of_run = records.set_index("run_id")["variant"].to_dict()
        variant_of_label = records.set_index("label")["variant"].to_dict()
        in_other_groups = finished - variant_of_run.keys()
        source = records["source"].iloc[0]
        order = list(study.variants)
        for run in sorted(study.runs, key=lambda run: order.index(run.variant)):
            data_sets = study.settings.get(run.variant) or {source}
            if run.run_id in in_other_groups or source not in data_sets:
                continue
            name = variant_of_label.get(run.variant, run.variant)
            variant = variant_of_run.get(run.run_id, name)
            planned.append((key, variant, run.seed, study.variants[run.variant]))
    return pd.DataFrame(planned, columns=["study", "variant", "seed", "levels"])


def _make_families(planned: pd.DataFrame, seed_kinds: "pd.Series[str]") -> list[Family]:
    """The family of each study, and one of what none has planned, by kind of seeds of variants."""
    families = []
    planned_variants = planned.drop_duplicates(["study", "variant"])
    for _, plan in planned_variants.groupby("study", sort=False):
        levels = plan.set_index("variant")["levels"]
        families.append(family_of_study(levels.to_dict()))
    for variants in seed_kinds.groupby(seed_kinds, sort=False).groups.values():
        unplanned = variants.difference(planned["variant"], sort=False)
        families.append(differences_from(variants[0], list(unplanned)))
    return [family for family in families if family]


def _measure_endpoints(
    values: pd.DataFrame, points: Sequence[Endpoint]
) -> tuple[list[Endpoint], pd.DataFrame]:
    """The endpoints that runs have, and values there. An endpoint at the same epochs as the one
    before it, on the same texts, is left out."""
    parts: dict[Endpoint, pd.DataFrame] = {}
    selections: list[tuple[str, dict[Any, int]]] = []
    for point in points:
        assert point.select is not None
        accuracies = values[values["metric"] == f"{point.measured}_accuracy"]
        epochs = point.select(accuracies.pivot(index=RUN, columns="epoch", values="value"))
        selection = (point.measured, epochs.to_dict())
        if epochs.empty or selection in selections:
            continue
        selections.append(selection)
        chosen = epochs.rename("epoch").reset_index()
        parts[point] = _measure_endpoint(values.merge(chosen, on=[*RUN, "epoch"]), point)
    order = {metric.name: place for place, metric in enumerate(METRICS)}
    endpoints = pd.concat(parts.values())
    endpoints = endpoints[endpoints["metric"].isin(order)]
    endpoints = endpoints.sort_values("metric", key=lambda names: names.map(order), kind="stable")
    return list(parts), endpoints.reset_index(drop=True)


def _measure_endpoint(values: pd.DataFrame, point: Endpoint) -> pd.DataFrame:
    """Values at an endpoint, of values of its epochs; the gap is accuracy on train after the epoch
    minus accuracy."""
    prefix = f"{point.measured}_"
    measured = values[values["metric"].str.startswith(prefix)]
    measured = measured.assign(metric=measured["metric"].str.removeprefix(prefix))
    after = values.loc[values["metric"] == "train_accuracy_after", [*RUN, "value"]]
    gap = measured[measured["metric"] == "accuracy"].assign(metric="gap")
    gap = gap.merge(after, on=RUN, suffixes=("_measured", ""))
    gap["value"] -= gap.pop("value_measured")
    return pd.concat([measured, gap]).assign(point=point.name)


def _answer_same_texts(runs: Mapping[str, RunRows]) -> bool:
    """Whether all runs have the same test set: not where each seed draws its own."""
    return len({run.setup.record["resample"] for run in runs.values()}) == 1


def _unpack(packed: bytes, num_texts: int) -> Bits:
    bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=num_texts)
    return bits.astype(bool)


def _unpack_answers(
    endpoints: pd.DataFrame, points: Sequence[Endpoint], runs: Mapping[str, RunRows]
) -> dict[tuple[str, str, str], Bits]:
    """Which test texts are right, where all runs answer the same ones."""
    answers: dict[tuple[str, str, str], Bits] = {}
    if not _answer_same_texts(runs):
        return answers
    on_test = [point.name for point in points if point.split == "test"]
    rows = endpoints[(endpoints["metric"] == "accuracy") & endpoints["point"].isin(on_test)]
    for row in rows.itertuples():
        run = runs[row.run_id]
        if row.epoch in run.correct:
            bits = _unpack(run.correct[row.epoch], run.setup.facts["n_test"])
            answers[row.variant, row.seed, row.point] = bits
    return answers


def _describe_guess(facts: dict[str, Any]) -> dict[str, float]:
    """Metrics of always answering the largest class; none where older results do not know it."""
    if "largest_class" not in facts:
        return {}
    return guesses(facts["largest_class"], len(facts["classes"]))


def _unpack_guess(runs: Mapping[str, RunRows]) -> Bits | None:
    """Which test texts always answering the largest class has right; None where not known."""
    stored = [run for run in runs.values() if run.largest_class]
    if not stored or not _answer_same_texts(runs):
        return None
    return _unpack(stored[0].largest_class, stored[0].setup.facts["n_test"])
