"""Groups of runs on disk and of published studies, by way of a row for each run and epoch."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attnexp.analysis.endpoints import ENDPOINTS, Endpoint
from attnexp.analysis.families import Family, differences_from, family_of_study
from attnexp.analysis.group import Bits, Group
from attnexp.analysis.kexue import find_k_epochs
from attnexp.analysis.metrics import METRICS
from attnexp.analysis.naming import kind_of_seeds, name_variants
from attnexp.analysis.read_published import load_published
from attnexp.base import progress
from attnexp.runs import manifest, predictions
from attnexp.runs.labels import replicate
from attnexp.runs.manifest import Manifest
from attnexp.runs.result import Run

Row = dict[str, Any]
"""A run and epoch. Of the run: label (of its variant, or empty), study (key of its manifest),
declared (as in `Run`), default_label, num_departures, config, protocol, facts (of the data),
fingerprint, n_test, vectors, code, seed, seed_kind, run_id, folder. Of the epoch: epoch, metrics
(`val_loss`; `test_loss` in the chosen epoch of a holdout run), correct: bits of the test texts."""


def load_groups(
    paths: Sequence[Path], left_out: Callable[[str], object] = progress.note
) -> list[Group]:
    """Groups of run folders, study folders and published files, with or without `.parquet`.

    left_out: as in `manifest.load_runs`. Raises `UserError` for a path without any finished run.
    """
    rows: list[Row] = []
    studies: dict[str, Manifest] = {}
    for path in dict.fromkeys(paths):
        key = str(path)
        file = path if path.suffix == ".parquet" else Path(f"{path}.parquet")
        if file.is_file():
            published, studies[key] = load_published(file)
            rows += [_row_of_published(row, key) for row in published]
            continue
        runs = manifest.load_runs(path, left_out)
        study = manifest.load_manifest(path)
        if study is not None:
            studies[key] = study
        for run in runs:
            rows += make_rows(run, key)
    return make_groups(rows, studies)


def make_rows(run: Run, study: str = "") -> list[Row]:
    """The rows of a run. study: key of the manifest that planned it, or empty."""
    result = run.result
    about = _describe_run(result.config, result.data) | {
        "label": run.label,
        "study": study,
        "declared": run.declared,
        "default_label": result.label,
        "num_departures": len(result.departures),
        "code": result.code,
        "parameters": result.parameters,
        "seed": replicate(result.config),
        "run_id": result.run_id,
        "folder": run.path,
    }
    correct = predictions.right_by_epoch(run)
    tested = {f"test_{name}": value for name, value in asdict(result.test).items() if name != "n"}
    rows = []
    for epoch in result.epochs:
        row = about | asdict(epoch) | {"correct": correct.get(epoch.epoch)}
        if about["protocol"] == "holdout" and epoch.epoch == result.best.epoch:
            row |= tested
        rows.append(row)
    return rows


def _describe_run(config: dict[str, Any], facts: dict[str, Any]) -> Row:
    """What a config and the facts of its data say of a run."""
    return {
        "config": config,
        "protocol": config["train"]["protocol"],
        "seed_kind": kind_of_seeds(config),
        "facts": facts,
        "fingerprint": facts["fingerprint"],
        "n_test": facts["n_test"],
        "vectors": facts.get("vectors"),
    }


def _row_of_published(row: Row, study: str) -> Row:
    """A row of a published file as `make_rows` would give it."""
    shared = row.pop("shared")
    return (
        row
        | _describe_run(shared["config"], shared["data"])
        | {
            "study": study,
            "default_label": "",
            "num_departures": 0,
            "code": shared["code"],
            "parameters": shared["parameters"],
            "folder": None,
        }
    )


def make_groups(rows: Iterable[Row], studies: Mapping[str, Manifest]) -> list[Group]:
    """Groups of runs: only accuracies on one data set under one protocol may be compared. studies:
    manifests by the `study` of rows."""
    table = pd.DataFrame(list(rows))
    for key, study in studies.items():
        if study.settings:  # a study knows its kind of seeds, which `seeds.init=0` may hide
            table.loc[table["study"] == key, "seed_kind"] = study.seed_kind
    finished = set(table["run_id"])
    counts: Counter[tuple[str, str]] = Counter()
    groups = []
    for (_, _, protocol), group_rows in table.groupby(
        ["fingerprint", "n_test", "protocol"], sort=False
    ):
        data = _name_data(group_rows)
        counts[data, protocol] += 1
        number = counts[data, protocol]
        if number > 1:
            data = f"{data} #{number}"
        groups.append(_make_group(data, name_variants(group_rows), studies, finished))
    return groups


def _name_data(rows: pd.DataFrame) -> str:
    """Name of the data set; with the numbers of texts where all variants are limited alike."""
    facts = rows["facts"].iloc[0]
    limits = set()
    for config in rows["config"]:
        limits.add((config["data"]["limit_train"], config["data"]["limit_test"]))
    if len(limits) > 1 or limits == {(None, None)}:
        return str(facts["name"])
    return f"{facts['name']} ({facts['n_train']:,} + {facts['n_test']:,} texts)"


def _make_group(
    data: str, rows: pd.DataFrame, studies: Mapping[str, Manifest], finished: set[str]
) -> Group:
    """The group of all these rows, whose variants have names. finished: ids of all groups' runs."""
    plans = _find_plans(rows, studies, finished)
    rows = rows.assign(data=data).drop_duplicates(["run_id", "epoch"])
    protocol = str(rows["protocol"].iloc[0])
    facts = rows["facts"].iloc[0]
    firsts = rows.drop_duplicates("variant").set_index("variant")
    configs = firsts["config"].to_dict()
    published = [
        find_k_epochs(config, facts).assign(variant=variant) for variant, config in configs.items()
    ]
    at_points = _at_endpoints(rows, ENDPOINTS[protocol])
    points = [point for point in ENDPOINTS[protocol] if point.name in set(at_points["point"])]
    keys = ["data", "protocol", "variant", "seed"]
    by_epoch = [name for name in rows if name.startswith(("train_", "val_"))]
    return Group(
        data=data,
        source=facts["name"],
        protocol=protocol,
        variants=list(configs),
        points=points,
        endpoints=_melt(at_points, [*keys, "point", "epoch"], [metric.name for metric in METRICS]),
        epochs=_melt(rows, [*keys, "epoch"], by_epoch),
        families=_make_families(plans, firsts["seed_kind"]),
        published=pd.concat(published),
        configs=configs,
        right=_unpack_answers(at_points, points, facts["n_test"]),
        runs=rows.drop_duplicates("run_id")[["variant", "seed", "run_id", "folder"]],
        num_texts={point.name: facts[f"n_{point.measured}"] for point in points},
        chance=facts.get("largest_class"),
        sequential=frozenset(rows.loc[rows["declared"], "variant"]),
        planned=_planned_seeds(plans),
        notes=_notes_on_added_seeds(rows, studies),
    )


