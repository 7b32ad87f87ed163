"""Finished runs written into the folder of an experiment tracker; nothing leaves the machine.

A run's group is its variant with data and protocol, its name the seed, its config the settings by
key, a step an epoch; the last one also has the metrics of the first endpoint, as `test_accuracy`.
"""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from attnexp.analysis.frames import Group
from attnexp.base.errors import require
from attnexp.config.schema import flatten

Config = dict[str, Any]  # settings by key
Steps = dict[int, dict[str, float]]  # metrics by epoch


def export(groups: Sequence[Group], target: str, into: Path) -> str:
    """Write runs into a folder, in place of earlier copies. Returns the command that shows them."""
    write, command = TRACKERS[target]
    require(target, f"--to {target}", target)
    into.mkdir(parents=True, exist_ok=True)
    for group in groups:
        for run in group.runs.itertuples():
            variant = f"{run.variant}, {group.data}, {group.protocol}"
            own = group.configs[run.variant] | {"seed": run.seed, "run_id": run.run_id}
            write(into.resolve(), variant, run.seed, flatten(own), _steps(group, run))
    return command.format(into)


def _steps(group: Group, run: Any) -> Steps:
    frames = [group.epochs, group.endpoints[group.endpoints["point"] == group.points[0]]]
    own = (one[(one["variant"] == run.variant) & (one["seed"] == run.seed)] for one in frames)
    epochs, end = (one.pivot(index="epoch", columns="metric", values="value") for one in own)
    table = epochs.join(end.add_prefix("test_").set_axis(epochs.index[-1:]))
    return {epoch: row.dropna().to_dict() for epoch, row in table.iterrows()}


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
    for earlier in mlflow.search_runs(filter_string=f"params.run_id = '{config['run_id']}'").run_id:
        mlflow.delete_run(earlier)
    with mlflow.start_run(run_name=seed, tags={"variant": variant}):
        mlflow.log_params(config)
        for epoch, metrics in steps.items():
            mlflow.log_metrics(metrics, epoch)


def _wandb(into: Path, variant: str, seed: str, config: Config, steps: Steps) -> None:
    import wandb

    for earlier in into.glob(f"wandb/offline-run-*-{config['run_id']}"):
        shutil.rmtree(earlier)
    of = {"project": "attnexp", "group": variant, "name": seed, "id": config["run_id"], "dir": into}
    with wandb.init(**of, config=config, settings={"silent": True}, mode="offline") as run:
        for epoch, metrics in steps.items():
            run.log(metrics, epoch)


TRACKERS = {
    "tensorboard": (_tensorboard, "tensorboard --logdir '{}'"),
    "mlflow": (_mlflow, "mlflow ui --backend-store-uri 'sqlite:///{}/mlflow.db'"),
    "wandb": (_wandb, "wandb sync '{}'/wandb/offline-run-*"),
}
