"""A run as the analysis reads it, whether it lies on disk or in a published file."""

import json
import shlex
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path

import pandas as pd

from attnexp.config.settings import Flat, Tree
from attnexp.runs import predictions
from attnexp.runs.labels import seed_name, variant_settings
from attnexp.runs.manifest import Manifest
from attnexp.runs.result import Run

MADE_BY = "version commit torch python processor device platform".split()  # shown of provenance


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What the runs of a variant have in common, whatever their seeds."""

    settings: Flat  # that make a variant
    facts: Tree  # of the data (of one draw of its texts), and the number of parameters
    code: dict[str, str]  # digests of attnexp's files, by name
    own_code: dict[str, str]  # of the user's Python files

    @cached_property
    def key(self) -> str:
        """Equal for all runs of a variant; `naming` tells apart variants that share it."""
        shared = [self.settings, self.code, self.own_code, self.facts.get("vectors")]
        return json.dumps(shared, sort_keys=True)


@dataclass(frozen=True, kw_only=True)
class RunRows:
    """A run: what it is, and a row for each epoch."""

    run_id: str
    study: str = ""  # key of the study that planned it
    manifest: Manifest | None = None  # of this study
    label: str = ""  # of its variant, in this study
    setup: Setup
    seed: str
    seed_kind: str  # seeds that vary in its study, `seed` or such as `seeds.init x seeds.order`
    epochs: pd.DataFrame  # epoch, metrics, and correct: bits of the test texts that are right
    largest_class: bytes = b""  # bits of the test texts of the largest class, if known
    made_by: list[Tree]  # its provenance; in a published file that of all runs of its study
    sequential: bool = False  # whether its study adds seeds because of results
    # What follows only runs on disk have.
    default_label: str = ""  # its name where no study gives it one
    distance: int = 0  # from the defaults; 0 if a study names the run
    folder: Path | None = None
    command: str = ""

    @property
    def entry(self) -> Tree:
        """Its row in the frame of entries: the fields above, and these, by which runs are grouped.
        Entries stand in the order of the studies, in each the baseline first."""
        facts = self.setup.facts
        return {
            **vars(self),
            "key": self.setup.key,
            "protocol": self.setup.settings["train.protocol"],
            "source": facts["name"],
            "fingerprint": facts["fingerprint"],
            "n_test": facts["n_test"],
        }


def _name_seed_kind(seeds: Tree) -> str:
    """The seeds that vary where no study says so: those in `seeds.*` that are set, or `seed`."""
    own_seeds = [f"seeds.{source}" for source in seeds if seeds[source] is not None]
    return " x ".join(sorted(own_seeds)) or "seed"


def as_rows(run: Run, study: str = "", manifest: Manifest | None = None) -> RunRows:
    """A finished run on disk. study, manifest: as in `RunRows`. Raises `UserError`."""
    result = run.result
    epochs = pd.DataFrame(map(asdict, result.epochs)).astype(float).astype({"epoch": int})
    if result.config["train"]["protocol"] == "holdout":  # It was tested at one epoch alone.
        is_chosen = epochs["epoch"] == result.own_best.epoch
        for name, value in asdict(result.test).items():
            epochs.loc[is_chosen, f"test_{name}"] = value
    own_code = {name: read for name, read in result.read_files.items() if name.endswith(".py")}
    correct, largest_class = predictions.read_answers(run)
    epochs["correct"] = epochs["epoch"].map(correct).astype(object)
    return RunRows(
        run_id=result.run_id,
        study=study,
        manifest=manifest,
        label=run.variant,
        setup=Setup(
            settings=variant_settings(result.config),
            facts=result.data | {"parameters": result.parameters},
            code=result.code,
            own_code=own_code,
        ),
        seed=seed_name(result.config),
        seed_kind=manifest.seed_kind if manifest else _name_seed_kind(result.config["seeds"]),
        epochs=epochs,
        largest_class=largest_class,
        made_by=[result.provenance],
        sequential=run.sequential,
        default_label=result.label,
        distance=0 if run.variant else 1 + len(result.departures),
        folder=run.path,
        command=shlex.join(result.provenance.get("argv", ())),
    )
