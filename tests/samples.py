"""Helpers that tests of several packages share: made-up runs, small models, commands."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.options import groups
from attnexp.config.schema import RunConfig, to_dict
from attnexp.runs import store
from attnexp.runs.labels import default_label, departures
from attnexp.runs.manifest import Manifest, PlannedRun, load_manifest, record_runs
from attnexp.runs.result import SCHEMA, EpochRow, Evaluation, Run, RunResult


def row(epoch: int, accuracy: float) -> EpochRow:
    return EpochRow(epoch=epoch, train_loss=0.4, train_accuracy=0.8, train_loss_after=0.3,
                    train_accuracy_after=0.9, val_loss=0.35, val_accuracy=accuracy, val_brier=0.1,
                    val_ece=0.05, val_macro_f1=0.8, seconds=1.0,
                    examples_per_second=1.0)  # fmt: skip


def result(label: str, seed: int, accuracies: Sequence[float], *words: str) -> Run:
    """A run of these words, of as many epochs as there are accuracies."""
    config = to_dict(compose(f"train.epochs={len(accuracies)}", words)) | {"seed": seed}
    rows = [row(epoch, accuracy) for epoch, accuracy in enumerate(accuracies, start=1)]
    name = config["data"]["name"]
    result = RunResult(
        schema=SCHEMA, run_id=f"{label}{seed}{words}", code={}, seed=seed,
        label=default_label(config), departures=departures(config),
        config=config, parameters=2_609_281, epochs=rows,
        data={"name": name, "fingerprint": name, "source": "made up", "n_train": 25_000,
              "n_val": 25_000, "n_test": 25_000, "classes": ["negative", "positive"]},
        own_best=max(rows, key=lambda row: row.val_accuracy), final=rows[-1],
        test=Evaluation(loss=0.35, accuracy=accuracies[-1], brier=0.1, ece=0.05, macro_f1=0.8, n=9),
        wall_seconds=1.0,
        provenance={"version": "0.1", "commit": "c" * 40 + "+", "argv": ["attnexp", "sweep"],
                    "started": "2026-01-01T00:00:00+00:00"},
    )  # fmt: skip
    return Run(path=Path("nowhere"), result=result, variant=label)


def but(run: Run, **figures: Any) -> Run:
    return replace(run, result=replace(run.result, **figures))


def save_run(root: Path, run: Run, run_id: str) -> Path:
    """Folder of a finished run, below the root of all results."""
    folder = store.run_dir(root, run_id)
    folder.mkdir(parents=True)
    store.save_result(folder, but(run, run_id=run_id).result)
    return folder


PLAN = {"data.fingerprint": "imdb", "data.limit_test": None, "train.protocol": "blog"}  # of runs


def study_of(*runs: tuple[str, int, str], command: str = "attnexp sweep") -> Manifest:
    """The study of these runs, each as variant, seed and id."""
    variants = dict[str, dict[str, str]]()
    entries = []
    for name, seed, run_id in runs:
        variants[name] = {}
        entries.append(PlannedRun(variant=name, seed=str(seed), run_id=run_id))
    settings: dict[str, Any] = {name: {"imdb": PLAN} for name in variants}
    return Manifest(variants=variants, settings=settings, commands=[command], runs=entries)


def save_study(root: Path, runs: list[Run], study: str = "blog") -> None:
    """Write runs and the study that names them."""
    entries = []
    for run in runs:
        run_id = f"{study}{run.variant}{run.result.seed}-0"
        save_run(root, run, run_id)
        entries.append((run.variant, run.result.seed, run_id))
    record_runs(root / study, study_of(*entries))


def write_file(path: Path, content: str | bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def message_of(call: Callable[..., object], *given: Any, **named: Any) -> str:
    """The message of the `UserError` that a call must raise."""
    with pytest.raises(UserError) as caught:
        call(*given, **named)
    return str(caught.value)


def stored_study(folder: Path) -> Manifest:
    study = load_manifest(folder)
    assert study is not None
    return study


SMALL_MODEL = """data=contrast data.max_len=6 data.vocab_size=20 model.d_model=8 train.device=cpu
train.threads=1""".split()
NARROW = ["model.heads=2", "model.d_head=4"]
FEW_TEXTS = """data=contrast data.limit_train=64 data.limit_test=48 train.epochs=1 model.d_model=8
train.threads=1""".split()


def composed(words: str) -> RunConfig:
    """A small config of these words, with few numbers large enough to hide what they do."""
    given = words.split()
    more = []
    if "mask=window" in words or "mask=restricted" in words:
        more += ["mask.radius=1"]
    if "model=fasttext" in words:
        more += ["model.buckets=16"]
    try:
        return compose([*SMALL_MODEL, *NARROW, *more, *given])
    except UserError:  # without attention
        return compose([*SMALL_MODEL, *more, *given])


def redrawn(module: nn.Module, std: float = 0.7) -> Any:
    """The module in float64, with weights so large that attention is far from uniform."""
    for seed, parameter in enumerate(module.double().parameters()):
        nn.init.normal_(parameter, std=std, generator=torch.Generator().manual_seed(seed))
    return module


def each_once(*places: str) -> list[str]:
    """Combinations with every option of these groups, every other from its last to its first."""
    chosen = [[f"{place}={option}" for option in groups()[place]] for place in places]
    columns = [itertools.cycle(options[:: (-1) ** i]) for i, options in enumerate(chosen)]
    return [" ".join(map(next, columns)) for _ in range(max(map(len, chosen)))]
