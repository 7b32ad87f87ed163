"""Groups of runs that may be compared: one data set, test texts and protocol.

Two frames lead to them: entries, in which a run has a row for each study that has it, and runs, in
which it has one. Columns: those of `RunRows.entry`, and in a group variant and data."""

import math
from collections.abc import Sequence
from itertools import chain

import pandas as pd

from attnexp.analysis.endpoints import ENDPOINTS, Endpoint
from attnexp.analysis.group import Group, Key, Marks, Origin
from attnexp.analysis.metrics import BY_NAME
from attnexp.analysis.naming import name_variants
from attnexp.analysis.plans import Plans, read_plans
from attnexp.analysis.rows import MADE_BY, RunRows
from attnexp.runs.labels import draw_of
from attnexp.runs.manifest import Manifest
from attnexp.runs.predictions import unpack_bits
from attnexp.statistics.chance import guesses

RUN = ["variant", "seed"]  # what tells the runs of a group apart
ABOUT = ["data", "protocol", *RUN, "run_id"]


def make_groups(runs: Sequence[RunRows]) -> list[Group]:
    """Groups of one data set and one protocol. runs: one that two studies planned comes twice."""
    if not runs:  # All that a sweep began may have failed.
        return []
    all_entries = pd.DataFrame([run.entry for run in runs])
    all_entries = all_entries.drop_duplicates(["run_id", "study", "label"])
    num_contents = all_entries.groupby("source")["fingerprint"].nunique()
    groups = []
    for _, in_group in all_entries.groupby(["fingerprint", "n_test", "protocol"], sort=False):
        entries = name_variants(in_group).assign(data=_name_data(in_group, num_contents))
        studies = {row.study: row.manifest for row in in_group.itertuples() if row.manifest}
        plans = read_plans(entries, all_entries, studies)
        groups.append(_make_group(entries, list(studies.values()), plans))
    return groups


def _name_data(entries: pd.DataFrame, num_contents: "pd.Series[int]") -> str:
    """The data of a group: name, part of its fingerprint if others share the name, sizes if cut."""
    facts = entries["setup"].iloc[0].facts
    name = str(facts["name"])
    if num_contents[name] > 1:
        name += f" ({facts['fingerprint'][:8]})"
    keys = ("data.limit_train", "data.limit_test")
    cuts = {tuple(map(setup.settings.get, keys)) for setup in entries["setup"]}
    if len(cuts) == 1 and cuts != {(None, None)}:  # All were cut alike.
        name += f" ({facts['n_train']:,} + {facts['n_test']:,} texts)"
    elif all(limit_test is not None for _, limit_test in cuts):  # They share the test texts alone.
        name += f" ({facts['n_test']:,} test texts)"
    return name


def _make_group(entries: pd.DataFrame, studies: list[Manifest], plans: Plans) -> Group:
    """The group of entries. studies: that planned them."""
    runs = entries.drop_duplicates("run_id")
    setups = runs.drop_duplicates("variant").set_index("variant")["setup"].to_dict()
    first = next(runs.itertuples())  # All runs share what is read of it.
    facts = first.setup.facts
    endpoints = ENDPOINTS[first.protocol]
    own_epochs = pd.concat([*runs["epochs"]], keys=runs["run_id"])
    epochs = runs[ABOUT].merge(own_epochs, on="run_id")
    measured = _measure_endpoints(epochs, endpoints)
    right, guess = _unpack_answers(measured, runs)
    num_texts = {
        (variant, endpoint.name): setup.facts[f"n_{endpoint.measured}"]
        for variant, setup in setups.items()
        for endpoint in endpoints
    }
    made_by = [{key: made.get(key) for key in MADE_BY} for made in chain(*runs["made_by"])]
    return Group(
        data=first.data,
        source=first.source,
        protocol=first.protocol,
        variants=list(setups),
        endpoints=endpoints,
        families=plans.families,
        at_endpoints=_melt(measured, ["epoch", "point"], list(BY_NAME)),
        epochs=_melt_epochs(epochs),
        right=right,
        num_texts=num_texts,
        chance=guesses(facts.get("largest_class"), len(facts["classes"])),
        guess=guess,
        sequential=frozenset(entries.loc[entries["sequential"], "variant"]),
        origin=Origin(
            setups=setups,
            runs=runs,
            made_by=list({str(made): made for made in made_by}.values()),  # each once
            studies=studies,
            planned=plans.seeds,
        ),
    )


def _melt(rows: pd.DataFrame, keys: list[str], metrics: list[str]) -> pd.DataFrame:
    """A row for each metric that was measured."""
    long = rows.melt(["data", "protocol", *RUN, *keys], metrics, "metric")
    return long.dropna(subset="value").reset_index(drop=True)


def _melt_epochs(epochs: pd.DataFrame) -> pd.DataFrame:
    """A row for each metric. Rows of a variant stand together, for `mean_over_seeds` keeps this."""
    metrics = [name for name in epochs if name.startswith(("train_", "val_"))]
    by_variant = epochs.groupby("variant", sort=False)
    return pd.concat(_melt(own, ["epoch"], metrics) for _, own in by_variant)


def _measure_endpoints(epochs: pd.DataFrame, endpoints: Sequence[Endpoint]) -> pd.DataFrame:
    """Metrics and correct of each run at each endpoint; a column that no run has is NaN."""
    parts = []
    for point in endpoints:
        accuracies = epochs.pivot(index=RUN, columns="epoch", values=f"{point.measured}_accuracy")
        chosen = point.select(accuracies).rename("epoch")
        at_point = epochs.merge(chosen, on=[*RUN, "epoch"])
        metric_of_column = {f"{point.measured}_{name}": name for name in BY_NAME}
        at_point = at_point.rename(columns=metric_of_column)
        gap = at_point.get("train_accuracy_after", math.nan) - at_point["accuracy"]
        parts.append(at_point.assign(point=point.name, split=point.split, gap=gap))
    columns = [*ABOUT, "epoch", "point", "split", "correct", *BY_NAME]
    return pd.concat(parts).reindex(columns=columns)


def _unpack_answers(
    measured: pd.DataFrame, runs: pd.DataFrame
) -> tuple[dict[Key, Marks], Marks | None]:
    """`Group.right` and `Group.guess`. Answers of another accuracy than the run's are left out."""
    if runs["seed"].map(draw_of).nunique() > 1:  # Their test texts differ.
        return {}, None
    num_texts = runs["n_test"].iloc[0]
    right: dict[Key, Marks] = {}
    on_test = measured[measured["split"] == "test"].dropna(subset="correct")
    for row in on_test.itertuples():
        answers = unpack_bits(row.correct, num_texts)
        if abs(answers.sum() - row.accuracy * num_texts) < 0.5:
            right[row.variant, row.seed, row.point] = answers
    largest_class = max(runs["largest_class"], key=len)  # Some runs may not know it.
    guess = unpack_bits(largest_class, num_texts) if largest_class else None
    return right, guess
