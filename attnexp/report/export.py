"""Finished runs written into the folder of an experiment tracker, or as folders for a model hub.

In a tracker a run's group is its variant, its name the seed, its config the settings by key, and a
step is an epoch; the last step also has the test metrics. A run exported before is replaced, so
there are no duplicates. Nothing leaves the machine. Trackers are imported only when asked for.
"""

import hashlib
import re
import shlex
import shutil
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, redirect_stdout
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from attnexp.analysis.variants import by_variant, comparison_groups
from attnexp.base import progress
from attnexp.base.errors import UserError, require
from attnexp.base.files import writing
from attnexp.config.schema import flatten
from attnexp.report import card
from attnexp.runs.identity import replicate
from attnexp.runs.result import Run, RunResult

HUB = "hub"
"""Target that writes a folder per run to upload to a model hub; see `card`."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A finished run in the terms of experiment trackers."""

    id: str
    """Sixteen hex digits that identify the run and its name in the study."""
    project: str
    """Name of the study; `attnexp` for runs of no study or of several."""
    variant: str
    seed: str
    config: dict[str, Any]
    """Settings by key, such as `model.heads`, and the provenance of the run."""
    steps: dict[int, dict[str, float]]
    """Metrics by epoch, from 1."""


def export(found: Sequence[Run], target: str, into: Path) -> str:
    """Write runs into a folder. Returns the command that shows or uploads them.

    target: `HUB`, or a name of `TRACKERS`. Raises `UserError` if the tracker is not installed or
    fails.
    """
    if target == HUB:
        runs = {run.result.run_id: run for run in found}
        for run_id, run in progress.track(runs.items(), total=len(runs), label="exporting"):
            card.write(run, into / run_id)
        one = into / (run_id if len(runs) == 1 else "RUN")
        return f"hf upload USER/REPO {shlex.quote(str(one))}"
    records = _records(found)
    open_run, command = TRACKERS[target]
    try:
        with (
            writing(into, "--into DIR"),
            _errors_of_threads(),
            redirect_stdout(StringIO()),  # stdout is for results
        ):
            require(target, f"--to {target}", target)
            into.mkdir(parents=True, exist_ok=True)
            for record in progress.track(records, total=len(records), label="exporting"):
                with open_run(record, into.resolve()) as log:
                    for epoch, metrics in record.steps.items():
                        log(metrics, epoch)
    except UserError:
        raise
    except Exception as error:  # each tracker has its own
        raise UserError(
            f"{target} failed to write these runs ({type(error).__name__}: {error}). Try another "
            f"folder, with --into, or another tracker."
        ) from error
    return command.format(into=shlex.quote(str(into)))


@contextmanager
def _errors_of_threads() -> Iterator[None]:
    """Raise the first error of a tracker's threads here, instead of printing it."""
    errors: list[BaseException | None] = []
    before, threading.excepthook = threading.excepthook, lambda args: errors.append(args.exc_value)
    try:
        yield
    finally:
        threading.excepthook = before
    for error in filter(None, errors):
        raise error


def _records(found: Sequence[Run]) -> list[Record]:
    studies = {study for run in found for study in run.studies}
    groups = comparison_groups(found)
    study = studies.pop() if len(studies) == 1 else None
    return [
        Record(
            id=hashlib.sha256(f"{run.result.run_id} {run.label}".encode()).hexdigest()[:16],
            project=study.resolve().name if study else "attnexp",
            variant=", ".join([variant, *where]),
            seed=replicate(run.result.config),
            config={
                **flatten(run.result.config),
                "run_id": run.result.run_id,
                "commit": run.result.provenance["commit"],
                "parameters": run.result.parameters,
                "data.fingerprint": run.result.data["fingerprint"],
            },
            steps=_steps(run.result),
        )
        for group, where in zip(groups, _places(groups), strict=True)
        for variant, runs in by_variant(group).items()
        for run in runs
    ]


