"""A run: repeatable to the bit, paired across variants, and honest about the test set."""

import json
import re
import zlib
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import torch
from annotated_types import Gt
from conftest import Patch
from small import config_in, without_clock
from torch import Tensor

from attnexp.base.errors import UserError
from attnexp.config.schema import RunConfig, to_dict
from attnexp.network.build import build_model
from attnexp.runs import predictions, store
from attnexp.runs.result import EpochRow, Run, RunResult
from attnexp.training import loop, run
from attnexp.training.evaluate import list_errors, measure_again
from attnexp.training.inputs import load_data, make_splits
from attnexp.training.metrics import measure
from attnexp.training.run import train_run

Finished = tuple[RunConfig, Path, RunResult]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Finished:
    config = config_in(tmp_path_factory.mktemp("finished"))
    return config, *train_run(config)


def test_words_are_no_config() -> None:
    words: Any = "position=rotary"
    with pytest.raises(TypeError, match=r"is no config; compose\('position=rotary'\) gives one"):
        train_run(words)


def test_the_folder_holds_what_the_contract_says(finished: Finished) -> None:
    config, path, made = finished
    result = store.load_result(path)
    assert result == made
    assert {file.name for file in path.iterdir()} == {
        *(store.CONFIG, store.METRICS, store.RESULT, store.LOG, store.VOCABULARY),
        *(predictions.WEIGHTS, predictions.FILE),
    }
    lines = [json.loads(line) for line in (path / store.METRICS).read_text().splitlines()]
    assert [EpochRow(**line) for line in lines] == result.epochs
    assert result.config == to_dict(config)
    assert result.data["largest_class"] == 0.5
    assert 0 < sum(row.seconds for row in result.epochs) < result.wall_seconds
    log = (path / store.LOG).read_text()
    line = r"epoch \d/3 loss .* val_acc 0\.\d{4} [\d,]+ texts/s(, about \d+ s left)?\n"
    assert re.fullmatch(f"({line}){{3}}", log)
    assert predictions.TEST not in predictions_that_give_the_rows(path, result)
    assert measure_again(path).metrics == result.test
    assert measure(*predictions.at_endpoint(Run(path=path, result=result), "final")) == result.test


def predictions_that_give_the_rows(path: Path, result: RunResult) -> dict[str, Any]:
    stored = predictions.load_arrays(Run(path=path, result=result), predictions.FILE)
    for name, row in ((predictions.BEST, result.own_best), (predictions.FINAL, result.final)):
        found = measure(stored[name], stored[predictions.VAL_LABELS])
        assert (found.loss, found.accuracy) == (row.val_loss, row.val_accuracy)
    for row in result.epochs:
        packed = zlib.decompress(stored[f"{predictions.CORRECT}{row.epoch}"].tobytes())
        bits = np.unpackbits(np.frombuffer(packed, np.uint8), count=result.data["n_val"])
        assert bits.mean() == row.val_accuracy
    return stored


def test_holdout_touches_the_test_set_once(tmp_path: Path, monkeypatch: Patch) -> None:
    seen, predict = list[int](), loop.predict

    def watch(model: Any, examples: Any, *given: Any) -> Any:
        seen.append(len(examples))
        return predict(model, examples, *given)

    monkeypatch.setattr(loop, "predict", watch)
    path, result = train_run(config_in(tmp_path, "train=holdout", "data.limit_test=48"))
    assert [result.data[name] for name in ("n_train", "n_val", "n_test")] == [58, 6, 48]
    assert (seen[-1], seen.count(48)) == (48, 1)
    assert result.own_best.val_accuracy == max(row.val_accuracy for row in result.epochs)
    predictions_that_give_the_rows(path, result)
    assert measure(*predictions.at_endpoint(Run(path=path, result=result), "chosen")) == result.test
    assert measure_again(path).metrics == result.test


def test_each_source_of_chance_is_moved_alone(tmp_path: Path) -> None:
    """Weights, batches, held-out rows: each follows its own seed, and all of them `seed`."""
    cpu = torch.device("cpu")
    dataset = load_data(config_in(tmp_path).data)

    def chance(*words: str) -> dict[str, Any]:
        config = config_in(tmp_path, "train=holdout", "train.epochs=1", "model.dropout=0", *words)
        train, val, test = make_splits(config, dataset, cpu)
        together = torch.cat([train.ids, val.ids])
        assert sorted(together.tolist()) == sorted(dataset.train.ids.tolist())  # a partition
        assert test.ids.tolist() == dataset.test.ids.tolist()
        assert min(len(train), len(val)) > 0
        weights = build_model(config).state_dict()["embedding.weight"][1]
        loss = train_run(config)[1].epochs[0].train_loss
        return {"init": weights.tolist(), "split": val.ids.tolist(), "loss": loss}

    usual = chance()
    for source, moved in (("init", ["init"]), ("order", []), ("split", ["split"])):
        found = chance(f"seeds.{source}=1")
        assert [name for name in usual if found[name] != usual[name]] == [*moved, "loss"]
    assert chance("position=sinusoidal")["split"] == usual["split"]
    assert chance("train.holdout=0.001")["split"] == usual["split"][:1]
    assert chance("seed=9", "seeds.init=0", "seeds.order=0", "seeds.split=0") == usual


