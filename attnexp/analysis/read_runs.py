"""Groups of runs on disk and of published studies, the files of `docs/publish.py`."""

import base64
import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
from pydantic import TypeAdapter

from attnexp.analysis.group import Group
from attnexp.analysis.make_groups import make_groups
from attnexp.analysis.rows import RunRows, Setup, as_rows
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import reading
from attnexp.config.settings import Tree
from attnexp.runs import find, store
from attnexp.runs.labels import variant_settings
from attnexp.runs.manifest import Manifest, PlannedRun, load_manifest

LeftOut = Callable[[str], object]  # gets a message
METADATA = b"attnexp"
"""Key of the JSON in the schema of a published file, which has a row for each epoch of a run:
fields of `Manifest` without runs; planned: [variant, seed] of each run that was planned;
shared: variant, data, config, code, own_code, parameters by variant, data set and protocol;
made_by: provenances; largest_class: by data set, bits (`numpy.packbits`) in base64."""


def load_groups(paths: Sequence[Path], left_out: LeftOut = progress.note) -> list[Group]:
    """Groups of run and study folders, and of published files: `x` is `x.parquet` if there is one.
    left_out: told of each that is not read. Raises `UserError` if none is, or one is not there."""
    runs = []
    messages: list[str] = []
    for path in dict.fromkeys(paths):
        file = Path(f"{str(path).removesuffix('.parquet')}.parquet")
        if not file.is_file():
            find.resolve_folder(path)  # This raises, outside of `leaving_out`.
        found: list[RunRows] = []
        with store.leaving_out(path, messages.append):
            if file.is_file():
                found = _load_published(file, str(path))
            else:
                found = _load_folder(path, messages.append)
        if not found:
            messages.append(f"There is no finished run in {path} that can be read.")
        runs += found
    if not runs:
        raise UserError("\n".join(messages))
    for message in dict.fromkeys(messages):
        left_out(message)
    return make_groups(runs)


def _load_folder(folder: Path, left_out: LeftOut) -> list[RunRows]:
    """The finished runs of a folder, which may be that of a study. Raises `UserError`."""
    manifest = load_manifest(folder)
    runs = []
    for run in find.load_runs(folder, left_out):
        with store.leaving_out(run.path, left_out):
            runs.append(as_rows(run, str(folder) if manifest else "", manifest))
    return runs


def _load_published(file: Path, study: str) -> list[RunRows]:
    """The runs of a published file. study: key of its study. Raises `UserError`."""
    with reading(file, "For results of your own: attnexp judge."):
        table = pq.read_table(file)
        metadata = table.schema.metadata or {}
        tree = json.loads(metadata[METADATA])
        planned = [PlannedRun(variant=name, seed=seed, run_id="") for name, seed in tree["planned"]]
        # Keys of the tree that `Manifest` lacks are ignored.
        manifest = TypeAdapter(Manifest).validate_python(tree | {"runs": planned})
        return _split_runs(table.to_pandas(), tree, study, manifest)


def _split_runs(frame: pd.DataFrame, tree: Tree, study: str, manifest: Manifest) -> list[RunRows]:
    """The runs of the rows of a file. tree: its metadata, see `METADATA`."""
    metrics = [name for name in frame if name.startswith(("train_", "val_", "test_"))]
    rows_of = frame.groupby(["variant", "data", "protocol"])
    runs = []
    for shared in tree["shared"]:
        setup = Setup(
            settings=variant_settings(shared["config"]),
            facts=shared["data"] | {"parameters": shared["parameters"]},
            code=shared["code"],
            own_code=shared["own_code"],
        )
        data = setup.facts["name"]
        rows = rows_of.get_group((shared["variant"], data, setup.settings["train.protocol"]))
        for (run_id, seed), epochs in rows.groupby(["run_id", "seed"], sort=False):
            run = RunRows(
                run_id=run_id,
                study=study,
                manifest=manifest,
                label=shared["variant"],
                setup=setup,
                seed=seed,
                seed_kind=manifest.seed_kind,
                epochs=epochs[["epoch", "correct", *metrics]],
                largest_class=base64.b64decode(tree["largest_class"].get(data, "")),
                made_by=tree["made_by"],
                sequential=manifest.sequential,
            )
            runs.append(run)
    return runs