def _places(groups: Sequence[Sequence[Run]]) -> list[tuple[str, ...]]:
    """What tells groups apart: nothing if there is one; the data set; if names are equal, the
    protocol too; then the number of test texts; then the data's fingerprint."""
    facts = list[tuple[str, ...]]()
    for run, *_ in groups:
        data, protocol = run.result.data, run.result.config["train"]["protocol"]
        size, fingerprint = f"{data['n_test']} test texts", data["fingerprint"][:8]
        facts.append((data["name"], protocol, size, fingerprint))
    for num in range(5):
        places = [fact[:num] for fact in facts]
        if len({*places}) == len(groups):
            break
    return places


def _steps(result: RunResult) -> dict[int, dict[str, float]]:
    steps = {}
    for row in result.epochs:
        metrics = asdict(row)
        epoch = metrics.pop("epoch")
        steps[epoch] = {name: value for name, value in metrics.items() if value is not None}
    steps[result.final.epoch] |= {f"test_{k}": v for k, v in asdict(result.test).items()}
    return steps


Log = Callable[[dict[str, float], int], object]
"""Writes the metrics of one step of a run into its tracker."""


@contextmanager
def _tensorboard(record: Record, into: Path) -> Iterator[Log]:
    """Folder VARIANT/SEED; the settings are on the tab HPARAMS."""
    from torch.utils.tensorboard import SummaryWriter
    from torch.utils.tensorboard.summary import hparams

    folder = into / re.sub(r"^\.+|/", "_", record.variant) / record.seed
    for earlier in [*folder.glob("*.attnexp"), *into.glob(f"*/*/*.{record.id}.attnexp")]:
        earlier.unlink(missing_ok=True)
    *_, last = record.steps.values()
    with SummaryWriter(folder, filename_suffix=f".{record.id}.attnexp") as writer:
        for summary in hparams(record.config, last):
            writer.file_writer.add_summary(summary)
        yield lambda metrics, step: [writer.add_scalar(*item, step) for item in metrics.items()]


@contextmanager
def _mlflow(record: Record, into: Path) -> Iterator[Log]:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    client = MlflowClient(f"sqlite:///{into / 'mlflow.db'}")
    found = client.get_experiment_by_name(record.project)
    experiment = (
        found.experiment_id
        if found
        else client.create_experiment(record.project, (into / "artifacts").as_uri())
    )
    for earlier in client.search_runs([experiment], f"tags.attnexp = '{record.id}'"):
        client.delete_run(earlier.info.run_id)
    tags = {"attnexp": record.id, "variant": record.variant}
    run = client.create_run(experiment, run_name=record.seed, tags=tags).info
    params = [Param(name, str(value)) for name, value in record.config.items()]
    client.log_batch(run.run_id, params=params)
    yield lambda metrics, step: client.log_batch(
        run.run_id, [Metric(name, value, run.start_time, step) for name, value in metrics.items()]
    )
    client.set_terminated(run.run_id)


@contextmanager
def _wandb(record: Record, into: Path) -> Iterator[Log]:
    import wandb

    for earlier in into.glob(f"wandb/offline-run-*-{record.id}"):
        shutil.rmtree(earlier)
    with wandb.init(
        project=record.project,
        group=record.variant,
        name=record.seed,
        id=record.id,
        config=record.config,
        dir=into,
        mode="offline",
        settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
    ) as run:
        yield run.log


TRACKERS: dict[str, tuple[Callable[[Record, Path], AbstractContextManager[Log]], str]] = {
    "tensorboard": (_tensorboard, "tensorboard --logdir {into}"),
    "mlflow": (_mlflow, "mlflow ui --backend-store-uri sqlite:///{into}/mlflow.db"),
    "wandb": (_wandb, "wandb sync {into}/wandb/offline-run-*"),
}
"""How to write a run into a tracker's folder, and the command that shows the folder."""
