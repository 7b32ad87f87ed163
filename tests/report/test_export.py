"""Exported runs equal the runs on disk: read back by the trackers and by `attnexp predict`."""

import json
import shlex
import struct
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import Command
from samples import blog, but, planned, save_study

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.schema import to_dict
from attnexp.inspect import predict
from attnexp.report import export
from attnexp.runs import manifest, store
from attnexp.runs.result import Run
from attnexp.training.inputs import read_inputs
from attnexp.training.run import train_run

Metrics = dict[str, dict[int, float]]
"""Metrics of a run, by name, then by step."""
Found = dict[tuple[str, str], Metrics]
"""Metrics of several runs, by variant and seed."""


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    """Two variants of two seeds, on disk as the study `outputs/blog`."""
    save_study(tmp_path / "outputs", blog(seeds=2))
    return manifest.load_runs([tmp_path / "outputs" / "blog"])


def expected(runs: list[Run]) -> Found:
    found: Found = {}
    for run in runs:
        rows = {row.epoch: row for row in run.result.epochs}
        names = ("train_loss", "train_accuracy", "val_loss", "val_accuracy", "val_ece", "seconds")
        metrics = {name: {e: getattr(row, name) for e, row in rows.items()} for name in names}
        metrics["test_accuracy"] = {len(rows): run.result.test.accuracy}
        found[run.label, str(run.result.seed)] = metrics
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


def by_name(steps: dict[int, dict[str, Any]]) -> Metrics:
    names = {name for row in steps.values() for name in row}
    return {name: {s: row[name] for s, row in steps.items() if name in row} for name in names}


READERS: dict[str, Callable[[Path], Found]] = {
    "tensorboard": from_tensorboard,
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
    into = tmp_path / "my outputs" / tracker
    pytest.importorskip(tracker)
    monkeypatch.setenv("WANDB_MODE", "online")
    for _ in range(2):  # which gives no doubles
        command = export.export(runs, tracker, into)
    assert str(into) in shlex.split(command)[-1]
    found, wanted = READERS[tracker](into), expected(runs)
    assert found.keys() == wanted.keys()
    for place, metrics in wanted.items():
        for name, values in metrics.items():
            assert found[place][name] == pytest.approx(values, rel=1e-6), (place, name)


@pytest.mark.parametrize(
    ("words", "facts", "names"),
    [
        ([], [{"name": "one"}, {"name": "two"}], ["one", "two"]),
        ([], [{"fingerprint": "1234567890"}, {"fingerprint": "abcdefghij"}],
         ["imdb, blog, 25000 test texts, 12345678", "imdb, blog, 25000 test texts, abcdefgh"]),
        (["train.protocol=holdout"], [{}, {}], ["imdb, blog", "imdb, holdout"]),
    ],
    ids=["data sets", "paths of one name", "protocols"],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore")  # of the tracker's own
def test_runs_that_cannot_be_compared_are_kept_apart(
    tmp_path: Path, words: list[str], facts: list[dict[str, str]], names: list[str]
) -> None:
    for study, runs, data in zip("ab", [blog(seeds=1), blog(*words, seeds=1)], facts, strict=True):
        data = {"fingerprint": data.get("name", "")} | data
        save_study(tmp_path, [but(run, data=run.result.data | data) for run in runs], study)
    found = manifest.load_runs([tmp_path / "a", tmp_path / "b"])
    export.export(found, "tensorboard", tmp_path / "tensorboard")
    assert from_tensorboard(tmp_path / "tensorboard").keys() == {
        (f"{variant}, {name}", "0") for variant in ("no_pe", "pe") for name in names
    }


def test_a_tracker_that_is_not_installed_is_an_error(
    runs: list[Run], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(UserError, match=r"pip install 'attnexp\[wandb\]'"):
        export.export(runs, "wandb", tmp_path / "tracked")
    assert not (tmp_path / "tracked").exists()


def test_a_folder_for_the_hub_predicts_as_the_run_and_has_a_card(
    here: Command, tmp_path: Path
) -> None:
    """The card has the test metrics, the verdicts of the run's studies, and commands."""
    out = tmp_path / "there"
    words = ["experiment=smoke", "data.limit_train=64", "data.limit_test=64", "train.epochs=1",
             "train.threads=1", "position=sinusoidal", f"out={out}"]  # fmt: skip
    path, result = train_run(compose(words), overrides=words)
    none = replace(result, run_id="none-0", config=to_dict(compose(words, "position=none")))
    store.run_dir(out, "none-0").mkdir()
    store.save(store.run_dir(out, "none-0"), none)
    manifest.record(out / "mine", planned(("none", 0, "none-0"), ("sinusoidal", 0, path.name)))

    done = here("export", str(path), "--to", "hub", "--into", "my hub")
    folder = tmp_path / "my hub" / path.name
    assert done.stdout == f"1 run in my hub. Next: hf upload USER/REPO 'my hub/{path.name}'\n"
    assert not {"predictions.safetensors", "run.log"} & {file.name for file in folder.iterdir()}
    one, other = (next(predict.readings(each, ["the plot"])) for each in (path, folder))
    assert one.probabilities == other.probabilities

    _, metadata, text = (folder / "README.md").read_text().split("---\n", 2)
    (model,) = yaml.safe_load(metadata)["model-index"]
    (measured,) = model["results"]
    assert measured["dataset"]["name"] == "contrast"
    assert f"| accuracy | {100 * measured['metrics'][0]['value']:.2f} % |" in text
    assert "on 64 texts of the test set" in text
    assert "as negative, positive." in text
    assert "## In the study mine: sinusoidal\n" in text
    assert "sinusoidal against none, final: **inconclusive: " in text
    (command,) = [line for line in text.splitlines() if line.startswith("attnexp train ")]
    _, _, *words = shlex.split(command)
    assert read_inputs(compose(words)).identify().run_id == path.name