def test_a_finished_run_is_repeated_only_when_asked(finished: Finished, monkeypatch: Patch) -> None:
    """And is lost to no attempt that fails."""
    config, path, first = finished
    assert train_run(config) == (path, first)
    with monkeypatch.context() as patch:
        patch.delattr(run, "measure")
        with pytest.raises(NameError):
            train_run(config, again=True)
    assert store.load_result(path) == first
    assert "NameError" in (path / store.LOG).read_text()
    again_path, again = train_run(config, again=True)
    assert again_path == path
    assert again.wall_seconds != first.wall_seconds
    assert without_clock(again.epochs) == without_clock(first.epochs)
    assert [file.name for file in path.parent.glob("[!.]*")] == [again.run_id]


def test_pretrained_vectors_are_where_training_starts(tmp_path: Path) -> None:
    """Words of the file have its vectors, the others their own start; coverage is reported. As many
    threads as the run asks for are set back after it."""
    words = load_data(config_in(tmp_path).data).words
    file, known = tmp_path / "vectors.txt", words[::2]
    file.write_text("".join(f"{word} {i}.5 1 2 3\n" for i, word in enumerate(known)))
    num_threads = torch.get_num_threads()
    given = [f"model.vectors={file}", "model.d_model=4", f"train.threads={num_threads + 1}"]
    path, result = train_run(config_in(tmp_path, *given, "model.freeze=true"))
    assert measure_again(path).metrics == result.test
    assert result.provenance["threads"] == num_threads + 1
    assert torch.get_num_threads() == num_threads
    assert result.data["vectors_coverage"] == pytest.approx(len(known) / len(words))
    weights = predictions.load_arrays(Run(path=path, result=result), predictions.WEIGHTS)
    table = weights["embedding.weight"][4:]
    assert table[::2, 0].tolist() == [i + 0.5 for i in range(len(known))]
    assert np.abs(table[1::2]).max() <= 0.05


def test_a_word_table_has_a_row_for_each_word(
    finished: Finished, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Its rows, dropout and so all results are those of a table of `data.vocab_size` rows."""

    _, path, result = finished
    weights = predictions.load_arrays(Run(path=path, result=result), predictions.WEIGHTS)
    num_rows = len(weights["embedding.weight"])
    assert num_rows == 4 + len(load_data(config_in(tmp_path).data).words)
    monkeypatch.setattr(RunConfig, "sized", lambda self, vocab_size: self)
    path, expected = train_run(config_in(tmp_path))
    whole = predictions.load_arrays(Run(path=path, result=expected), predictions.WEIGHTS)
    assert len(whole["embedding.weight"]) == 1000
    for name in weights:
        np.testing.assert_array_equal(weights[name], whole[name][:num_rows])
    assert result.test == expected.test


def test_patience_ends_training_where_the_held_out_accuracy_no_longer_rises(tmp_path: Path) -> None:
    words = ["train=holdout", "train.epochs=9", "train.patience=2"]
    accuracies = [row.val_accuracy for row in train_run(config_in(tmp_path, *words))[1].epochs]
    assert len(accuracies) == 1 + accuracies.index(max(accuracies)) + 2 < 9


class Squared:
    """The squared error, times a setting."""

    def __init__(self, *, factor: Annotated[float, Gt(0)] = 1) -> None:
        self.factor = factor

    def __call__(self, logits: Tensor, labels: Tensor) -> Tensor:
        return self.factor * (logits.sigmoid() - labels).square().mean()


def test_a_loss_of_the_user_is_what_training_minimises(tmp_path: Path) -> None:
    loss = "train.loss=test_run:Squared"
    once, four_times = (
        train_run(config_in(tmp_path, loss, f"train.loss.factor={factor}"))[1] for factor in (1, 4)
    )
    assert once.epochs[0].train_loss == pytest.approx(0.25, abs=0.05)
    assert four_times.epochs[0].train_loss == pytest.approx(1.0, abs=0.2)
    assert once.run_id != four_times.run_id
    with pytest.raises(UserError, match=r"train\.loss\.factor must be greater than 0; got -1"):
        config_in(tmp_path, loss, "train.loss.factor=-1")
    with pytest.raises(UserError, match=r"torch:ones failed: TypeError"):
        train_run(config_in(tmp_path, "train.loss=torch:ones"))


def test_other_texts_are_evaluated(finished: Finished, tmp_path: Path) -> None:
    _, path, result = finished
    file = tmp_path / "mine.csv"
    for labels in (["positive", "negative"] * 20, ["1", "1", "1"]):
        rows = [f"dish {n} was here,{label}\n" for n, label in enumerate(labels)]
        file.write_text("".join(["text,label\n", *rows]))
        again = measure_again(path, [f"data.path={file}", "data.text=text"])
        assert again.run.result.test == result.test
        assert again.metrics.n == len(labels)
        assert len(list_errors(again)) == round(again.metrics.n * (1 - again.metrics.accuracy))
    with pytest.raises(UserError, match="evaluate takes only"):
        measure_again(path, ["model.heads=2"])


def test_a_device_that_is_not_here_is_reported(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match=r"train\.device=cuda.*train\.device=cpu"):
        train_run(config_in(tmp_path, "train.device=cuda"))
