"""Logs of other tools, in the formats that their documentation has, are read as they are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import Command, Refused
from samples import answers

from attnexp.analysis.other_results import RESULT, judge_results, read_results
from attnexp.analysis.results import Results

DATE = "2025-05-01T12-00-0{}.123456"


def numbers(found: list[Results]) -> dict[str, list[tuple[str, str, float]]]:
    """Variant, seed and accuracy, by data set."""
    return {
        results.rows[0].data: [(row.variant, row.seed, row.value) for row in results.rows]
        for results in found
    }


def document(number: int, filter: str, **metrics: Any) -> dict[str, Any]:
    """A line of `samples_TASK_DATE.jsonl`."""
    return {
        "doc_id": number,
        "doc": {"question": "2 + 2"},
        "target": "4",
        "arguments": {"gen_args_0": {"arg_0": "2 + 2 =", "arg_1": " 4"}},
        "resps": [["4"]],
        "filtered_resps": ["4"],
        "filter": filter,
        "metrics": [*metrics],
        "doc_hash": "a",
        "prompt_hash": "b",
        "target_hash": "c",
        **metrics,
    }


def harness(folder: Path, task: str, found: list[dict[str, Any]], **by_filter: str) -> Path:
    """What `lm_eval --log_samples --output_path FOLDER` writes: a folder for each model."""
    runs: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for one in found:
        runs.setdefault((one["variant"], one["seed"]), []).append(one)
    for (model, seed), of in runs.items():
        date = DATE.format(seed)
        there = folder / f"org__{model}"
        there.mkdir(parents=True, exist_ok=True)
        (there / f"results_{date}.json").write_text(json.dumps({"config": {"random_seed": seed}}))
        lines = [
            json.dumps(document(int(one["example"][1:]), filter, **{metric: one["correct"] * 1.0,
                                                                    "length": 3.5}))
            for filter, metric in (by_filter or {"none": "acc"}).items()
            for one in of
        ]  # fmt: skip
        (there / f"samples_{task}_{date}.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def test_samples_of_the_harness_are_answers_by_model_seed_and_task(
    here: Command, refused: Refused, tmp_path: Path
) -> None:
    (plain,) = read_results(pd.DataFrame(answers()))
    folder = harness(tmp_path / "out", "arc_easy", answers())
    harness(folder, "boolq", answers())
    expected = [(f"org__{row.variant}", row.seed, row.value) for row in plain.rows]
    found = read_results(folder)
    assert numbers(found) == {"arc_easy": expected, "boolq": expected}
    one, other = judge_results(found)
    (same,) = judge_results([plain])
    for compared in (one, other):
        assert compared.differences["org__pe"][RESULT] == same.differences["pe"][RESULT]
    files = sorted(map(str, folder.rglob("samples_boolq*")))
    assert numbers(read_results(files)) == {"boolq": expected}
    means = read_results(folder, ["acc", "length"])[0].metrics("org__pe", RESULT)
    assert means == {"acc": {**dict.fromkeys("012345", 0.5), "6": 1.0},
                     "length": dict.fromkeys("0123456", 3.5)}  # fmt: skip
    done = here("judge", "out", "--columns", "acc")
    assert (done.returncode, done.stderr) == (0, "Read as accuracy: acc.\n")
    assert "org__pe − org__none, accuracy, over 2 data sets" in done.stdout
    assert "no metric 'f1'; here are acc, length" in refused("judge", "out", "--columns", "f1")
    (tmp_path / "empty").mkdir()
    assert "without any samples_TASK_DATE.jsonl" in refused("judge", "empty")


def test_each_filter_of_the_harness_is_a_metric(tmp_path: Path) -> None:
    by_filter = {"strict-match": "exact_match", "flexible-extract": "exact_match"}
    folder = harness(tmp_path / "out", "gsm8k", answers(), **by_filter)
    (found,) = read_results(folder, ["exact_match/flexible-extract"])
    assert found.metrics("org__pe", RESULT)["accuracy"] == dict.fromkeys("012345", 0.5) | {"6": 1}


def test_samples_of_inspect_are_answers_by_model_and_epoch(tmp_path: Path) -> None:
    frame = pd.DataFrame(
        {
            "sample_id": f"{one['variant']}{one['seed']}{one['example']}",
            "eval_id": one["variant"],
            "log": "logs/2025-05-12T20-27-36_task.eval",
            "task_name": "arc",
            "model": f"openai/{one['variant']}",
            "id": one["example"],
            "epoch": one["seed"] + 1,
            "input": "2 + 2",
            "target": "4",
            "score_match": "CI"[not one["correct"]],
            "score_fraction": one["correct"] / 2,
            "model_usage": "{}",
            "error": "",
        }
        for one in answers()
    )
    (plain,) = read_results(pd.DataFrame(answers()))
    expected = [(f"openai/{row.variant}", str(int(row.seed) + 1), row.value) for row in plain.rows]
    frame.to_csv(tmp_path / "samples.csv")
    for given in (frame, tmp_path / "samples.csv"):
        assert numbers(read_results(given)) == {"arc": expected}
    (means,) = read_results(frame, ["fraction"])
    assert means.metrics("openai/none", RESULT) == {"fraction": dict.fromkeys("1234567", 0.2)}
    by_eval = numbers(read_results(frame, variant_column="eval_id"))["arc"]
    assert [(f"openai/{one}", *rest) for one, *rest in by_eval] == expected
    with pytest.raises(ValueError, match="no column variant"):
        read_results(frame.drop(columns="model"))


RUNS = pd.DataFrame({"variant": ["a", "a", "b", "b"], "seed": [0, 1, 0, 1],
                     "val_acc": [0.5, 0.6, 0.7, 0.7], "loss": [1.0, 1.1, 0.9, 0.8]})  # fmt: skip


def test_runs_of_mlflow_and_of_wandb_are_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (plain,) = read_results(RUNS)
    expected = [row[2:] for row in plain.rows]
    mlflow = pd.DataFrame(
        {
            "run_id": ["f0", "f1", "f2", "f3", "f4"],
            "experiment_id": "1",
            "status": ["FINISHED"] * 4 + ["FAILED"],
            "artifact_uri": "mlruns/1/f0/artifacts",
            "start_time": "2025-05-01 12:00:00+00:00",
            "end_time": "2025-05-01 12:00:00+00:00",
            "metrics.val_acc": [*RUNS["val_acc"], np.nan],
            "metrics.loss": [*RUNS["loss"], np.nan],
            "params.seed": [*RUNS["seed"], 2],
            "params.variant": [*RUNS["variant"], "b"],
            "params.lr": 0.1,
            "tags.mlflow.runName": ["x", "y", "z", "u", "v"],
        }
    )
    wandb = pd.DataFrame(
        {
            "Name": ["bold-sky-1", "bold-sky-2", "bold-sky-3", "bold-sky-4", "bold-sky-5"],
            "State": ["finished"] * 4 + ["crashed"],
            "Notes": "-",
            "User": "me",
            "Tags": "",
            "Created": "2025-05-01T12:00:00.000Z",
            "Runtime": 12,
            "Sweep": "",
            "lr": 0.1,
            "seed": [*RUNS["seed"], 2],
            "variant": [*RUNS["variant"], "b"],
            "val_acc": [*RUNS["val_acc"], np.nan],
            "loss": [*RUNS["loss"], np.nan],
        }
    )
    for name, log, prefix in (("mlflow", mlflow, "params."), ("wandb", wandb, "")):
        log.to_csv(tmp_path / f"{name}.csv", index=False)
        capsys.readouterr()
        (found,) = read_results(tmp_path / f"{name}.csv")
        assert sorted(row[2:] for row in found.rows) == sorted(expected)
        assert capsys.readouterr().err == "Left out: 1 of 5 runs, which have not finished.\n"
        other = log.rename(columns={f"{prefix}variant": f"{prefix}model"})
        (alone,) = read_results(other, ["val_acc"], variant_column=f"{prefix}model")
        assert [row[2:] for row in alone.rows] == [row for row in expected if "val_acc" in row]
        with pytest.raises(ValueError, match=f"no column variant; its columns .*{prefix}model"):
            read_results(other)
        with pytest.raises(ValueError, match="no metric 'f1'"):
            read_results(log, ["f1"])
    with pytest.raises(ValueError, match="No run here has finished"):
        read_results(wandb[4:])


def test_several_files_are_one_table(tmp_path: Path) -> None:
    files = [tmp_path / f"{variant}.csv" for variant in "ab"]
    for file in files:
        RUNS[RUNS["variant"] == file.stem].to_csv(file, index=False)
    (found,), (plain,) = read_results(files), read_results(RUNS)
    assert found.rows == plain.rows
    with pytest.raises(ValueError, match=r"a\.csv, result 1: a has two results of seed 0"):
        read_results([*files, files[0]])
    RUNS.rename(columns={"seed": "Seed"}).to_csv(files[1], index=False)
    with pytest.raises(
        ValueError, match=r"^[^,]*b\.csv has no column seed; its columns are .*Seed"
    ):
        read_results(files)
