"""A run as the analysis reads it, whether it lies on disk or in a published file."""

import json
import shlex
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from attnexp.config.options import Tree
from attnexp.runs import predictions
from attnexp.runs.labels import replicate, settings
from attnexp.runs.manifest import Manifest
from attnexp.runs.result import Run

MADE_BY = ("version", "commit", "torch", "python", "processor", "device", "platform")
"""Keys of the provenance of a run that reports show."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What the runs of a variant have in common."""

    config: Tree
    facts: Tree  # of the data, and of a run on disk the number of parameters
    code: dict[str, str]  # digests of attnexp's files, by name
    own_code: dict[str, str]  # of the user's Python files

    @cached_property
    def settings(self) -> Tree:
        """Settings that make a variant, by key."""
        return settings(self.config)

    @property
    def protocol(self) -> str:
        """The protocol of training and evaluation, `blog` or `holdout`."""
        return str(self.config["train"]["protocol"])

    @cached_property
    def key(self) -> str:
        """What the runs of a variant share: settings, code and word vectors."""
        shared = [self.settings, self.code, self.own_code, self.facts.get("vectors")]
        return json.dumps(shared, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class RunRows:
    """A run: what it is, and a row for each epoch."""

    run_id: str
    study: str = ""  # key of the manifest that planned it
    label: str = ""  # of its variant, in this study
    setup: Setup
    seed: str
    seed_kind: str  # from `name_seed_kind`
    epochs: pd.DataFrame  # epoch, metrics, and correct: bits of the test texts that are right
    largest_class: bytes = b""  # bits of the test texts of the largest class, if known
    made_by: list[Tree]  # values by `MADE_BY`
    sequential: bool = False  # whether its study adds seeds because of results
    # What follows only runs on disk have.
    default_label: str = ""
    num_departures: int = 0  # settings that are not the default ones
    folder: Path | None = None
    command: str = ""

    @property
    def entry(self) -> Tree:
        """Its row in the frame of entries, which tells groups and variants apart. key: equal in
        runs of one variant. fingerprint: of the data set, whose name is source."""
        return {
            "run": self,
            "run_id": self.run_id,
            "study": self.study,
            "label": self.label,
            "num_departures": self.num_departures,
            "seed": self.seed,
            "seed_kind": self.seed_kind,
            "key": self.setup.key,
            "sequential": self.sequential,
            "protocol": self.setup.protocol,
            "source": self.setup.facts["name"],
            "fingerprint": self.setup.facts["fingerprint"],
            "n_test": self.setup.facts["n_test"],
            "folder": self.folder,
            "command": self.command,
        }


def name_seed_kind(config: Tree, manifest: Manifest | None) -> str:
    """The seeds that differ between runs: the study's, or what a run without one tells, `seed` or
    the sources of chance that have seeds of their own, joined as those of a study."""
    # A config with `seeds.init=0` does not say which seeds differ between runs; a study does.
    if manifest and manifest.settings:  # Older studies do not say.
        return manifest.seed_kind
    seeds = config["seeds"]
    return " x ".join(sorted(f"seeds.{key}" for key in seeds if seeds[key] is not None)) or "seed"


def as_rows(run: Run, study: str = "", manifest: Manifest | None = None) -> RunRows:
    """A finished run on disk. study, manifest: that planned it, by its key, if one did. Raises
    `UserError` where its predictions cannot be read."""
    result = run.result
    rows = {row.epoch: asdict(row) for row in result.epochs}
    if result.config["train"]["protocol"] == "holdout":
        tested = {f"test_{name}": value for name, value in asdict(result.test).items()}
        rows[result.own_best.epoch] |= tested
    epochs = pd.DataFrame(rows.values()).astype(float).astype({"epoch": int})
    python = {name: result.read_files[name] for name in result.read_files if name.endswith(".py")}
    correct, largest_class = predictions.read_answers(run)
    epochs["correct"] = epochs["epoch"].map(correct).astype(object)
    return RunRows(
        run_id=result.run_id,
        study=study,
        label=run.variant,
        setup=Setup(
            config=result.config,
            facts=result.data | {"parameters": result.parameters},
            code=result.code,
            own_code=python,
        ),
        seed=replicate(result.config),
        seed_kind=name_seed_kind(result.config, manifest),
        epochs=epochs,
        largest_class=largest_class,
        made_by=[{key: result.provenance.get(key) for key in MADE_BY}],
        sequential=run.sequential,
        default_label=result.label,
        num_departures=len(result.departures),
        folder=run.path,
        command=shlex.join(result.provenance.get("argv", ())),
    )
