"""Published studies: files of `docs/publish.py`, one row a run and epoch."""

import json
from pathlib import Path

import pyarrow.parquet as pq

from attnexp.analysis.rows import MADE_BY, About, RunRows
from attnexp.base.files import reading
from attnexp.runs.manifest import Manifest, PlannedRun

PLACE = ["data", "protocol", "variant"]
METADATA = b"attnexp"
"""Key of what a file holds besides its rows: the study, and what runs of a variant share."""


def load_published(file: Path, study: str) -> tuple[list[RunRows], Manifest]:
    """The runs of a published file, with the key of its study, and the study. Raises `UserError`."""
    with reading(file, "For results of your own: attnexp judge."):
        table = pq.read_table(file)
        table["val_accuracy"].cast("float64")  # another program's may be texts
        tree = json.loads((table.schema.metadata or {})[METADATA])
        abouts = {}
        for entry in tree["shared"]:
            about = About(config=entry["config"], facts=entry["data"], code=entry["code"])
            protocol = about.config["train"]["protocol"]
            abouts[about.facts["name"], protocol, entry["variant"]] = about
        frame = table.to_pandas()
        metrics = [name for name in frame if name.startswith(("train_", "val_", "test_"))]
        runs = []
        for (run_id, *place, seed), own in frame.groupby(["run_id", *PLACE, "seed"], sort=False):
            answers = own.dropna(subset="correct") if "correct" in own else own.iloc[:0]
            run = RunRows(
                run_id=run_id,
                label=place[-1],
                study=study,
                seed=seed,
                about=abouts[*place],
                made_by=[tuple(made.get(key) for key in MADE_BY) for made in tree["made_by"]],
                declared=tree.get("sequential", tree.get("declaration") is not None),
                rows=list(own.melt("epoch", metrics).dropna().itertuples(index=False, name=None)),
                correct=dict(zip(answers.get("epoch", ()), answers.get("correct", ()))),
            )
            run.check_answers()
            runs.append(run)
        planned = [PlannedRun(variant=name, seed=seed, run_id="") for name, seed in tree["planned"]]
        # files of before lack some of these keys
        keys = "variants settings seed_kind added_seeds commands metric margin sequential".split()
        plan = {key: tree[key] for key in keys if key in tree}
        return runs, Manifest(**plan, runs=planned)