@dataclass(frozen=True, kw_only=True)
class StudyPlan:
    """What a study planned on one data set under one protocol, by variant, the baseline first."""

    levels: dict[str, Mapping[str, str]]  # of two crossed factors, else of none or one
    seeds: dict[str, list[str]]


def _find_plans(
    rows: pd.DataFrame, studies: Mapping[str, Manifest], finished: set[str]
) -> list[StudyPlan]:
    """Plans of the studies that these rows are from."""
    plans = []
    for key, study_rows in rows.groupby("study", sort=False):
        study = studies.get(str(key))
        if study is not None:
            plans.append(_plan_of_study(study, study_rows, finished))
    return plans


def _plan_of_study(study: Manifest, rows: pd.DataFrame, finished: set[str]) -> StudyPlan:
    """The plan of a study for the group of these rows. finished: ids of all groups' runs."""
    variant_of_run = dict(zip(rows["run_id"], rows["variant"], strict=True))
    variant_of_label = dict(zip(rows["label"], rows["variant"], strict=True))
    levels: dict[str, Mapping[str, str]] = {}
    seeds: dict[str, list[str]] = {}
    order = list(study.variants)
    for run in sorted(study.runs, key=lambda run: order.index(run.variant)):
        if run.run_id not in variant_of_run and run.run_id in finished:
            continue  # it is in another group
        variant = variant_of_run.get(run.run_id) or variant_of_label.get(run.variant, run.variant)
        levels.setdefault(variant, study.variants[run.variant])
        seeds_of_variant = seeds.setdefault(variant, [])
        if run.seed not in seeds_of_variant:  # it may be planned on several data sets
            seeds_of_variant.append(run.seed)
    return StudyPlan(levels=levels, seeds=seeds)


