"""A run: repeatable to the bit, paired across variants, and honest about the test set."""

import json
import re
import sys
import zlib
from dataclasses import replace
from pathlib import Path
from threading import Timer
from typing import Annotated, Any
from unittest.mock import Mock

import numpy as np
import pandas as pd
import pytest
import torch
from annotated_types import Gt
from conftest import Patch
from filelock import FileLock
from small import config_in, without_clock
from torch import Tensor

from attnexp.base.errors import UserError
from attnexp.config.schema import RunConfig, to_dict
from attnexp.data.encode import load_once
from attnexp.inspect.evaluate import list_errors, measure_again
from attnexp.network.build import build_model
from attnexp.runs import predictions, store
from attnexp.runs.result import EpochRow, Run
from attnexp.training import loop, run
from attnexp.training.device import describe_provenance
from attnexp.training.inputs import make_splits
from attnexp.training.metrics import measure
from attnexp.training.run import train_run

FILES = """config.json metrics.jsonl model.safetensors predictions.safetensors result.json run.log
vocabulary.txt""".split()


def trained(folder: Path, *words: str) -> Run:
    path, result = train_run(config_in(folder, *words))
    return Run(path=path, result=result)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return trained(tmp_path_factory.mktemp("finished"))


def test_the_folder_holds_what_the_contract_says(finished: Run, monkeypatch: Patch) -> None:
    path, result = finished.path, finished.result
    assert store.load_result(path) == result
    assert sorted(file.name for file in path.iterdir()) == FILES
    lines = (path / store.METRICS).read_text().splitlines()
    assert [EpochRow(**json.loads(line)) for line in lines] == result.epochs
    assert result.config == to_dict(config_in(path.parents[1]))
    assert result.provenance["argv"] == sys.argv
    for entry in ("/x/bin/attnexp", "/x/attnexp/__main__.py"):
        monkeypatch.setattr(sys, "argv", [entry, "train"])
        assert describe_provenance(torch.device("cpu"))["argv"] == ["attnexp", "train"]
    assert result.data["largest_class"] == 0.5
    assert 0 < sum(row.seconds for row in result.epochs) < result.wall_seconds
    line = r"epoch \d/3 loss .* val_acc 0\.\d{4} [\d,]+ texts/s(, about \d+ s left)?\n"
    assert re.fullmatch(f"({line}){{3}}", (path / store.LOG).read_text())
    check_predictions(finished, "final")
    assert predictions.TEST not in predictions.load_arrays(finished, predictions.FILE)


def check_predictions(run: Run, endpoint: str) -> None:
    """Those that are stored give the metrics of the run, and so do its weights."""
    result = run.result
    arrays = predictions.load_arrays(run, predictions.FILE)
    for name, row in (("best", result.own_best), ("final", result.final)):
        measured = measure(arrays[name], arrays[predictions.VAL_LABELS])
        assert (measured.loss, measured.accuracy) == (row.val_loss, row.val_accuracy)
    for row in result.epochs:
        packed = zlib.decompress(arrays[f"correct.{row.epoch}"].tobytes())
        assert predictions.unpack_bits(packed, result.data["n_val"]).mean() == row.val_accuracy
    assert measure(*predictions.at_endpoint(run, endpoint)) == result.test
    assert measure_again(run.path).metrics == result.test


def test_holdout_touches_the_test_set_once(tmp_path: Path, monkeypatch: Patch) -> None:
    predict = Mock(wraps=loop.predict)
    monkeypatch.setattr(loop, "predict", predict)
    run = trained(tmp_path, "train=holdout", "data.limit_test=48")
    data = run.result.data
    assert (data["n_train"], data["n_val"], data["n_test"]) == (58, 6, 48)
    sizes = [len(call.args[1]) for call in predict.call_args_list]
    assert (sizes[-1], sizes.count(48)) == (48, 1)
    assert run.result.own_best.val_accuracy == max(row.val_accuracy for row in run.result.epochs)
    check_predictions(run, "chosen")


def test_each_source_of_chance_is_moved_alone(tmp_path: Path) -> None:
    """Weights, batches, held-out rows: each follows its own seed, and all of them `seed`."""
    whole = load_once(config_in(tmp_path).data)

    def draws(*words: str) -> dict[str, Any]:
        config = config_in(tmp_path, "train=holdout", "train.epochs=1", "model.dropout=0", *words)
        train, val, test = make_splits(config, whole, torch.device("cpu"))
        together = torch.cat([train.ids, val.ids])
        assert sorted(together.tolist()) == sorted(whole.train.ids.tolist())
        np.testing.assert_array_equal(test.ids, whole.test.ids)
        weights = build_model(config).state_dict()["embedding.weight"]
        loss = train_run(config)[1].epochs[0].train_loss
        return {"init": weights[1].tolist(), "split": val.ids.tolist(), "loss": loss}

    usual = draws()
    for source, moved in (("init", ["init"]), ("order", []), ("split", ["split"])):
        others = draws(f"seeds.{source}=1")
        assert [name for name in usual if others[name] != usual[name]] == [*moved, "loss"]
    assert draws("position=sinusoidal")["split"] == usual["split"]
    assert draws("train.holdout=0.001")["split"] == usual["split"][:1]
    assert draws("seed=9", "seeds.init=0", "seeds.order=0", "seeds.split=0") == usual


