"""Helpers that several test files share: made-up results, small models, data in files, pages."""

import copy
import csv
import functools
import io
import itertools
import json
import os
import pty
import random
import select
import signal
import subprocess
import tarfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

import forked
import pyarrow as pa
import pytest
import torch
from pyarrow import parquet
from torch import Tensor, nn

from attnexp.base.errors import UserError
from attnexp.cli import app
from attnexp.config.compose import compose
from attnexp.config.options import groups
from attnexp.config.schema import DataConfig, DataName, RunConfig, to_dict
from attnexp.data import contrast
from attnexp.model.classifier import build_model
from attnexp.model.init import named_seed
from attnexp.runs import manifest, store
from attnexp.runs.arrays import save_weights
from attnexp.runs.result import SCHEMA, EpochRow, Evaluation, Run, RunResult
from attnexp.sweeps import schedule
from attnexp.sweeps.executors import local
from attnexp.sweeps.executors.task import Failure, Outcome
from attnexp.sweeps.plan import Job
from attnexp.training import run as train
from attnexp.training.loop import Examples
from attnexp.training.run import OpenRun


@functools.cache
def _settings(*words: str) -> dict[str, Any]:
    return to_dict(compose(list(words)))


def row(epoch: int, accuracy: float) -> EpochRow:
    return EpochRow(epoch=epoch, train_loss=0.4, train_accuracy=0.8, train_loss_after=0.3,
                    train_accuracy_after=0.9, val_loss=0.35, val_accuracy=accuracy, val_brier=0.1,
                    val_ece=0.05, seconds=1.0,
                    examples_per_second=1.0)  # fmt: skip


def result(label: str, seed: int, accuracies: Sequence[float], *words: str) -> Run:
    """A run of these words, of as many epochs as there are accuracies."""
    config = copy.deepcopy(_settings(f"train.epochs={len(accuracies)}", *words)) | {"seed": seed}
    rows = [row(epoch, accuracy) for epoch, accuracy in enumerate(accuracies, start=1)]
    name = config["data"]["name"]
    result = RunResult(
        schema=SCHEMA, run_id=f"{label}{seed}{words}", code={}, seed=seed,
        config=config, parameters=2_609_281, flops_per_example=1, epochs=rows,
        data={"name": name, "fingerprint": name, "source": "made up", "n_train": 25_000,
              "n_val": 25_000, "n_test": 25_000, "classes": ["negative", "positive"]},
        best=max(rows, key=lambda row: row.val_accuracy), final=rows[-1],
        test=Evaluation(loss=0.35, accuracy=accuracies[-1], brier=0.1, ece=0.05, n=9),
        wall_seconds=1.0, peak_rss_bytes=1,
        provenance={"version": "0.1", "commit": "c" * 40 + "+", "argv": ["attnexp", "sweep"],
                    "started": "2026-01-01T00:00:00+00:00"}, files={},
    )  # fmt: skip
    return Run(path=Path("nowhere"), result=result, label=label)


def save_study(
    root: Path,
    runs: list[Run],
    study: str = "blog",
    levels: dict[str, dict[str, str]] | None = None,
) -> None:
    """Write runs and the study that names them, below the root of all results.

    levels: of the study's factors, by variant, where it crosses them.
    """
    named = []
    for run in runs:
        run_id = f"{study}{run.label}{run.result.seed}{run.result.data['name']}-0"
        folder = store.run_dir(root, run_id)
        folder.mkdir(parents=True)
        named.append(but(run, run_id=run_id))
        store.save(folder, named[-1].result)
    manifest.record(root / study, planned(*named, levels=levels))


def but(run: Run, **figures: Any) -> Run:
    """The same run with other figures; best and final follow other epochs."""
    if rows := figures.get("epochs"):
        figures["best"] = max(rows, key=lambda row: row.val_accuracy)
        figures["final"] = rows[-1]
    return replace(run, result=replace(run.result, **figures))


CONTRAST_WORDS = ["the", "was", "but", "and", *contrast.ASPECTS, *contrast.PRAISE, *contrast.BLAME]


