"""A run: repeatable to the bit, paired across variants, and honest about the test set."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import IMDB, needs_imdb
from samples import fail_with, without_clock

from attnexp.base.errors import Busy, UserError
from attnexp.config.compose import compose
from attnexp.config.schema import RunConfig, to_dict
from attnexp.model.classifier import build_model
from attnexp.runs import predictions, store
from attnexp.runs.arrays import WEIGHTS, load_weights
from attnexp.runs.result import EpochRow, Run, RunResult
from attnexp.training import inputs, loop
from attnexp.training import run as train
from attnexp.training.evaluate import evaluate_run, examples_of, predict
from attnexp.training.metrics import measure
from attnexp.training.run import open_run, prepare, train_run

CPU = torch.device("cpu")


def small(tmp_path: Path, *words: str) -> RunConfig:
    size = ["model.d_model=32", "model.heads=2"]
    return compose(["experiment=smoke", "train.threads=1", f"out={tmp_path}", *size, *words])


def test_one_seed_gives_one_result_to_the_bit(tmp_path: Path) -> None:
    words = ["position=sinusoidal", "seed=3"]
    _, one = train_run(small(tmp_path / "one", *words))
    torch.rand(7)  # what ran before must not matter
    _, other = train_run(small(tmp_path / "other", *words))
    assert without_clock(one.epochs) == without_clock(other.epochs)
    assert one.run_id == other.run_id
    assert one.final.train_accuracy_after is None
    _, measured = train_run(small(tmp_path / "measured", *words, "train.measure_train=true"))
    assert measured.final.train_accuracy_after is not None
    assert [row.val_loss for row in measured.epochs] == [row.val_loss for row in one.epochs]


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunConfig, Path, RunResult]:
    config = small(tmp_path_factory.mktemp("finished"))
    return config, *train_run(config, overrides=["experiment=smoke"])


def test_the_folder_holds_what_the_contract_says(
    finished: tuple[RunConfig, Path, RunResult],
) -> None:
    config, run_dir, _ = finished
    result = store.load(run_dir)
    names = {path.name for path in run_dir.iterdir()}
    assert names == {"config.yaml", "overrides.yaml", store.METRICS, store.RESULT, store.LOG,
                     store.VOCABULARY, WEIGHTS, predictions.FILE}  # fmt: skip
    assert run_dir.parent == Path(config.out) / "runs"
    assert "=" not in run_dir.name
    lines = [json.loads(line) for line in (run_dir / store.METRICS).read_text().splitlines()]
    assert [EpochRow(**line) for line in lines] == result.epochs
    assert result.config == to_dict(config)
    assert result.final == result.epochs[-1]
    assert result.parameters == sum(p.numel() for p in build_model(config).parameters())
    assert predictions.TEST not in assert_predictions_give_the_rows(run_dir, result)


def assert_predictions_give_the_rows(run_dir: Path, result: RunResult) -> dict[str, Any]:
    """The stored predictions, which must give the metrics of the run."""
    stored = predictions.load(Run(path=run_dir, result=result))
    for name, row in ((predictions.BEST, result.best), (predictions.FINAL, result.final)):
        found = measure(stored[name], stored[predictions.VAL_LABELS])
        assert (found.loss, found.accuracy) == (row.val_loss, row.val_accuracy)
        assert (found.brier, found.ece) == (row.val_brier, row.val_ece)
    for row in result.epochs:
        packed = stored[f"{predictions.CORRECT}{row.epoch}"]
        assert predictions.unpack(packed, result.data["n_val"]).mean() == row.val_accuracy
    return stored


def test_holdout_chooses_on_train_and_touches_the_test_set_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[int] = []
    real = predict

    def watch(model, examples, precision, **more):  # type: ignore[no-untyped-def]
        seen.append(len(examples))
        return real(model, examples, precision, **more)

    monkeypatch.setattr(train, "predict", watch)
    config = small(tmp_path, "train=holdout", "train.epochs=3", "data.limit_test=200")
    run_dir, result = train_run(config)
    assert (result.data["n_train"], result.data["n_val"], result.data["n_test"]) == (230, 26, 200)
    assert seen == [26] * 3 + [200]
    assert result.best.val_accuracy == max(row.val_accuracy for row in result.epochs)
    assert evaluate_run(run_dir)[0] == result.test
    stored = assert_predictions_give_the_rows(run_dir, result)
    assert measure(stored[predictions.TEST], stored[predictions.TEST_LABELS]) == result.test


def test_each_source_of_chance_is_moved_alone(tmp_path: Path) -> None:
    """Weights, batches, held-out rows: each follows its own seed, and all of them `seed`."""
    words = ["train=holdout", "train.epochs=1", "model.dropout=0"]

    def loss(*more: str) -> float:
        _, result = train_run(small(tmp_path, *words, *more))
        return result.epochs[0].train_loss

    def chance(*more: str) -> tuple[list[float], list[int]]:
        config = small(tmp_path, *words, *more)
        data = inputs.load_data(config.data)
        parts = loop.split(config, *(examples_of(half, CPU) for half in (data.train, data.test)))
        together = torch.cat([parts[0].ids, parts[1].ids])
        assert sorted(together.tolist()) == sorted(data.train.ids.tolist())  # a partition
        weights = build_model(config).state_dict()["embedding.weight"][1]
        return weights.tolist(), parts[1].ids.tolist()

    weights, held_out = chance()
    init, order, split = (chance(f"seeds.{source}=1") for source in ("init", "order", "split"))
    assert init[0] != weights
    assert init[1] == held_out
    assert order == (weights, held_out)
    assert loss("seeds.order=1") != loss()
    assert split[0] == weights
    assert split[1] != held_out
    assert chance("position=sinusoidal")[1] == held_out
    alike = ("seed=9", "seeds.init=0", "seeds.order=0", "seeds.split=0")
    assert chance(*alike) == (weights, held_out)
    assert loss(*alike) == loss()


def test_a_finished_run_is_run_again_only_when_asked(
    finished: tuple[RunConfig, Path, RunResult],
) -> None:
    config, run_dir, _ = finished
    _, first = train_run(config)
    assert train_run(config) == (run_dir, first)
    with pytest.raises(Busy, match="just finished"), open_run(prepare(config)):
        pass
    again_dir, again = train_run(config, again=True, overrides=["experiment=smoke"])
    assert again_dir == run_dir
    assert again.wall_seconds != first.wall_seconds
    assert without_clock(again.epochs) == without_clock(first.epochs)
    assert [path.name for path in run_dir.parent.glob("[!.]*")] == [again.run_id]


def test_an_attempt_that_comes_to_nothing_leaves_the_finished_run_whole(
    finished: tuple[RunConfig, Path, RunResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    config, run_dir, _ = finished
    before = {path.name: path.read_bytes() for path in run_dir.iterdir()}
    fail_with(monkeypatch, KeyboardInterrupt(), seed=0)
    with pytest.raises(KeyboardInterrupt):
        train_run(config, again=True)
    assert {path.name: path.read_bytes() for path in run_dir.iterdir()} == before


def test_threads_of_one_process_train_one_after_the_other(tmp_path: Path) -> None:
    """Seeds are of the whole process: side by side, the runs would disturb each other."""
    alone = [without_clock(train_run(small(tmp_path / "a", f"seed={n}"))[1].epochs) for n in (0, 1)]
    assert alone[0] != alone[1]
    with ThreadPoolExecutor(2) as threads:
        runs = threads.map(lambda n: train_run(small(tmp_path / "b", f"seed={n}")), (0, 1))
        assert [without_clock(result.epochs) for _, result in runs] == alone


def test_a_run_that_another_process_is_at_is_refused(tmp_path: Path) -> None:
    config = small(tmp_path)
    run_id = inputs.read_inputs(config).identify().run_id
    with (
        store.lock(store.run_dir(tmp_path, run_id)),
        pytest.raises(Busy, match="Another process"),
    ):
        train_run(config)
    assert not list(tmp_path.rglob(store.METRICS))


def test_pretrained_vectors_are_where_training_starts_and_frozen_where_it_ends(
    tmp_path: Path,
) -> None:
    """Words of the file have its vectors, the others their own start; coverage is told."""
    words = inputs.load_data(small(tmp_path).data).words
    file = tmp_path / "vectors.txt"
    known = words[::2]
    file.write_text("".join(f"{word} {i}.5 1 2 3\n" for i, word in enumerate(known)))
    config = small(
        tmp_path,
        *(f"model.vectors={file}", "model.d_model=4", "model.freeze=true"),
        f"data.vocab_size={4 + len(words)}",  # every id is taken
    )
    run_dir, result = train_run(config)
    assert result.data["vectors_coverage"] == pytest.approx(len(known) / len(words))
    model = build_model(config)
    load_weights(Run(path=run_dir, result=result), model)
    table = model.embedding.get_parameter("weight")
    assert table[4 : 4 + len(words) : 2, 0].tolist() == [i + 0.5 for i in range(len(known))]
    assert table[5 : 4 + len(words) : 2].abs().max() <= 0.05
    assert result.parameters == sum(p.numel() for p in model.parameters()) - table.numel()
    file.write_text(file.read_text().replace("1 2 3", "3 2 1"))
    assert train_run(config)[1].run_id != result.run_id


def test_cuda_without_cuda_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(UserError, match=r"train\.device=cuda.*train\.device=cpu"):
        train_run(small(tmp_path, "train.device=cuda"))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_cuda_agrees_with_cpu(tmp_path: Path) -> None:
    words = ["position=sinusoidal", "model.dropout=0"]
    _, cpu = train_run(small(tmp_path, "train.device=cpu", *words))
    _, cuda = train_run(small(tmp_path / "cuda", "train.device=cuda", *words))
    assert cuda.final.val_loss == pytest.approx(cpu.final.val_loss, rel=1e-3)


def test_on_the_embedded_corpus_only_positions_help(tmp_path: Path) -> None:
    """The positive control, shortened: one seed, two epochs (C04, C22)."""
    words = ["data=contrast", "train.epochs=2", f"out={tmp_path}", "model.d_model=32",
             "model.heads=2", "train.lr=0.004", "train.threads=1"]  # fmt: skip
    _, without = train_run(compose(words))
    _, with_pe = train_run(compose([*words, "position=sinusoidal"]))
    assert abs(without.final.val_accuracy - 0.5) < 0.04
    assert with_pe.final.val_accuracy > 0.97


@needs_imdb
@pytest.mark.slow
def test_k_first_epoch_on_imdb(tmp_path: Path) -> None:
    """C20, one seed, one epoch: within 1.5 points of K's 84.30 %."""
    config = compose([f"data.path={IMDB}", "train.epochs=1", f"out={tmp_path}"])
    _, result = train_run(config)
    assert result.parameters == 2_609_281
    assert result.final.val_accuracy == pytest.approx(0.8430, abs=0.015)
