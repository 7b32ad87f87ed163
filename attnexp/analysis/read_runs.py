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
from attnexp.analysis.rows import MADE_BY, RunRows, Setup, as_rows, name_seed_kind
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.base.files import reading
from attnexp.config.options import Tree
from attnexp.runs import find, store
from attnexp.runs.labels import settings
from attnexp.runs.manifest import Manifest, PlannedRun, load_manifest

LeftOut = Callable[[str], object]  # gets a message
Loaded = tuple[list[RunRows], Manifest | None]
METADATA = b"attnexp"
"""A published file has a row for each run and epoch. Under this key its schema holds JSON: fields
of `Manifest`, but pairs of variant and seed as `planned` in place of runs; `shared`, variant, data,
config, code and own_code of a variant's runs; `made_by`; `largest_class`, bits by data set."""


def load_groups(paths: Sequence[Path], left_out: LeftOut = progress.note) -> list[Group]:
    """Groups of run and study folders, and of published files: `x` is `x.parquet` if there is one.
    left_out: gets a message on each that cannot be read. Raises `UserError` without any."""
    runs = []
    studies = {}
    messages: list[str] = []
    for path in dict.fromkeys(paths):
        file = Path(f"{str(path).removesuffix('.parquet')}.parquet")
        if not file.is_file():
            find.check_folder(path)
        read: list[RunRows] = []
        with store.leaving_out(path, messages.append):
            if file.is_file():
                read, study = _load_published(file, str(path))
            else:
                read, study = _load_folder(path, messages.append)
            if study is not None:
                studies[str(path)] = study
        if not read:
            messages.append(f"There is no finished run in {path} that can be read.")
        runs += read
    if not runs:
        raise UserError("\n".join(messages))
    for message in messages:
        left_out(message)
    return make_groups(runs, studies)


def _load_folder(folder: Path, left_out: LeftOut) -> Loaded:
    """The finished runs of a folder, and its study if it has one. Raises `UserError`."""
    study = load_manifest(folder)
    runs = []
    for run in find.load_runs(folder, left_out):
        with store.leaving_out(run.path, left_out):
            runs.append(as_rows(run, str(folder) if study else "", study))
    return runs, study


def _load_published(file: Path, study: str) -> Loaded:
    """The runs of a published file, and its study, whose key is `study`. Raises `UserError`."""
    with reading(file, "For results of your own: attnexp judge."):
        table = pq.read_table(file)
        metadata = table.schema.metadata or {}
        tree = json.loads(metadata[METADATA])
        planned = [PlannedRun(variant=name, seed=seed, run_id="") for name, seed in tree["planned"]]
        about = tree | {"runs": planned}
        manifest = TypeAdapter(Manifest).validate_python(about)
        return _read_runs(table.to_pandas(), tree, study, manifest), manifest


def _read_runs(frame: pd.DataFrame, tree: Tree, study: str, manifest: Manifest) -> list[RunRows]:
    """The runs of the rows of a file. tree: its metadata, see `METADATA`."""
    shared = {}  # setup and kind of seeds
    for entry in tree["shared"]:
        config = entry["config"]
        facts = entry["data"]
        code = {"code": entry["code"], "own_code": entry["own_code"]}
        setup = Setup(settings=settings(config), facts=facts, **code)
        seed_kind = name_seed_kind(config, manifest)
        shared[entry["variant"], facts["name"], setup.protocol] = (setup, seed_kind)
    made_by = [{key: made.get(key) for key in MADE_BY} for made in tree["made_by"]]
    metrics = [name for name in frame if name.startswith(("train_", "val_", "test_"))]
    largest_classes = tree["largest_class"]
    keys = ["run_id", "seed", "variant", "data", "protocol"]
    runs = []
    for (run_id, seed, label, data, protocol), epochs in frame.groupby(keys, sort=False):
        setup, seed_kind = shared[label, data, protocol]
        run = RunRows(
            run_id=run_id,
            study=study,
            label=label,
            setup=setup,
            seed=seed,
            seed_kind=seed_kind,
            epochs=epochs[["epoch", "correct", *metrics]],
            largest_class=base64.b64decode(largest_classes.get(data, "")),
            made_by=made_by,
            sequential=manifest.sequential,
        )
        runs.append(run)
    return runs
