"""The waist of the project: results as two data frames, whoever measured them.

`endpoints` has a row for each variant, seed, endpoint and metric; `epochs` the same by epoch. Runs
on disk and published studies become groups here, other trainers' files in `judge.py`; contrasts,
tables, pictures and the page read nothing else.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
from numpy.typing import NDArray

from attnexp.analysis.published import k_epochs
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.runs import manifest, predictions
from attnexp.runs.labels import as_word, default_label, departures, replicate, settings
from attnexp.runs.manifest import Manifest, PlannedRun
from attnexp.runs.result import METRICS, POINTS, Run
from attnexp.statistics.intervals import smallest_step

Bits = NDArray[np.bool_]

Row = dict[str, Any]
"""A run and epoch: label (of its variant, or empty), study (key of its manifest), declared (as in
`Run`), config, facts (of the data), code, parameters, seed, run_id, folder, epoch, metrics (with
`test_loss` etc. in the chosen epoch of a holdout run), correct: bits of the test texts, or None."""

SHARED = ("config", "code", "parameters")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Variants that may be compared: one data set and one protocol. The first is the baseline."""

    data: str
    protocol: str  # blog, holdout; empty for other trainers, who have no epochs, configs, or plans
    variants: list[str]
    points: list[str]  # endpoints; the one that decides comes first
    endpoints: pd.DataFrame  # data, protocol, variant, seed, point, epoch, metric, value (shares)
    epochs: pd.DataFrame  # data, protocol, variant, seed, epoch, metric, value
    published: pd.DataFrame = field(default_factory=pd.DataFrame)  # K's: variant, epoch, metrics
    configs: dict[str, dict[str, Any]] = field(default_factory=dict)  # settings, by variant
    levels: dict[str, dict[str, str]] = field(default_factory=dict)  # of two factors, by variant
    right: dict[tuple[str, str, str], Bits] = field(default_factory=dict)
    """Which texts of one test set are right, by variant, seed and point."""
    runs: pd.DataFrame = field(default_factory=pd.DataFrame)  # variant, seed, run_id, folder
    num_texts: dict[str, int] = field(default_factory=dict)  # that accuracy counts, by point
    chance: float | None = None  # accuracy of always guessing the largest class
    sequential: frozenset[str] = frozenset()  # variants whose seeds were added because of results
    planned: dict[str, list[str]] = field(default_factory=dict)
    """Seeds that studies planned, by variant, also of variants without any finished run."""
    notes: list[str] = field(default_factory=list)

    def values(self, point: str, metric: str) -> pd.DataFrame:
        """Values of a metric at an endpoint: a row a seed, a column a variant."""
        rows = self.endpoints.loc[lambda r: (r["point"] == point) & (r["metric"] == metric)]
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
        there = self.endpoints.groupby("variant")["seed"].agg(set)
        absent = {v: [s for s in of if s not in there.get(v, ())] for v, of in self.planned.items()}
        return {variant: seeds for variant, seeds in absent.items() if seeds}


def load(paths: Sequence[Path], left_out: Callable[[str], object] = progress.note) -> list[Group]:
    """Groups of run folders, study folders and published files, with or without `.parquet`.

    left_out: as in `manifest.load_runs`. Raises `UserError` for a path without any finished run.
    """
    rows, studies = list[Row](), dict[str, Manifest]()
    for path in dict.fromkeys(paths):
        file = path if path.suffix == ".parquet" else Path(f"{path}.parquet")
        if file.is_file():
            more, study = _published(file, str(path))
        else:
            runs, study = manifest.load_runs(path, left_out), manifest.load_manifest(path)
            more = [row for run in runs for row in rows_of(run, str(path))]
        rows += more
        studies |= {str(path): study} if study else {}
    return groups_of(rows, studies)


def rows_of(run: Run, study: str = "") -> Iterator[Row]:
    """The rows of a run. study: key of the manifest that planned it, or empty."""
    result, right = run.result, predictions.right_by_epoch(run)
    of_run = {"label": run.label, "study": study, "facts": result.data, "folder": run.path}
    of_run |= {"seed": replicate(result.config), "declared": run.declared}
    of_run |= {name: getattr(result, name) for name in ("run_id", *SHARED)}
    chosen = result.best.epoch if result.config["train"]["protocol"] == "holdout" else None
    test = {f"test_{name}": value for name, value in asdict(result.test).items() if name != "n"}
    for row in result.epochs:
        measured = asdict(row) | (test if row.epoch == chosen else {})
        yield {**of_run, **measured, "correct": right.get(row.epoch)}


