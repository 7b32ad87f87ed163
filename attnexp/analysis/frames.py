"""The waist of the project: results as two data frames, whoever measured them.

`endpoints` has a row for each variant, seed, endpoint and metric; `epochs` the same by epoch. Runs
on disk and published studies become groups here, other trainers' files in `judge.py`; contrasts,
tables, pictures and the page read nothing else.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attnexp.analysis.published import k_epochs
from attnexp.analysis.stored import Row, read
from attnexp.runs.identity import as_word, default_label, default_settings, settings
from attnexp.runs.manifest import Manifest
from attnexp.runs.points import METRICS, POINTS
from attnexp.statistics.intervals import smallest_step

EPOCH_METRICS = (
    *("train_loss", "train_accuracy", "train_loss_after", "train_accuracy_after"),
    *("val_loss", "val_accuracy", "val_brier", "val_ece"),
)

Bits = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Group:
    """Variants that may be compared: one data set and one protocol. The first is the baseline."""

    data: str
    protocol: str
    """`blog`, `holdout`, or empty for results of other trainers; so is then what has a default."""
    variants: list[str]
    points: list[str]
    """Endpoints; the one that decides comes first."""
    endpoints: pd.DataFrame
    """Columns data, protocol, variant, seed, point, epoch, metric, value (accuracies are shares)."""
    epochs: pd.DataFrame
    """Columns data, protocol, variant, seed, epoch, metric, value."""
    published: pd.DataFrame = field(default_factory=pd.DataFrame)
    """K's run: columns variant, position, epoch and metrics; for variants of its kind."""
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Settings of each variant."""
    levels: dict[str, dict[str, str]] = field(default_factory=dict)
    """Levels of two crossed factors, by variant."""
    right: dict[tuple[str, str, str], Bits] = field(default_factory=dict)
    """Which texts of one test set are right, by variant, seed and point."""
    runs: pd.DataFrame = field(default_factory=pd.DataFrame)
    """Columns variant, seed, run_id, folder."""
    num_texts: dict[str, int] = field(default_factory=dict)
    """Number of texts that accuracy is measured on, by endpoint."""
    chance: float | None = None
    """Accuracy of always guessing the largest class."""
    sequential: frozenset[str] = frozenset()
    """Variants whose seeds were added because of results."""
    planned: dict[str, list[str]] = field(default_factory=dict)
    """Seeds that studies planned, by variant, also of variants without any finished run."""
    notes: list[str] = field(default_factory=list)

    def values(self, point: str, metric: str) -> pd.DataFrame:
        """Values of a metric at an endpoint: a row a seed, a column a variant."""
        rows = self.endpoints[
            (self.endpoints["point"] == point) & (self.endpoints["metric"] == metric)
        ]
        wide = rows.pivot(index="seed", columns="variant", values="value")
        return wide.reindex(columns=[name for name in self.variants if name in wide])

    def epochs_of(self, point: str) -> dict[str, int]:
        """Epoch of an endpoint by variant; empty where it differs between seeds or is not known."""
        rows = self.endpoints[self.endpoints["point"] == point].dropna(subset="epoch")
        found = rows.drop_duplicates(["variant", "epoch"]).set_index("variant")["epoch"]
        return {} if found.index.has_duplicates else {str(k): int(v) for k, v in found.items()}

    def step(self, point: str, metric: str) -> float:
        """Smallest step of a metric, as `t_interval` wants it."""
        if self.num_texts:
            return 1 / self.num_texts[point] if metric == "accuracy" else 0.0
        return smallest_step(self.endpoints.loc[self.endpoints["metric"] == metric, "value"])

    def missing(self) -> dict[str, list[str]]:
        """Planned seeds without a finished run, by variant."""
        there = {*zip(self.endpoints["variant"], self.endpoints["seed"], strict=True)}
        lacking = {
            k: [s for s in seeds if (k, s) not in there] for k, seeds in self.planned.items()
        }
        return {name: seeds for name, seeds in lacking.items() if seeds}


def load(paths: Sequence[Path], left_out: list[str] | None = None) -> list[Group]:
    """Groups of run folders, study folders and published files. Raises `UserError` for a path
    without any finished run. left_out: gets a message for each run that cannot be read."""
    return groups_of(*read(paths, [] if left_out is None else left_out))


def groups_of(rows: Sequence[Row], studies: Mapping[str, Manifest]) -> list[Group]:
    """Groups of runs: only accuracies on one data set under one protocol may be compared.

    studies: those of the runs, by name.
    """
    places: dict[tuple[str, int, str], list[Row]] = {}
    for row in rows:
        facts, protocol = row["facts"], row["config"]["train"]["protocol"]
        places.setdefault((facts["fingerprint"], facts["n_test"], protocol), []).append(row)
    groups = list[Group]()
    for (*_, protocol), own in places.items():
        name = _name_of_data(own)
        taken = sum(one.protocol == protocol and one.data.split(" #")[0] == name for one in groups)
        groups.append(_group(f"{name} #{taken + 1}" if taken else name, protocol, own, studies))
    return groups


def _name_of_data(rows: Sequence[Row]) -> str:
    """Name of the data set; with the numbers of texts where all variants are limited alike."""
    facts = rows[0]["facts"]
    limits = {tuple(r["config"]["data"][k] for k in ("limit_train", "limit_test")) for r in rows}
    if len(limits) > 1 or limits == {(None, None)}:
        return str(facts["name"])
    return f"{facts['name']} ({facts['n_train']:,} + {facts['n_test']:,} texts)"


def by_variant(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows of runs with the same settings and code, which differ only in their seeds, by variant.

    Variants have the names and the order of their study, and so have runs of a bare folder that are
    like them. If one name stands for several variants, the settings that differ are added to it, or
    the code. Variants without a study are named by these settings alone, those closest to the
    default settings first.
    """
    groups, keys = dict[str, list[Row]](), dict[str, str]()
    for row in rows:
        if row["run_id"] not in keys:
            key = [settings(row["config"]), row["code"]]
            keys[row["run_id"]] = json.dumps(key, sort_keys=True)
        groups.setdefault(keys[row["run_id"]], []).append(row)

    def departures(rows: Sequence[Row]) -> int:
        own, default = settings(rows[0]["config"]), default_settings()
        return 0 if rows[0]["label"] else 1 + sum(default.get(k) != v for k, v in own.items())

    named: dict[str, list[Row]] = {}
    for of in sorted(groups.values(), key=departures):
        label, config = of[0]["label"], of[0]["config"]
        namesakes = [
            o[0]["config"] for o in groups.values() if o is not of and o[0]["label"] == label
        ]
        others = [*map(settings, namesakes)]
        # a setting that the others' pieces do not have says no more than the pieces do
        words = [
            as_word(k, v)
            for k, v in settings(config).items()
            if any(o.get(k, v) != v for o in others)
        ]
        name = " ".join(filter(None, [label, *words])) or default_label(config)
        named[f"{name} (code {of[0]['run_id'][-8:]})" if name in named else name] = of
    return named


