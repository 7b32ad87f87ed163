"""Runs in a tracker are the runs on disk: read back with what the tracker itself reads by."""

import json
import struct
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from forked import PROGRAM
from test_figures import blog

from attnexp.base.errors import UserError
from attnexp.report import export
from attnexp.runs import manifest, store
from attnexp.runs.result import Run

Figures = dict[str, dict[int, float]]
"""Of a run: by name, then by step."""
Found = dict[tuple[str, str], Figures]
"""By variant and seed."""


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Two variants of two seeds, on disk as the study `outputs/blog`."""
    found = []
    for run in blog(seeds=2):
        run_id = f"{run.label}-{run.result.seed}"
        path = store.run_dir(tmp_path / "outputs", run_id)
        path.mkdir(parents=True)
        store.save(path, replace(run.result, run_id=run_id))
        found.append(replace(run, path=path))
    entries = [manifest.Entry(variant=run.label, seed=str(run.result.seed), run_id=run.path.name)
               for run in found]  # fmt: skip
    variants: dict[str, dict[str, str]] = {run.label: {} for run in found}
    study = manifest.Manifest(variants=variants, commands=["attnexp"], runs=entries)
    manifest.record(tmp_path / "outputs/blog", study)
    return found


def expected(runs: list[Run]) -> Found:
    found: Found = {}
    for run in runs:
        rows = {row.epoch: row for row in run.result.epochs}
        names = ("train_loss", "train_accuracy", "val_loss", "val_accuracy", "val_ece", "seconds")
        figures = {name: {e: getattr(row, name) for e, row in rows.items()} for name in names}
        figures["test_accuracy"] = {len(rows): run.result.test.accuracy}
        found[run.label, str(run.result.seed)] = figures
    return found


def from_tensorboard(folder: Path) -> Found:
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

    events = EventMultiplexer().AddRunsFromDirectory(str(folder)).Reload()
    found: Found = {}
    for name, tags in events.Runs().items():
        variant, seed = name.split("/")
        found[variant, seed] = {
            tag: {event.step: event.value for event in events.Scalars(name, tag)}
            for tag in tags["scalars"]
        }
        hparams = events.SummaryMetadata(name, "_hparams_/session_start_info").plugin_data.content
        assert b"model.heads" in hparams
    return found


def from_trackio(folder: Path) -> Found:
    import trackio
    from trackio.sqlite_storage import SQLiteStorage

    found: Found = {}
    for run in trackio.Api().runs("blog"):
        assert run.config["model.heads"] == 8
        logs = SQLiteStorage.get_logs("blog", run.name, run_id=run.id)
        steps = {row["step"]: row for row in logs}
        assert len(steps) == len(logs)
        found[run.config["_Group"], run.name] = by_name(steps)
    return found


def from_mlflow(folder: Path) -> Found:
    from mlflow import MlflowClient

    client = MlflowClient(f"sqlite:///{folder / 'mlflow.db'}")
    experiment = client.get_experiment_by_name("blog")
    found: Found = {}
    for run in client.search_runs([experiment.experiment_id]):
        assert run.info.status == "FINISHED"
        assert run.data.params["model.heads"] == "8"
        place = run.data.tags["variant"], run.info.run_name
        assert place not in found
        found[place] = {
            name: {one.step: one.value for one in client.get_metric_history(run.info.run_id, name)}
            for name in run.data.metrics
        }
    return found


def from_wandb(folder: Path) -> Found:
    """Offline runs are LevelDB logs of protocol buffers."""
    from wandb.proto.wandb_internal_pb2 import Record

    found: Found = {}
    for file in folder.glob("wandb/offline-run-*/*.wandb"):
        steps: dict[int, dict[str, float]] = defaultdict(dict)
        place = ("", "")
        for content in leveldb(file.read_bytes()):
            record = Record.FromString(content)
            if record.HasField("run"):
                assert record.run.project == "blog"
                place = record.run.run_group, record.run.display_name
                config = {item.key: item.value_json for item in record.run.config.update}
                assert config["model.heads"] == "8"
            for item in record.history.item:
                name = item.key or item.nested_key[0]
                steps[record.history.step.num][name] = json.loads(item.value_json)
        assert place not in found
        found[place] = by_name(steps)
    return found


def leveldb(content: bytes) -> list[bytes]:
    """The records of a log, after wandb's header of seven bytes. A record may be in pieces."""
    records, record, place = [], b"", 7
    while place < len(content):
        left = 32_768 - place % 32_768
        if left < 7:
            place += left
            continue
        _, length, kind = struct.unpack("<IHB", content[place : place + 7])
        record += content[place + 7 : place + 7 + length]
        place += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            records.append(record)
            record = b""
    return records


def by_name(steps: dict[int, dict[str, Any]]) -> Figures:
    names = {name for row in steps.values() for name in row}
    return {name: {s: row[name] for s, row in steps.items() if name in row} for name in names}


READERS: dict[str, Callable[[Path], Found]] = {
    "tensorboard": from_tensorboard,
    "trackio": from_trackio,
    "mlflow": from_mlflow,
    "wandb": from_wandb,
}


@pytest.mark.parametrize(
    "tracker",
    ["tensorboard", *(pytest.param(one, marks=pytest.mark.slow) for one in [*READERS][1:])],
)
@pytest.mark.filterwarnings("ignore")  # of the trackers' own
def test_what_is_read_back_is_what_was_measured(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tracker: str
) -> None:
    into = tmp_path / "outputs" / tracker
    monkeypatch.setenv("TRACKIO_DIR", str(into))  # read when it is imported
    pytest.importorskip(tracker)
    monkeypatch.setenv("WANDB_MODE", "online")
    for _ in range(2):  # which gives no doubles
        done = subprocess.run(  # some trackers have work left when Python ends
            [PROGRAM, "export", "outputs/blog", "--to", tracker],
            cwd=tmp_path, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        assert done.stdout.startswith(f"4 runs in outputs/{tracker}. To look at them: ")
    found, wanted = READERS[tracker](into), expected(runs)
    assert found.keys() == wanted.keys()
    for place, figures in wanted.items():
        for name, values in figures.items():
            assert found[place][name] == pytest.approx(values, rel=1e-6), (place, name)


def test_a_tracker_that_is_not_installed_is_told(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"pip install 'attnexp\[wandb\]'"):
        export.export(runs, "wandb", tmp_path / "tracked")
    assert not (tmp_path / "tracked").exists()
