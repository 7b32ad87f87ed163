"""Finished runs written into the folder of an experiment tracker; nothing leaves the machine.

A run's group is its variant with data and protocol, its name the seed, a step an epoch. The metrics
of the first endpoint are `test_accuracy` and so on.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from attnexp.analysis.frames import Group
from attnexp.base.errors import require
from attnexp.config.schema import flatten

Config = dict[str, Any]  # settings by key
Steps = dict[int, dict[str, float]]  # metrics by epoch


def export(groups: Sequence[Group], target: str, into: Path) -> str:
    """Write runs into a folder. Returns the command that shows them."""
    write, command = TRACKERS[target]
    require(target, f"--to {target}", target)
    into.mkdir(parents=True, exist_ok=True)
    for group in groups:
        ends = group.endpoints[group.endpoints["point"] == group.points[0]]
        rows = pd.concat([group.epochs, ends.assign(metric="test_" + ends["metric"])])
        for run in group.runs.itertuples():
            own = rows[(rows["variant"] == run.variant) & (rows["seed"] == run.seed)]
            table = own.pivot(index="epoch", columns="metric", values="value")
            steps = {epoch: row.dropna().to_dict() for epoch, row in table.iterrows()}
            variant = f"{run.variant}, {group.data}, {group.protocol}"
            config = flatten(group.configs[run.variant] | {"seed": run.seed, "run_id": run.run_id})
            write(into.resolve(), variant, run.seed, config, steps)
    return command.format(into)


def _tensorboard(into: Path, variant: str, seed: str, config: Config, steps: Steps) -> None:
    from torch.utils.tensorboard import SummaryWriter

    shutil.rmtree(folder := into / variant.replace("/", "_") / seed, ignore_errors=True)
    with SummaryWriter(folder) as writer:
        writer.add_text("settings", "\n".join(f"    {key}: {config[key]}" for key in config))
        for epoch, metrics in steps.items():
            for name, value in metrics.items():
                writer.add_scalar(name, value, epoch)


def _mlflow(into: Path, variant: str, seed: str, config: Config, steps: Steps) -> None:
    import mlflow

    mlflow.set_tracking_uri(f"sqlite:///{into / 'mlflow.db'}")
    mlflow.set_experiment("attnexp")
    with mlflow.start_run(run_name=seed, tags={"variant": variant}):
        mlflow.log_params(config)
        for epoch, metrics in steps.items():
            mlflow.log_metrics(metrics, epoch)


def _wandb(into: Path, variant: str, seed: str, config: Config, steps: Steps) -> None:
    import wandb

    of = {"project": "attnexp", "group": variant, "name": seed, "id": config["run_id"], "dir": into}
    with wandb.init(**of, config=config, settings={"silent": True}, mode="offline") as run:
        for epoch, metrics in steps.items():
            run.log(metrics, epoch)


TRACKERS = {
    "tensorboard": (_tensorboard, "tensorboard --logdir '{}'"),
    "mlflow": (_mlflow, "mlflow ui --backend-store-uri 'sqlite:///{}/mlflow.db'"),
    "wandb": (_wandb, "wandb sync '{}'/wandb/offline-run-*"),
}