def _group(name: str, protocol: str, rows: Sequence[Row], studies: Mapping[str, Manifest]) -> Group:
    variants, facts = by_variant(rows), rows[0]["facts"]
    names = {(row["study"], row["label"]): label for label, of in variants.items() for row in of}
    configs = {label: of[0]["config"] for label, of in variants.items()}
    table = pd.DataFrame(
        {**row, "data": name, "protocol": protocol, "variant": label}
        for label, of in variants.items()
        for row in {(row["run_id"], row["epoch"]): row for row in of}.values()
    )
    at_points = pd.concat(_at_points(table, protocol), ignore_index=True)
    keys = ["data", "protocol", "variant", "seed"]
    plans = {study: studies[study] for study, _ in names if study in studies}
    planned: dict[str, list[str]] = {}
    for study, plan in plans.items():
        for entry in plan.runs:
            planned.setdefault(names.get((study, entry.variant), entry.variant), []).append(
                entry.seed
            )
    return Group(
        data=name,
        protocol=protocol,
        variants=[*variants],
        points=[*at_points["point"].unique()],
        endpoints=_long(at_points, [*keys, "point", "epoch"], METRICS),
        epochs=_long(table, [*keys, "epoch"], EPOCH_METRICS),
        published=pd.concat(k_epochs(of, facts).assign(variant=v) for v, of in configs.items()),
        configs=configs,
        levels={
            names[study, label]: levels
            for study, plan in plans.items()
            for label, levels in plan.variants.items()
            if levels and (study, label) in names
        },
        right=_bits(at_points, facts["n_test"]),
        runs=table.drop_duplicates("run_id")[["variant", "seed", "run_id", "folder"]],
        num_texts={p: facts["n_test" if p == "chosen" else "n_val"] for p in POINTS[protocol]},
        chance=facts.get("largest_class"),
        sequential=frozenset(
            label for (study, _), label in names.items()
            if study in plans and plans[study].declaration
        ),
        planned=planned,
    )  # fmt: skip


def _at_points(table: pd.DataFrame, protocol: str) -> Iterator[pd.DataFrame]:
    """Rows of each endpoint, with the column point and the metrics there."""
    last = table.groupby(["variant", "seed"])["epoch"].transform("max")
    for point in POINTS[protocol]:
        if point == "chosen":
            rows = table[table["test_accuracy"].notna()]
        elif point == "final":
            rows = table[table["epoch"] == last]
        else:
            shared = table[table["epoch"] <= last.groupby(table["variant"]).transform("min")]
            means = shared.groupby(["variant", "epoch"])["val_accuracy"].mean().unstack()
            rows = table[table["epoch"] == table["variant"].map(means.idxmax(axis=1))]
            if (rows["epoch"] == last[rows.index]).all():
                return  # the last epoch, which stands there already
        prefix = "test_" if point == "chosen" else "val_"
        rows = rows.assign(point=point, **{name: rows[prefix + name] for name in METRICS[:-1]})
        if "train_accuracy_after" in rows:
            rows["gap"] = rows["train_accuracy_after"] - rows["accuracy"]
        yield rows


def _long(table: pd.DataFrame, keys: Sequence[str], metrics: Sequence[str]) -> pd.DataFrame:
    """A row for each value that is there."""
    there = [name for name in metrics if name in table]
    return table.melt([*keys], there, var_name="metric").dropna().astype({"value": float})


def _bits(at_points: pd.DataFrame, n: int) -> dict[tuple[str, str, str], Bits]:
    """Which of n texts are right, where all runs answer the same ones: not where each seed draws
    its own test set, nor on the texts that each seed holds out."""
    rows = at_points[at_points["correct"].notna()]
    if len({config["seeds"].get("resample") for config in rows["config"]}) > 1:
        return {}
    if "chosen" in {*rows["point"]}:
        rows = rows[rows["point"] == "chosen"]
    places = zip(rows["variant"], rows["seed"], rows["point"], strict=True)
    bits = (np.unpackbits(np.frombuffer(b, np.uint8), count=n) for b in rows["correct"])
    return dict(zip(places, (one.astype(bool) for one in bits), strict=True))