def made(label: str, seed: int, *words: str, epochs: int = 3, level: float = 0.84) -> Run:
    """A run with figures that depend on label and seed."""
    chance = random.Random(f"{label}{seed}")
    run = result(label, seed, [level] * epochs, *words)
    rows = [
        replace(
            row,
            train_loss=0.5 / row.epoch,
            val_loss=0.3 + 0.1 * row.epoch + chance.gauss(0, 0.01),
            val_accuracy=round(level - 0.01 * row.epoch + chance.gauss(0, 0.001), 4),
        )
        for row in run.result.epochs
    ]
    return but(run, epochs=rows)


def stored(folder: Path, *words: str, words_of_it: list[str] = CONTRAST_WORDS) -> Run:
    """A run with a folder: weights as they are at the start, and the words of the corpus."""
    config = compose(["data=contrast", "model.d_model=16", "model.d_head=4", *words])
    model = build_model(config)
    if config.position.name == "learned":
        assert isinstance(model.position, torch.nn.Module)
        with torch.no_grad():
            model.position.weight.normal_()  # type: ignore[operator]
    folder.mkdir(exist_ok=True)
    save_weights(folder, model.state_dict())
    store.save_vocabulary(folder, words_of_it)
    run = made("a", 0)
    result = replace(run.result, config=to_dict(config), files=store.digests(folder))
    return replace(run, path=folder, result=result)


K = ("model.score.scale=false", "train.eps=1e-8")


SD = 0.002


BLOCK = "model.layers=2 model.residual=true model.norm=pre model.feed_forward=8"


def padded_reviews(max_len: int = 9) -> Tensor:
    """Padded ones among them, the first of padding alone: (5, max_len)."""
    ids = torch.randint(1, 30, (5, max_len), generator=torch.Generator().manual_seed(0))
    ids[0], ids[1, :4] = 0, 0
    return ids


SMALL_MODEL = "data=contrast data.max_len=9 data.vocab_size=30 model.d_model=8".split()


NARROW = ["model.heads=2", "model.d_head=4"]


@functools.cache
def composed(words: str) -> RunConfig:
    """A small config of these words, with few numbers large enough to hide what they do."""
    numbers = {"window": ["radius=1"], "dilated": ["radius=1"], "restricted": ["radius=1"],
               "window_padding": ["radius=1"], "block_sparse": ["block=2"]}  # fmt: skip
    given = words.split()
    more = [f"mask.{n}" for w in given for n in numbers.get(w.removeprefix("mask="), [])]
    if "model=fasttext" in given:
        more.append("model.buckets=16")
    try:
        return compose([*SMALL_MODEL, *NARROW, *more, *given])
    except UserError:  # without attention
        return compose([*SMALL_MODEL, *more, *given])


Module = TypeVar("Module", bound=nn.Module)


def redrawn(module: Module, std: float = 0.7) -> Module:
    """The module in float64, with weights of its own that are the same every time and, by default,
    large enough that attention is far from uniform."""
    for seed, parameter in enumerate(module.double().parameters()):
        nn.init.normal_(parameter, std=std, generator=torch.Generator().manual_seed(seed))
    return module


def each_once(*places: str) -> list[str]:
    """Combinations that have every option of these groups, those of shorter groups more than once.

    Every other group goes from its last option to its first, so that no two clash.
    """
    chosen = [[f"{place}={option}" for option in groups()[place]] for place in places]
    columns = [itertools.cycle(options[:: (-1) ** i]) for i, options in enumerate(chosen)]
    return [" ".join(map(next, columns)) for _ in range(max(map(len, chosen)))]


def put(section: Any, path: list[str], value: Any) -> Any:
    """A copy of a section with another value at a path."""
    name, *rest = path
    return replace(section, **{name: put(getattr(section, name), rest, value) if rest else value})


def planned(
    *runs: Run | tuple[str, int, str],
    command: str = "attnexp sweep",
    levels: dict[str, dict[str, str]] | None = None,
    declaration: manifest.Declaration | None = None,
) -> manifest.Manifest:
    """The study of these runs, each as it is or as variant, seed and id."""
    entries = [
        manifest.Entry(variant=variant, seed=str(seed), run_id=run_id)
        for run in runs
        for variant, seed, run_id in [
            (run.label, run.result.seed, run.result.run_id) if isinstance(run, Run) else run
        ]
    ]
    return manifest.Manifest(
        variants=levels or {entry.variant: {} for entry in entries},
        commands=[command],
        runs=entries,
        declaration=declaration,
    )


