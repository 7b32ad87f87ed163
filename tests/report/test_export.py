"""Exported runs equal the runs that were measured, read back by the trackers."""

import shlex
import sys
from pathlib import Path

import pandas as pd
import pytest

from attnexp.analysis.frames import Group
from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.schema import to_dict
from attnexp.report import export

Values = dict[tuple[str, str, str, int], float]
"""Values by variant, seed, metric and epoch."""


def a_group() -> Group:
    """Two variants of two seeds and two epochs."""
    rows = [
        {"data": "imdb", "protocol": "blog", "variant": variant, "seed": seed, "epoch": epoch,
         "metric": metric, "value": epoch + int(seed) / 10 + len(metric)}
        for variant in ("no_pe", "pe") for seed in ("0", "1") for epoch in (1, 2)
        for metric in ("train_loss", "val_accuracy")
    ]  # fmt: skip
    epochs = pd.DataFrame(rows)
    last = epochs[(epochs["epoch"] == 2) & (epochs["metric"] == "val_accuracy")]
    ends = last.assign(point="final", metric="accuracy")
    runs = ends[["variant", "seed"]].assign(folder=None)
    config = to_dict(compose([]))
    return Group(
        data="imdb", protocol="blog", variants=["no_pe", "pe"], points=["final", "best"],
        endpoints=pd.concat([ends, ends.assign(point="best", value=0.9)]), epochs=epochs,
        configs={"no_pe": config, "pe": config},
        runs=runs.assign(run_id=runs["variant"] + runs["seed"]),
    )  # fmt: skip


def expected(group: Group) -> Values:
    ends = group.endpoints[group.endpoints["point"] == "final"]
    rows = pd.concat([group.epochs, ends.assign(metric="test_" + ends["metric"])])
    keys = zip(rows["variant"] + ", imdb, blog", rows["seed"], rows["metric"], rows["epoch"],
               strict=True)  # fmt: skip
    return dict(zip(keys, rows["value"], strict=True))


def from_tensorboard(folder: Path) -> Values:
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

    events = EventMultiplexer().AddRunsFromDirectory(str(folder)).Reload()
    return {
        (*name.split("/"), tag, event.step): event.value
        for name, tags in events.Runs().items()
        for tag in tags["scalars"]
        for event in events.Scalars(name, tag)
    }


def from_mlflow(folder: Path) -> Values:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("attnexp")
    return {
        (run.data.tags["variant"], run.info.run_name, name, one.step): one.value
        for run in client.search_runs([experiment.experiment_id])
        for name in run.data.metrics
        for one in client.get_metric_history(run.info.run_id, name)
    }


@pytest.mark.parametrize("tracker", ["tensorboard", pytest.param("mlflow", marks=pytest.mark.slow)])
@pytest.mark.filterwarnings("ignore")  # of the trackers' own
def test_what_is_read_back_is_what_was_measured(tmp_path: Path, tracker: str) -> None:
    pytest.importorskip(tracker)
    group, into = a_group(), tmp_path / "my outputs"
    command = export.export([group], tracker, into)
    assert str(into) in shlex.split(command)[-1]
    read = {"tensorboard": from_tensorboard, "mlflow": from_mlflow}[tracker]
    assert read(into) == pytest.approx(expected(group), rel=1e-6)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_wandb_gets_an_offline_folder_for_each_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    export.export([a_group()], "wandb", tmp_path)
    assert len([*tmp_path.glob("wandb/offline-run-*")]) == 4


def test_a_tracker_that_is_not_installed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"pip install 'attnexp\[wandb\]'"):
        export.export([a_group()], "wandb", tmp_path / "tracked")
    assert not (tmp_path / "tracked").exists()