def _published(file: Path, study: str) -> tuple[list[Row], Manifest | None]:
    """Rows and study of a file of `docs/publish.py`; its metadata hold what runs share."""
    table = pq.read_table(file)
    tree = json.loads((table.schema.metadata or {}).get(b"attnexp", b"{}"))
    if not tree:
        raise UserError(f"{file} is no published study. For results of your own: attnexp judge.")
    shared = dict[tuple[str, str, str], Row]()
    for own in tree["shared"]:
        place = (own["data"]["name"], own["config"]["train"]["protocol"], own["variant"])
        more = {"study": study, "facts": own["data"], "folder": None}
        more["declared"] = tree["declaration"] is not None
        shared[place] = more | {key: own[key] for key in SHARED}
    rows = table.rename_columns({"variant": "label"}).to_pylist()
    return [shared[r["data"], r["protocol"], r["label"]] | r for r in rows], Manifest(
        variants=tree["variants"],
        runs=[PlannedRun(variant=label, seed=seed, run_id="") for label, seed in tree["planned"]],
    )


def groups_of(rows: Sequence[Row], studies: Mapping[str, Manifest]) -> list[Group]:
    """Groups of runs: only accuracies on one data set under one protocol may be compared. studies:
    manifests by the `study` of rows."""
    table = pd.DataFrame(rows)
    table["protocol"] = table["config"].str["train"].str["protocol"]
    places = [table["facts"].str["fingerprint"], table["facts"].str["n_test"], table["protocol"]]
    groups, taken = list[Group](), Counter[tuple[str, str]]()
    for (*_, protocol), own in table.groupby(places, sort=False):
        name = _name_of_data(own)
        number = taken[name, protocol] = taken[name, protocol] + 1
        named = name_variants(own.assign(data=f"{name} #{number}" if number > 1 else name))
        groups.append(_group(named, studies, {*table["run_id"]}))
    return groups


def _name_of_data(table: pd.DataFrame) -> str:
    """Name of the data set; with the numbers of texts where all variants are limited alike."""
    facts = table["facts"].iloc[0]
    limits = {(data["limit_train"], data["limit_test"]) for data in table["config"].str["data"]}
    if len(limits) > 1 or limits == {(None, None)}:
        return str(facts["name"])
    return f"{facts['name']} ({facts['n_train']:,} + {facts['n_test']:,} texts)"


def name_variants(table: pd.DataFrame) -> pd.DataFrame:
    """The same rows with the column variant: all runs with the same settings and code.

    It has its name and place from its study, and so have runs of a bare folder that are like it.
    Where that names several, the settings that differ are added, or the code. Variants without a
    study are named by these settings alone, those closest to the defaults first.
    """
    runs = table.drop_duplicates(["run_id", "label"])
    distance = [0 if run.label else 1 + len(departures(run.config)) for run in runs.itertuples()]
    runs = runs.iloc[np.argsort(distance, kind="stable")].drop_duplicates("run_id")
    runs["own"] = runs["config"].map(settings)
    runs["key"] = [json.dumps([run.own, run.code], sort_keys=True) for run in runs.itertuples()]
    labels = runs.groupby(["study", "key"])["label"]  # which may differ by `seeds.*` alone
    runs["key"] += runs["label"].where(labels.transform("nunique") > 1, "")
    firsts, names = runs.drop_duplicates("key"), dict[str, str]()
    for first in firsts.itertuples():
        namesakes = firsts.loc[firsts["label"] == first.label, "own"]
        # a setting that the others' pieces do not have says no more than the pieces do
        differing = [
            as_word(key, value)
            for key, value in first.own.items()
            if any(other.get(key, value) != value for other in namesakes)
        ]
        name = " ".join(filter(None, [first.label, *differing])) or default_label(first.config)
        code = f" (code {first.run_id[-8:]})" if name in names.values() else ""
        names[first.key] = name + code
    return runs[["run_id"]].assign(variant=runs["key"].map(names)).merge(table, on="run_id")