def _make_families(plans: Sequence[StudyPlan], seed_kinds: "pd.Series[str]") -> list[Family]:
    """The family of each study, and of the variants that none has planned, with one kind of seeds,
    one more. seed_kinds: by variant."""
    families = [family_of_study(plan.levels) for plan in plans]
    planned = {variant for plan in plans for variant in plan.levels}
    for _, variants in seed_kinds.groupby(seed_kinds, sort=False).groups.items():
        unplanned = [variant for variant in variants if variant not in planned]
        families.append(differences_from(variants[0], unplanned))
    return [family for family in families if family]


def _planned_seeds(plans: Sequence[StudyPlan]) -> dict[str, list[str]]:
    """Seeds that studies planned, by variant."""
    seeds: dict[str, dict[str, None]] = {}
    for plan in plans:
        for variant, names in plan.seeds.items():
            seeds.setdefault(variant, {}).update(dict.fromkeys(names))
    return {variant: list(names) for variant, names in seeds.items()}


def _at_endpoints(rows: pd.DataFrame, points: Sequence[Endpoint]) -> pd.DataFrame:
    """Rows of each endpoint, with the column point and the metrics there. An endpoint at the same
    epochs as the one before it, on the same texts, is left out."""
    parts: list[pd.DataFrame] = []
    selected: list[tuple[str, list[bool]]] = []
    for point in points:
        assert point.select is not None
        is_there = point.select(rows)
        place = (point.measured, list(is_there))
        if place in selected:
            continue
        selected.append(place)
        parts.append(_metrics_at(point, rows[is_there]))
    return pd.concat(parts, ignore_index=True)


def _metrics_at(point: Endpoint, rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of an endpoint with a column for each metric that was measured there."""
    measured = {}
    for metric in METRICS:
        column = f"{point.measured}_{metric.name}"
        if column in rows:
            measured[metric.name] = rows[column]
    if "train_accuracy_after" in rows:
        measured["gap"] = rows["train_accuracy_after"] - measured["accuracy"]
    return rows.assign(point=point.name, **measured)


def _melt(rows: pd.DataFrame, keys: list[str], metrics: Iterable[str]) -> pd.DataFrame:
    """A row for each value that is there."""
    columns = [name for name in metrics if name in rows]
    return rows.melt(keys, columns, var_name="metric").dropna().astype({"value": float})


def _unpack_answers(
    at_points: pd.DataFrame, points: Sequence[Endpoint], num_texts: int
) -> dict[tuple[str, str, str], Bits]:
    """Which test texts are right, where all runs answer the same ones: not where each seed draws
    its own test set, nor on the texts that each seed holds out."""
    resampled = {config["seeds"].get("resample") for config in at_points["config"]}
    if len(resampled) > 1:
        return {}
    on_test = [point.name for point in points if point.split == "test"]
    answers = {}
    rows = at_points[at_points["correct"].notna() & at_points["point"].isin(on_test)]
    for row in rows.itertuples():
        packed = np.frombuffer(row.correct, np.uint8)
        answers[row.variant, row.seed, row.point] = np.unpackbits(packed, count=num_texts) > 0
    return answers


def _notes_on_added_seeds(rows: pd.DataFrame, studies: Mapping[str, Manifest]) -> list[str]:
    """A line for each study that was given more seeds after it was complete."""
    notes = []
    for key in rows["study"].unique():
        study = studies.get(key)
        if study is not None and study.added_seeds:
            seeds = ", ".join(study.added_seeds)
            notes.append(f"Seeds added after a first answer: {seeds}.")
    return notes
