"""Groups of runs on disk and of published studies, by way of the rows of `rows.py`."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from attnexp.analysis.endpoints import ENDPOINTS, Endpoint
from attnexp.analysis.families import Family, differences_from, family_of_study
from attnexp.analysis.group import Bits, Group
from attnexp.analysis.kexue import k_rows_like
from attnexp.analysis.metrics import METRICS
from attnexp.analysis.naming import name_variants
from attnexp.analysis.read_published import load_published
from attnexp.analysis.rows import MADE_BY, About, RunRows
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import reading
from attnexp.runs import manifest, predictions, store
from attnexp.runs.labels import replicate
from attnexp.runs.manifest import Manifest
from attnexp.runs.result import Run


def load_groups(
    paths: Sequence[Path], left_out: Callable[[str], object] = progress.note
) -> list[Group]:
    """Groups of run folders, study folders and published files, with or without `.parquet`.
    left_out: gets a message on each that cannot be read. Raises `UserError` where nothing can."""
    rows: list[RunRows] = []
    studies: dict[str, Manifest] = {}
    messages: list[str] = []
    for path in dict.fromkeys(paths):
        key = str(path)
        file = Path(key.removesuffix(".parquet") + ".parquet")
        num_rows = len(rows)
        if file.is_file():
            with store.leaving_out(file, messages.append):
                published, studies[key] = load_published(file, key)
                rows += published
        else:
            manifest.check_folder(path)
            with store.leaving_out(path, messages.append):
                for run in manifest.load_runs(path, messages.append):
                    with store.leaving_out(run.path, messages.append):
                        rows += make_rows(run, key)
                if study := manifest.load_manifest(path):
                    studies[key] = study
        if len(rows) == num_rows:
            messages.append(f"There is no finished run in {path} that can be read.")
    if not rows:
        raise UserError("\n".join(messages))
    for message in messages:
        left_out(message)
    return make_groups(rows, studies)


def make_rows(run: Run, study: str = "") -> list[RunRows]:
    """A run with its rows. study: key of the manifest that planned it, or empty."""
    result = run.result
    python = {name: result.read_files[name] for name in result.read_files if name.endswith(".py")}
    rows = []
    for epoch in result.epochs:
        values = {**vars(epoch)}
        number = values.pop("epoch")
        if result.config["train"]["protocol"] == "holdout" and number == result.own_best.epoch:
            values |= {f"test_{name}": value for name, value in asdict(result.test).items()}
        rows += [(number, name, value) for name, value in values.items() if value is not None]
    own = RunRows(
        run_id=result.run_id,
        label=run.label,
        study=study,
        seed=replicate(result.config),
        about=About(config=result.config, facts=result.data, code=result.code | python),
        made_by=[tuple(result.provenance.get(key) for key in MADE_BY)],
        declared=run.sequential,
        default_label=result.label,
        num_departures=len(result.departures),
        folder=run.path,
        command=shlex.join(result.provenance.get("argv", ())),
        rows=rows,
        correct=predictions.right_by_epoch(run),
    )
    with reading(run.path / predictions.FILE, "Train again."):
        own.check_answers()
    return [own]


def make_groups(runs: Iterable[RunRows], studies: Mapping[str, Manifest]) -> list[Group]:
    """Groups of runs: only accuracies on one data set under one protocol may be compared. studies:
    manifests by the `study` of runs."""
    runs = list(runs)
    by_id = {run.run_id: run for run in runs}
    table = pd.DataFrame([run.record for run in runs]).drop_duplicates()
    for key, study in studies.items():
        if study.settings:  # a study knows its kind of seeds, which `seeds.init=0` may hide
            table.loc[table["study"] == key, "seed_kind"] = study.seed_kind
    contents_of = table.groupby("source")["fingerprint"].unique()
    counts: Counter[tuple[str, str]] = Counter()
    groups = []
    keys = ["fingerprint", "n_test", "protocol"]
    for (fingerprint, _, protocol), records in table.groupby(keys, sort=False):
        own = {run_id: by_id[run_id] for run_id in records["run_id"]}
        source = records["source"].iloc[0]
        contents = contents_of[source]
        data = source
        notes = []
        if len(contents) > 1:  # as of a file that was edited
            data += f" ({fingerprint[:8]})"
            prints = ", ".join(content[:8] for content in contents)
            notes.append(
                f"{source} was read with {len(contents)} contents (fingerprints {prints})."
            )
        data += _describe_cut([run.about for run in own.values()])
        counts[data, protocol] += 1
        number = counts[data, protocol]
        if number > 1:
            data += f" #{number}"
        named = name_variants(records, {run.about.key: run.about.settings for run in runs})
        named = named.assign(data=data)
        planned = _list_planned(named, studies, set(by_id))
        groups.append(_make_group(own, named, planned, studies, notes))
    return groups


def _describe_cut(abouts: Sequence[About]) -> str:
    """` (2,000 + 500 texts)`: the size of a cut of a data set, where all variants have the same."""
    settings = [about.config["data"] for about in abouts]
    limits = {(values.get("limit_train"), values.get("limit_test")) for values in settings}
    if len(limits) > 1 or limits == {(None, None)}:
        return ""
    facts = abouts[0].facts
    return f" ({facts['n_train']:,} + {facts['n_test']:,} texts)"


def _make_group(
    runs: Mapping[str, RunRows],
    named: pd.DataFrame,
    planned: pd.DataFrame,
    studies: Mapping[str, Manifest],
    notes: list[str],
) -> Group:
    """The group of runs, by id. named: with variant and data, a row for each study that has it.
    planned: as `_list_planned` gives them. notes: on its data."""
    plans = [studies[key] for key in named["study"].unique() if key in studies]
    for plan in plans:
        if plan.added_seeds:
            notes.append(f"Seeds added after a first answer: {', '.join(plan.added_seeds)}.")
    sequential = frozenset(named.loc[named["declared"], "variant"])
    named = named.drop_duplicates("run_id")  # which several studies may have
    firsts = named.drop_duplicates("variant").set_index("variant")
    abouts = {variant: runs[run_id].about for variant, run_id in firsts["run_id"].items()}
    facts = next(iter(abouts.values())).facts
    published = [
        k_rows_like(about.settings, facts).assign(variant=variant)
        for variant, about in abouts.items()
    ]
    rows = [(run_id, *row) for run_id, run in runs.items() for row in run.rows]
    values = pd.DataFrame(rows, columns=["run_id", "epoch", "metric", "value"])
    keys = ["data", "protocol", "variant", "seed"]
    values = named[[*keys, "run_id"]].merge(values.dropna(), on="run_id")
    points, endpoints = _at_endpoints(values, ENDPOINTS[firsts["protocol"].iloc[0]])
    by_epoch = values["metric"].str.startswith(("train_", "val_"))
    versions = dict.fromkeys(made for run in runs.values() for made in run.made_by)
    return Group(
        data=named["data"].iloc[0],
        source=facts["name"],
        protocol=firsts["protocol"].iloc[0],
        variants=list(firsts.index),
        points=points,
        endpoints=endpoints.drop(columns="run_id").reset_index(drop=True),
        epochs=values[by_epoch].drop(columns="run_id").reset_index(drop=True),
        families=_make_families(planned, firsts["seed_kind"]),
        published=pd.concat(published),
        configs={variant: about.config for variant, about in abouts.items()},
        right=_unpack_answers(endpoints, points, runs) if named["resample"].nunique(dropna=False) == 1 else {},
        runs=named[["variant", "seed", "run_id", "folder", "command"]],
        made_by=[dict(zip(MADE_BY, made, strict=True)) for made in versions],
        facts={variant: about.facts for variant, about in abouts.items()},
        studies=plans,
        num_texts={point.name: facts[f"n_{point.measured}"] for point in points},
        chance=facts.get("largest_class"),
        sequential=sequential,
        planned=planned.groupby("variant", sort=False)["seed"].unique().map(list).to_dict(),
        notes=notes,
    )


def _list_planned(
    rows: pd.DataFrame, studies: Mapping[str, Manifest], finished: set[str]
) -> pd.DataFrame:
    """Runs that the studies of these rows planned, but those that finished in another group; of an
    unfinished run the group is not known. Columns study, variant, seed, and levels of two crossed
    factors, if any; the baselines first. finished: ids of the runs of all groups."""
    firsts = rows.drop_duplicates("variant").set_index("variant")
    kinds = rows["variant"].map(firsts["seed_kind"])
    # a run that two studies have, of different kinds of seeds, counts in the first
    counted = rows[rows["seed_kind"] == kinds]
    planned = []
    for key, study_rows in counted.groupby("study", sort=False):
        study = studies.get(str(key))
        if study is None:
            continue
        variant_of_run = study_rows.set_index("run_id")["variant"].to_dict()
        variant_of_label = study_rows.set_index("label")["variant"].to_dict()
        in_other_groups = finished - variant_of_run.keys()
        order = list(study.variants)
        for run in sorted(study.runs, key=lambda run: order.index(run.variant)):
            if run.run_id in in_other_groups:
                continue
            name = variant_of_label.get(run.variant, run.variant)
            variant = variant_of_run.get(run.run_id, name)
            levels = study.variants[run.variant]
            planned.append((key, variant, run.seed, levels))
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


def _at_endpoints(
    values: pd.DataFrame, points: Sequence[Endpoint]
) -> tuple[list[Endpoint], pd.DataFrame]:
    """The endpoints that runs have, and values there. An endpoint at the same epochs as the one
    before it, on the same texts, is left out."""
    run = ["variant", "seed"]
    parts = {}
    selections: list[tuple[str, dict[Any, int]]] = []
    for point in points:
        assert point.select is not None
        prefix = f"{point.measured}_"
        accuracies = values[values["metric"] == f"{prefix}accuracy"]
        epochs = point.select(accuracies.pivot(index=run, columns="epoch", values="value"))
        selection = (point.measured, epochs.to_dict())
        if epochs.empty or selection in selections:
            continue
        selections.append(selection)
        rows = values.merge(epochs.rename("epoch").reset_index(), on=[*run, "epoch"])
        after = rows[rows["metric"] == "train_accuracy_after"].set_index(run)["value"]
        measured = rows[rows["metric"].str.startswith(prefix)]
        measured = measured.assign(metric=measured["metric"].str.removeprefix(prefix))
        gap = measured[measured["metric"] == "accuracy"].assign(metric="gap")
        gap["value"] = gap[run].apply(tuple, axis=1).map(after) - gap["value"]
        parts[point] = pd.concat([measured, gap.dropna(subset="value")]).assign(point=point.name)
    endpoints = pd.concat(parts.values(), ignore_index=True)
    order = {metric.name: place for place, metric in enumerate(METRICS)}
    endpoints = endpoints[endpoints["metric"].isin(order)]
    endpoints = endpoints.sort_values("metric", key=lambda names: names.map(order), kind="stable")
    return list(parts), endpoints.astype({"value": float})


def _unpack_answers(
    endpoints: pd.DataFrame, points: Sequence[Endpoint], runs: Mapping[str, RunRows]
) -> dict[tuple[str, str, str], Bits]:
    """Which test texts are right, where all runs answer the same ones: not where each seed draws
    its own test set, nor on the texts that each seed holds out."""
    answers: dict[tuple[str, str, str], Bits] = {}
    on_test = [point.name for point in points if point.split == "test"]
    rows = endpoints[(endpoints["metric"] == "accuracy") & endpoints["point"].isin(on_test)]
    for row in rows.itertuples():
        run = runs[row.run_id]
        if row.epoch in run.correct:
            packed = np.frombuffer(run.correct[row.epoch], np.uint8)
            bits = np.unpackbits(packed, count=run.about.facts["n_test"])
            answers[row.variant, row.seed, row.point] = bits > 0
    return answers