def _group(table: pd.DataFrame, studies: Mapping[str, Manifest], done: set[str]) -> Group:
    """The group of all these rows, whose variants have names. done: the runs of all groups."""
    levels, planned = dict[str, Any](), dict[str, dict[str, None]]()
    for study, own in table.groupby("study", sort=False):
        if plan := studies.get(str(study)):
            by_label = dict(zip(own["label"], own["variant"], strict=True))
            levels |= {by_label[k]: of for k, of in plan.variants.items() if of and k in by_label}
            by_run = dict(zip(own["run_id"], own["variant"], strict=True))
            for run in plan.runs:
                if run.run_id in by_run or run.run_id not in done:  # else it is another group's
                    name = by_run.get(run.run_id) or by_label.get(run.variant, run.variant)
                    planned.setdefault(name, {})[run.seed] = None
    table = table.drop_duplicates(["run_id", "epoch"])
    data, protocol, facts = table.iloc[0][["data", "protocol", "facts"]]
    configs = table.drop_duplicates("variant").set_index("variant")["config"].to_dict()
    at_points = _at_points(table, protocol)
    keys = ["data", "protocol", "variant", "seed"]
    return Group(
        data=data,
        protocol=protocol,
        variants=[*configs],
        points=[*at_points["point"].unique()],
        endpoints=_long(at_points, [*keys, "point", "epoch"], METRICS),
        epochs=_long(table, [*keys, "epoch"], table.filter(regex="^(train|val)_")),
        published=pd.concat(k_epochs(of, facts).assign(variant=v) for v, of in configs.items()),
        configs=configs,
        levels=levels,
        right=_bits(at_points, facts["n_test"]),
        runs=table.drop_duplicates("run_id")[["variant", "seed", "run_id", "folder"]],
        num_texts={p: facts["n_test" if p == "chosen" else "n_val"] for p in POINTS[protocol]},
        chance=facts.get("largest_class"),
        sequential=frozenset(table.loc[table["declared"], "variant"]),
        planned={name: [*seeds] for name, seeds in planned.items()},
    )


def _at_points(table: pd.DataFrame, protocol: str) -> pd.DataFrame:
    """Rows of each endpoint, with the column point and the metrics there."""
    last = table.groupby(["variant", "seed"])["epoch"].transform("max")
    where = {"final": table["epoch"] == last}
    if protocol == "holdout":
        where = {"chosen": table["test_accuracy"].notna(), **where}
    else:
        shared = table[table["epoch"] <= last.groupby(table["variant"]).transform("min")]
        means = shared.groupby(["variant", "epoch"])["val_accuracy"].mean().unstack()
        best = table["epoch"] == table["variant"].map(means.idxmax(axis=1))
        where |= {} if best.equals(where["final"]) else {"best": best}
    found = []
    for point, there in where.items():
        rows, prefix = table[there], "test_" if point == "chosen" else "val_"
        rows = rows.assign(point=point, **{name: rows[prefix + name] for name in METRICS[:-1]})
        if "train_accuracy_after" in rows:
            rows["gap"] = rows["train_accuracy_after"] - rows["accuracy"]
        found.append(rows)
    return pd.concat(found, ignore_index=True)


def _long(table: pd.DataFrame, keys: Sequence[str], metrics: Iterable[str]) -> pd.DataFrame:
    """A row for each value that is there."""
    there = [name for name in metrics if name in table]
    return table.melt([*keys], there, var_name="metric").dropna().astype({"value": float})


def _bits(at_points: pd.DataFrame, n: int) -> dict[tuple[str, str, str], Bits]:
    """Which of n texts are right, where all runs answer the same ones: not where each seed draws
    its own test set, nor on the texts that each seed holds out."""
    rows = at_points[at_points["correct"].notna()]
    if rows["config"].str["seeds"].str["resample"].nunique(dropna=False) > 1:
        return {}
    if "chosen" in {*rows["point"]}:
        rows = rows[rows["point"] == "chosen"]
    places = zip(rows["variant"], rows["seed"], rows["point"], strict=True)
    bits = (np.unpackbits(np.frombuffer(b, np.uint8), count=n) for b in rows["correct"])
    return dict(zip(places, (one.astype(bool) for one in bits), strict=True))
