"""Groups of runs on disk and of published studies, by way of the rows of `rows.py`."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd

from attnexp.analysis.endpoints import ENDPOINTS, Endpoint
from attnexp.analysis.families import Family, differences_from, family_of_study
from attnexp.analysis.group import Bits, Group
from attnexp.analysis.kexue import k_rows_like
from attnexp.analysis.metrics import METRICS
from attnexp.analysis.naming import name_variants
from attnexp.analysis.read_published import load_published
from attnexp.analysis.rows import MADE_BY, Row, check_answers, describe_run
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import reading
from attnexp.runs import manifest, predictions
from attnexp.runs.labels import replicate
from attnexp.runs.manifest import Manifest
from attnexp.runs.result import Run


def load_groups(
    paths: Sequence[Path], left_out: Callable[[str], object] = progress.note
) -> list[Group]:
    """Groups of run folders, study folders and published files, with or without `.parquet`.
    left_out: gets a message on each that cannot be read. Raises `UserError` where nothing can."""
    rows: list[Row] = []
    studies: dict[str, Manifest] = {}
    messages: list[str] = []
    for path in dict.fromkeys(paths):
        key = str(path)
        file = Path(key.removesuffix(".parquet") + ".parquet")
        num_rows = len(rows)
        if file.is_file():
            with _leaving_out(messages):
                published, studies[key] = load_published(file, key)
                rows += published
        else:
            manifest.check_folder(path)
            with _leaving_out(messages):
                for run in manifest.load_runs(path, messages.append):
                    with _leaving_out(messages):
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


@contextmanager
def _leaving_out(messages: list[str]) -> Iterator[None]:
    """Go on after a run, study or file that cannot be read, with a message."""
    try:
        yield
    except UserError as error:
        messages.append(str(error))


def make_rows(run: Run, study: str = "") -> list[Row]:
    """The rows of a run. study: key of the manifest that planned it, or empty."""
    result = run.result
    python = {name: result.read_files[name] for name in result.read_files if name.endswith(".py")}
    about = describe_run(result.config, result.data, result.code | python) | {
        "label": run.label,
        "study": study,
        "declared": run.declared,
        "default_label": result.label,
        "num_departures": len(result.departures),
        "parameters": result.parameters,
        "made_by": [tuple(result.provenance.get(key) for key in MADE_BY)],
        "command": shlex.join(result.provenance.get("argv", ())),
        "seed": replicate(result.config),
        "run_id": result.run_id,
        "folder": run.path,
    }
    correct = predictions.right_by_epoch(run)
    rows = []
    for epoch in result.epochs:
        row = about | vars(epoch) | {"correct": correct.get(epoch.epoch)}
        if about["protocol"] == "holdout" and epoch.epoch == result.best.epoch:
            tested = asdict(result.test)
            row |= {f"test_{name}": tested[name] for name in tested if name != "n"}
        rows.append(row)
    with reading(run.path / predictions.FILE, "Train again."):
        check_answers(rows)
    return rows


def make_groups(rows: Iterable[Row], studies: Mapping[str, Manifest]) -> list[Group]:
    """Groups of runs: only accuracies on one data set under one protocol may be compared. studies:
    manifests by the `study` of rows."""
    table = pd.DataFrame(list(rows))
    for key, study in studies.items():
        if study.settings:  # a study knows its kind of seeds, which `seeds.init=0` may hide
            table.loc[table["study"] == key, "seed_kind"] = study.seed_kind
    table["source"] = [facts["name"] for facts in table["facts"]]
    contents_of = table.groupby("source")["fingerprint"].unique()
    finished = set(table["run_id"])
    counts: Counter[tuple[str, str]] = Counter()
    groups = []
    keys = ["fingerprint", "n_test", "protocol"]
    for (fingerprint, _, protocol), group_rows in table.groupby(keys, sort=False):
        source = group_rows["source"].iloc[0]
        contents = contents_of[source]
        data = source
        notes = []
        if len(contents) > 1:  # as of a file that was edited
            data += f" ({fingerprint[:8]})"
            prints = ", ".join(content[:8] for content in contents)
            notes.append(
                f"{source} was read with {len(contents)} contents (fingerprints {prints})."
            )
        data += _describe_cut(group_rows)
        counts[data, protocol] += 1
        number = counts[data, protocol]
        if number > 1:
            data += f" #{number}"
        rows_of_variants = name_variants(group_rows).assign(data=data)
        planned = _list_planned(rows_of_variants, studies, finished)
        groups.append(_make_group(rows_of_variants, planned, studies, notes))
    return groups


def _describe_cut(rows: pd.DataFrame) -> str:
    """` (2,000 + 500 texts)`: the size of a cut of a data set, where all variants have the same."""
    settings = [config["data"] for config in rows["config"]]
    limits = {(values["limit_train"], values["limit_test"]) for values in settings}
    if len(limits) > 1 or limits == {(None, None)}:
        return ""
    facts = rows["facts"].iloc[0]
    return f" ({facts['n_train']:,} + {facts['n_test']:,} texts)"


def _make_group(
    rows: pd.DataFrame, planned: pd.DataFrame, studies: Mapping[str, Manifest], notes: list[str]
) -> Group:
    """The group of all these rows. planned: as `_list_planned` gives them. notes: on its data."""
    plans = [studies[key] for key in rows["study"].unique() if key in studies]
    versions = rows["made_by"].explode().dropna().unique()
    rows = rows.drop_duplicates(["run_id", "epoch"])  # which several studies may have
    protocol = str(rows["protocol"].iloc[0])
    facts = rows["facts"].iloc[0]
    firsts = rows.drop_duplicates("variant").set_index("variant")
    published = []
    for variant, settings in firsts["settings"].items():
        published.append(k_rows_like(settings, facts).assign(variant=variant))
    at_points = _at_endpoints(rows, ENDPOINTS[protocol])
    points = [point for point in ENDPOINTS[protocol] if point.name in set(at_points["point"])]
    keys = ["data", "protocol", "variant", "seed"]
    by_epoch = [name for name in rows if name.startswith(("train_", "val_"))]
    for plan in plans:
        if plan.added_seeds:
            notes.append(f"Seeds added after a first answer: {', '.join(plan.added_seeds)}.")
    return Group(
        data=rows["data"].iloc[0],
        source=facts["name"],
        protocol=protocol,
        variants=list(firsts.index),
        points=points,
        endpoints=_melt(at_points, [*keys, "point", "epoch"], [metric.name for metric in METRICS]),
        epochs=_melt(rows, [*keys, "epoch"], by_epoch),
        families=_make_families(planned, firsts["seed_kind"]),
        published=pd.concat(published),
        configs=firsts["config"].to_dict(),
        right=_unpack_answers(at_points, points, facts["n_test"]),
        runs=rows.drop_duplicates("run_id")[["variant", "seed", "run_id", "folder", "command"]],
        made_by=[dict(zip(MADE_BY, values, strict=True)) for values in versions],
        facts=firsts["facts"].to_dict(),
        studies=plans,
        num_texts={point.name: facts[f"n_{point.measured}"] for point in points},
        chance=facts.get("largest_class"),
        sequential=frozenset(rows.loc[rows["declared"], "variant"]),
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


def _at_endpoints(rows: pd.DataFrame, points: Sequence[Endpoint]) -> pd.DataFrame:
    """Rows of each endpoint, with the column point and one for each metric that was measured there.
    An endpoint at the same epochs as the one before it, on the same texts, is left out."""
    parts: list[pd.DataFrame] = []
    selections: list[tuple[str, list[bool]]] = []
    for point in points:
        assert point.select is not None
        is_selected = point.select(rows)
        selection = (point.measured, list(is_selected))
        if selection in selections:
            continue
        selections.append(selection)
        part = rows[is_selected].assign(point=point.name)
        for metric in METRICS:
            column = f"{point.measured}_{metric.name}"
            if column in rows:
                part[metric.name] = part[column]
        if "train_accuracy_after" in rows:
            part["gap"] = part["train_accuracy_after"] - part["accuracy"]
        parts.append(part)
    return pd.concat(parts, ignore_index=True)


def _melt(rows: pd.DataFrame, keys: list[str], metrics: Iterable[str]) -> pd.DataFrame:
    """A row for each value that is there."""
    columns = [name for name in metrics if name in rows]
    return rows.melt(keys, columns, var_name="metric").dropna().astype({"value": float})


def _unpack_answers(
    at_points: pd.DataFrame, points: Sequence[Endpoint], num_texts: int
) -> dict[tuple[str, str, str], Bits]:
    """Which test texts are right, where all runs answer the same ones: not where each seed draws
    its own test set, nor on the texts that each seed holds out."""
    answers: dict[tuple[str, str, str], Bits] = {}
    resamples = {config["seeds"].get("resample") for config in at_points["config"]}
    if len(resamples) > 1:
        return answers
    on_test = [point.name for point in points if point.split == "test"]
    rows = at_points.dropna(subset="correct")
    rows = rows[rows["point"].isin(on_test)]
    for row in rows.itertuples():
        packed = np.frombuffer(row.correct, np.uint8)
        bits = np.unpackbits(packed, count=num_texts)
        answers[row.variant, row.seed, row.point] = bits > 0
    return answers