def test_runs_of_a_sweep_share_their_splits(tmp_path: Path) -> None:
    config = config_in(tmp_path, "train=holdout")
    data = load_once(config.data)
    data = replace(data, val=replace(data.test))
    first, second = (make_splits(config, data, torch.device("cpu")) for _ in range(2))
    assert [id(split) for split in first] == [id(split) for split in second]


def test_a_finished_run_is_repeated_only_when_asked(finished: Run, monkeypatch: Patch) -> None:
    """And is lost to no attempt that fails. An attempt waits for a look at its lock."""
    path, first = finished.path, finished.result
    config = config_in(path.parents[1])
    with monkeypatch.context() as patch:
        patch.delattr(run, "measure")
        with pytest.raises(NameError):
            train_run(config, again=True)
    assert store.load_result(path) == first
    assert "NameError" in (path / store.LOG).read_text()
    lock = FileLock(store.lock_file(path), thread_local=False)
    lock.acquire()
    Timer(0.3, lock.release).start()
    _, again = train_run(config, again=True)
    assert again.wall_seconds != first.wall_seconds
    assert without_clock(again.epochs) == without_clock(first.epochs)
    assert [file.name for file in path.parent.glob("[!.]*")] == [again.run_id]


def test_pretrained_vectors_are_where_training_starts(tmp_path: Path) -> None:
    """Words of the file have its vectors, the others their own start. Threads are set back."""
    words = load_once(config_in(tmp_path).data).words
    known = words[::2]
    file = tmp_path / "vectors.txt"
    file.write_text("".join(f"{word} {i}.5 1 2 3\n" for i, word in enumerate(known)))
    settings = "model.d_model=4 model.freeze=true train.threads=2".split()
    run = trained(tmp_path, f"model.vectors={file}", *settings)
    assert run.result.provenance["threads"] == 2
    assert torch.get_num_threads() == 1
    assert run.result.data["vectors_coverage"] == pytest.approx(len(known) / len(words))
    assert measure_again(run.path).metrics == run.result.test
    table = predictions.load_arrays(run, predictions.WEIGHTS)["embedding.weight"][4:]
    assert table[::2, 0].tolist() == [i + 0.5 for i in range(len(known))]
    assert np.abs(table[1::2]).max() <= 0.05


def test_each_word_has_a_row(finished: Run, tmp_path: Path, monkeypatch: Patch) -> None:
    """Its rows, dropout and so all results are those of a table of `data.vocab_size` rows."""
    monkeypatch.setattr(RunConfig, "sized", lambda self, vocab_size: self)
    larger = trained(tmp_path)
    weights = [predictions.load_arrays(run, predictions.WEIGHTS) for run in (finished, larger)]
    table, whole = (arrays["embedding.weight"] for arrays in weights)
    assert len(table) == 4 + len(store.load_vocabulary(finished))
    assert len(whole) == 1000
    np.testing.assert_array_equal(table, whole[: len(table)])
    assert finished.result.test == larger.result.test


def test_patience_ends_training_where_the_held_out_accuracy_no_longer_rises(tmp_path: Path) -> None:
    words = ["train=holdout", "train.epochs=9", "train.patience=2"]
    accuracies = [row.val_accuracy for row in trained(tmp_path, *words).result.epochs]
    assert len(accuracies) == 1 + accuracies.index(max(accuracies)) + 2 < 9


class Squared:
    def __init__(self, *, factor: Annotated[float, Gt(0)] = 1) -> None:
        self.factor = factor

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.factor * (logits.sigmoid() - labels).square().mean()


def test_a_loss_of_the_user_is_what_training_minimises(tmp_path: Path) -> None:
    loss = "train.loss=test_run:Squared"
    once = trained(tmp_path, loss).result
    four_times = trained(tmp_path, loss, "train.loss.factor=4").result
    assert once.epochs[0].train_loss == pytest.approx(0.25, abs=0.05)
    assert four_times.epochs[0].train_loss == pytest.approx(1.0, abs=0.2)
    assert once.run_id != four_times.run_id
    with pytest.raises(UserError, match=r"train\.loss\.factor must be greater than 0; got -1"):
        config_in(tmp_path, loss, "train.loss.factor=-1")
    with pytest.raises(UserError, match=r"torch:ones failed: TypeError"):
        trained(tmp_path, "train.loss=torch:ones")


@pytest.mark.parametrize("labels", [["positive", "negative"], ["1", "1", "1"]])
def test_other_texts_are_evaluated(finished: Run, tmp_path: Path, labels: list[str]) -> None:
    file = tmp_path / "mine.csv"
    pd.DataFrame({"text": "a fine dish", "label": labels}).to_csv(file)
    again = measure_again(finished.path, [f"data.path={file}", "data.text=text"])
    assert again.run.result.test == finished.result.test
    assert again.metrics.n == len(labels)
    assert len(list_errors(again)) == round(len(labels) * (1 - again.metrics.accuracy))
    with pytest.raises(UserError, match="evaluate takes only"):
        measure_again(finished.path, ["model.heads=2"])


def test_what_cannot_run_is_reported(tmp_path: Path, monkeypatch: Patch) -> None:
    """Words in place of a config; a device that is not here."""
    with pytest.raises(TypeError, match=r"is no config; compose\('position=rotary'\) gives one"):
        train_run("position=rotary")  # type: ignore[arg-type]
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match=r"train\.device=cuda.*train\.device=cpu"):
        train_run(config_in(tmp_path, "train.device=cuda"))
