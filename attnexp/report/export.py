"""Finished runs, replayed into a tracker of experiments. None is imported unless it is asked for.

A run becomes a run there: its group is the variant, its name the seed, its config the settings by
key. An epoch is a step, and the figures on the test set come with the last. What was exported
before is replaced, so that there are no doubles. Nothing leaves the machine: each tracker writes
into a folder.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from attnexp.analysis.variants import by_variant
from attnexp.base import modules, progress
from attnexp.base.errors import UserError
from attnexp.config.schema import flatten
from attnexp.runs.identity import replicate
from attnexp.runs.result import Run


@dataclass(frozen=True, kw_only=True, slots=True)
class Record:
    """A finished run as trackers hold one."""

    id: str
    """Sixteen hex digits: of the run, and of the name that its study gives it."""
    project: str
    """The study; `attnexp` for runs of none, or of several."""
    variant: str
    seed: str
    config: dict[str, Any]
    """Settings by key, as `model.heads`, and where the run came from."""
    steps: dict[int, dict[str, float]]
    """Figures by epoch, from 1."""


def export(found: Sequence[Run], tracker: str, into: Path) -> int:
    """Write runs into a tracker's folder, and return how many.

    tracker: a name of TRACKERS. Raises `UserError` where it is not installed, or fails.
    """
    if modules.find(tracker) is None:
        raise UserError(
            f"--to {tracker} needs {tracker}, which is not installed. Install it: "
            f"pip install 'attnexp[{tracker}]'."
        )
    records = _records(found)
    into.mkdir(parents=True, exist_ok=True)
    shown = progress.track(records, total=len(records), label=f"exporting to {tracker}")
    try:
        with redirect_stdout(StringIO()):  # which is for results
            TRACKERS[tracker].write(shown, into.resolve())
    except OSError:
        raise
    except Exception as error:  # each tracker has its own
        raise UserError(
            f"{tracker} does not take these runs ({type(error).__name__}: {error}). Try another "
            f"place, with --into, or another tracker."
        ) from error
    return len(records)


def _records(found: Sequence[Run]) -> list[Record]:
    studies = {study for run in found for study in run.studies}
    study = studies.pop() if len(studies) == 1 else None
    return [
        Record(
            id=hashlib.sha256(f"{run.result.run_id} {run.label}".encode()).hexdigest()[:16],
            project=study.resolve().name if study else "attnexp",
            variant=variant,
            seed=replicate(run.result.config),
            config=_config(run),
            steps=_steps(run),
        )
        for variant, runs in by_variant(found).items()
        for run in runs
    ]


def _config(run: Run) -> dict[str, Any]:
    result = run.result
    return {
        **flatten(result.config),
        "run_id": result.run_id,
        "commit": result.provenance["commit"],
        "parameters": result.parameters,
        "data.fingerprint": result.data["fingerprint"],
    }


def _steps(run: Run) -> dict[int, dict[str, float]]:
    steps = {}
    for row in run.result.epochs:
        figures = asdict(row)
        epoch = figures.pop("epoch")
        steps[epoch] = {name: value for name, value in figures.items() if value is not None}
    steps[run.result.final.epoch] |= {f"test_{k}": v for k, v in asdict(run.result.test).items()}
    return steps


def _to_tensorboard(records: Iterable[Record], into: Path) -> None:
    """A folder for each variant, one in it for each seed; settings are on the tab HPARAMS."""
    from torch.utils.tensorboard import SummaryWriter
    from torch.utils.tensorboard.summary import hparams

    for record in records:
        variant = re.sub(r"^\.+|/", "_", record.variant)
        folder = into / variant / record.seed
        for earlier in [*folder.glob("*.attnexp"), *into.glob(f"*/*/*.{record.id}.attnexp")]:
            earlier.unlink(missing_ok=True)
        *_, last = record.steps.values()
        with SummaryWriter(folder, filename_suffix=f".{record.id}.attnexp") as writer:
            for summary in hparams(record.config, last):
                writer.file_writer.add_summary(summary)
            for step, figures in record.steps.items():
                for name, value in figures.items():
                    writer.add_scalar(name, value, step)


def _to_trackio(records: Iterable[Record], into: Path) -> None:
    os.environ["TRACKIO_DIR"] = str(into)  # read when it is imported
    for elsewhere in ("TRACKIO_SPACE_ID", "TRACKIO_SERVER_URL"):
        os.environ.pop(elsewhere, None)
    import trackio

    for record in records:
        with suppress(ValueError):  # a project that is new
            for earlier in trackio.Api().runs(record.project):
                if (earlier.config or {}).get("id") == record.id:
                    earlier.delete()
        trackio.init(
            record.project,
            name=record.seed,
            group=record.variant,
            config={**record.config, "id": record.id},
            embed=False,
            auto_log_cpu=False,
            auto_log_gpu=False,
        )
        for step, figures in record.steps.items():
            trackio.log(figures, step=step)
        trackio.finish()


def _to_mlflow(records: Iterable[Record], into: Path) -> None:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Param

    client = MlflowClient(f"sqlite:///{into / 'mlflow.db'}")
    for record in records:
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
        for step, figures in record.steps.items():
            metrics = [Metric(name, value, run.start_time, step) for name, value in figures.items()]
            client.log_batch(run.run_id, metrics)
        client.set_terminated(run.run_id)


def _to_wandb(records: Iterable[Record], into: Path) -> None:
    import wandb

    for record in records:
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
            for step, figures in record.steps.items():
                run.log(figures, step=step)


@dataclass(frozen=True, slots=True)
class Tracker:
    """How to write into a tracker's folder, and the command that shows what is there."""

    write: Callable[[Iterable[Record], Path], None]
    look: str


TRACKERS = {
    "tensorboard": Tracker(_to_tensorboard, "tensorboard --logdir {into}"),
    "trackio": Tracker(_to_trackio, "TRACKIO_DIR={into} trackio show"),
    "mlflow": Tracker(_to_mlflow, "mlflow ui --backend-store-uri sqlite:///{into}/mlflow.db"),
    "wandb": Tracker(_to_wandb, "wandb sync {into}/wandb/offline-run-*"),
}