SMALL_RUN = """data=contrast data.max_len=6 data.vocab_size=20 model.d_model=8 model.heads=2
model.d_head=4 train.batch_size=8 train.epochs=2 train.device=cpu
train.measure_train=true""".split()


def examples(n: int, *, seed: int = 0, max_len: int = 6) -> Examples:
    """Random reviews whose label a bag of words can tell: is the mean id above the middle?"""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, 20, (n, max_len), generator=generator, dtype=torch.int32)
    return Examples(ids, (ids.float().mean(1) > 11).float())


def shuffle(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(named_seed(seed, "order"))


def without_clock(rows: list[EpochRow]) -> list[dict[str, Any]]:
    """All but the clock."""
    return [
        {k: v for k, v in asdict(row).items() if k not in ("seconds", "examples_per_second")}
        for row in rows
    ]


HALVES = {
    "train": (["dull,  grey\n", "no", "naïve fun", "yes <br />", "ten", "10"], [0, 0, 0, 1, 1, 1]),
    "test": (["weak", "mild", "strong ☕", "fine"], [0, 0, 1, 1]),
}


def half_table(split: str) -> pa.Table:
    texts, labels = HALVES[split]
    return pa.table({"text": texts, "label": labels})


def write_parquet(home: Path, *, shards: int = 1) -> Path:
    home.mkdir(parents=True)
    for split in HALVES:
        rows = half_table(split)
        cuts = [round(i * rows.num_rows / shards) for i in range(shards + 1)]
        for i in range(shards):
            part = rows.slice(cuts[i], cuts[i + 1] - cuts[i])
            parquet.write_table(part, home / f"{split}-{i:05}-of-{shards:05}.parquet")
    return home


def review_files() -> dict[str, bytes]:
    """Files by name, in an order unlike the corpus's; their numbers have two lengths."""
    files = {}
    for split, (texts, labels) in HALVES.items():
        for i, (text, label) in enumerate(zip(texts, labels, strict=True)):
            side = "pos" if label else "neg"
            files[f"{split}/{side}/{8 + i}_{10 - i}.txt"] = text.encode()
    return dict(reversed(files.items()))


def write_folder(home: Path) -> Path:
    for name, content in review_files().items():
        path = home / "aclImdb" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (home / "aclImdb/README").write_text("not a review")
    return home


def write_archive(path: Path, files: Sequence[tuple[str, bytes]] = ()) -> Path:
    """files: their names and contents; of the small corpus if there are none."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, content in files or [("README", b"not a review"), *review_files().items()]:
            member = tarfile.TarInfo(f"aclImdb/{name}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return path


ROW_TEXTS = ["plain", 'a "quoted", text', "two\nlines", "tab\there", "NA", "null", "10",
             "2020-01-01", "☕ naïve", "a\u2028b", " space ", "", "true", "1.5", "'",
             "[1]"]  # fmt: skip


ROW_LABELS = ["LOC", "DESC, long", "HUM", "NA"]


ROWS = {
    "train": [(text, ROW_LABELS[i % 4]) for i, text in enumerate(ROW_TEXTS)],
    "test": [(f"test {i}", ROW_LABELS[i % 3]) for i in range(6)],
}


Rows = list[tuple[Any, Any]]


def write_csv(path: Path, rows: Rows, delimiter: str = ",") -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file, delimiter=delimiter).writerows([("text", "label"), *rows])


def write_jsonl(path: Path, rows: Rows) -> None:
    lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
    path.write_text("\n".join(lines) + "\n")


def each(name: str, write: Callable[[Path, Rows], None]) -> Callable[[Path], Path]:
    """A writer of both splits into a folder, named by a pattern such as data/{}.csv.gz."""

    def both(home: Path) -> Path:
        for split, rows in ROWS.items():
            path = home / name.format(split)
            path.parent.mkdir(exist_ok=True)
            write(path, rows)
            if path.suffix in (".gz", ".zst"):
                plain = path.read_bytes()
                with pa.output_stream(str(path), compression="detect") as stream:
                    stream.write(plain)
        return home

    return both


def exit_code(*words: str | Path) -> int:
    """The exit code of a command."""
    with pytest.raises(SystemExit) as stop:
        app([str(word) for word in words])
    return int(stop.value.code or 0)


CROSSED = ("none_scaled", "none_unscaled", "pe_scaled", "pe_unscaled")


MORE = [0.014, 0.016, 0.013, 0.015, 0.012, 0.018]
"""What PE gives more without scaling, by seed."""


def outcomes(folder: Path) -> dict[str, object]:
    """Figures by run."""
    found = dict[str, object]()
    for file in folder.rglob(store.RESULT):
        result = store.load(file.parent)
        found[file.parent.name] = without_clock(result.epochs), result.test
    return found


def on_a_terminal(tmp_path: Path, *words: str, **environment: str) -> str:
    """Everything that a terminal of 80 columns is sent."""
    ours, theirs = pty.openpty()
    terminal = Path(os.ttyname(theirs))
    colours = {"COLUMNS": "80", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    process = forked.start(
        forked.attnexp, *words, cwd=tmp_path, stdout=terminal, stderr=terminal,
        environment={**os.environ, **colours, **environment},
    )  # fmt: skip
    seen, alive, ready = b"", True, [ours]
    while alive or ready:
        alive = process.is_alive()
        ready, _, _ = select.select([ours], [], [], 0.1)
        seen += b"".join(os.read(one, 65536) for one in ready)
    os.close(ours)
    os.close(theirs)
    assert process.exitcode == 0, seen.decode()
    return seen.decode()


def finished(entries: list[schedule.Entry]) -> list[Run]:
    return [entry.outcome for entry in entries if isinstance(entry.outcome, Run)]


def fail_with(monkeypatch: pytest.MonkeyPatch, error: BaseException, *, seed: int) -> None:
    """Let the run of one seed raise."""
    real = train.train

    def fail(run: OpenRun) -> RunResult:
        if run.config.seed == seed:
            raise error
        return real(run)

    monkeypatch.setattr(train, "train", fail)


def pretend(
    monkeypatch: pytest.MonkeyPatch, fails: Callable[[RunConfig], bool] = lambda config: False
) -> list[str]:
    """Let a sweep in this process make its results up: chance, unless the learning rate is high.

    Returns positions and seeds of the runs that are done so, as they come.
    """
    done = list[str]()

    def do(job: Job) -> Outcome:
        done.append(f"{job.config.position.name} {job.config.seed}")
        if fails(job.config):
            return Failure(job, "the loss is nan")
        assert job.identity is not None
        level = 0.9 if job.config.train.lr > 1e-3 else 0.5
        words = [f"data={job.config.data.name}"]
        run = made(job.label, job.config.seed, *words, epochs=job.config.num_epochs, level=level)
        own = {"run_id": job.identity.run_id, "code": job.identity.code}
        folder = store.run_dir(job.config.out, job.identity.run_id)
        part = store.create(folder, job.config, job.overrides)
        run = but(run, **own, config=to_dict(job.config), epochs=run.result.epochs)
        store.save(part, run.result)
        return replace(run, path=store.finalize(part))

    monkeypatch.setattr(local, "do", do)
    return done


def write_reviews(home: Path, train: list[str], test: list[str]) -> DataConfig:
    """Texts as parquet, labelled 0 and 1 in turn, and the config that reads them."""
    home.mkdir(exist_ok=True)
    for split, texts in (("train", train), ("test", test)):
        table = pa.table({"text": texts, "label": [i % 2 for i in range(len(texts))]})
        parquet.write_table(table, home / f"{split}-0.parquet")
    return DataConfig(name=DataName.files, path=str(home))


def sweeping(
    folder: Path, words: list[str], environment: dict[str, str] | None = None
) -> subprocess.Popen[str]:
    """A sweep under way, in processes of its own; its stderr is kept."""
    return subprocess.Popen(
        [forked.PROGRAM, "sweep", *words, f"out={folder}"], env=environment, text=True,
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


def interrupted(
    folder: Path, *words: str, at: str, number: signal.Signals = signal.SIGINT
) -> tuple[int, str]:
    """Exit code and stderr of a command in a folder that gets a signal once it has said `at`."""
    files = folder / "stdout", folder / "stderr"
    process = forked.start(
        forked.attnexp, *words,
        cwd=folder, stdout=files[0], stderr=files[1], environment={**os.environ, "COLUMNS": "80"},
    )  # fmt: skip
    assert process.pid is not None
    while not (files[1].exists() and at in files[1].read_text()):
        assert process.is_alive()
        time.sleep(0.01)
    os.kill(process.pid, number)
    process.join(60)
    assert process.exitcode is not None
    return process.exitcode, files[1].read_text()
