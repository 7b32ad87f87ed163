"""What one sees of a running sweep, and what a dry run expects of it."""

import io
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from samples import but, result, row

from attnexp.base import progress
from attnexp.config.compose import compose
from attnexp.model.classifier import cost_of
from attnexp.runs import store
from attnexp.runs.identity import identify
from attnexp.runs.result import Run
from attnexp.sweeps.executors.local import InThisProcess, Processes
from attnexp.sweeps.executors.task import Failure
from attnexp.sweeps.plan import plan
from attnexp.sweeps.preview import ASSUMED_RATE, flops_per_text, preview_sweep, print_preview
from attnexp.sweeps.schedule import Entry, Status, scan
from attnexp.sweeps.watch import Watch, best_so_far, totals
from attnexp.training.inputs import read_inputs


def entries(tmp_path: Path) -> list[Entry]:
    """Five runs: one is done, one failed, two run (one of them not yet seen), one waits."""
    words = ["study=blog", "seed=range(3)", f"out={tmp_path}", "train.epochs=4"]
    found = [Entry(job, identify(job.config, "data")) for job in plan(words).jobs[:5]]
    done, failed, running, unseen, _ = found
    done.status = Status.done
    done.outcome = Run(path=tmp_path, result=result("no_pe", 0, [0.84, 0.8]).result)
    failed.status, failed.outcome = Status.failed, Failure(failed.job, "the loss is nan")
    running.status = unseen.status = Status.running
    part = store.create(running.path, running.job.config, [])
    for epoch, accuracy in ((1, 0.81), (2, 0.82)):
        store.add_epoch(part, row(epoch, accuracy))
    return found


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min"), (9000, "2 h 30 min")],
)
def test_durations_read_well(seconds: float, text: str) -> None:
    assert progress.duration(seconds) == text


def drawn(found: list[Entry]) -> str:
    """The live table, 80 columns wide."""
    console = Console(width=80)
    with console.capture() as said:
        console.print(Watch().table(found))
    return said.get()


def test_the_live_table_tells_everything_within_80_columns(tmp_path: Path) -> None:
    text = drawn(entries(tmp_path))
    assert max(map(len, text.splitlines())) <= 80
    assert "1 of 5 done, 2 running, 1 waiting, 1 failed" in text
    assert "best so far: no_pe, seed 0, 84.00" in text
    line = next(line for line in text.splitlines() if "no_pe, seed 1" in line)
    assert line.split()[-4:] == ["82.00", "1/s", "epoch", "3/4"]
    assert "epoch 1/4" in next(line for line in text.splitlines() if "pe, seed 1" in line[:14])


def test_a_line_half_written_is_no_harm(tmp_path: Path) -> None:
    found = entries(tmp_path)
    running = found[2]
    with (store.part_of(running.path) / store.METRICS).open("a") as file:
        file.write('{"epoch": 3, "tra')
    line = next(line for line in drawn(found).splitlines() if "no_pe, seed 1" in line)
    assert "epoch 1/4" in line


def test_time_left_is_what_is_left_at_the_pace_so_far(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two of five ended and one half way after 100 s: 2.5 more take 100 s."""
    found = entries(tmp_path)
    view = Watch()
    view.began = {id(entry): 1000.0 for entry in found[:4]}
    monkeypatch.setattr("attnexp.sweeps.watch.time.monotonic", lambda: 1100.0)
    assert view.pace(found).plain == "1.5 runs/min, 2 min left"


def test_without_a_terminal_every_run_has_its_line_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    console = Console(file=io.StringIO(), width=80)
    monkeypatch.setattr(progress, "console", console)
    found = entries(tmp_path)
    with closing(Watch()) as view:
        for executor in (None, Processes(2), InThisProcess()):
            view(found, executor)
    lines = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert lines == [
        "[1/5] no_pe, seed 0: final 80.00, 1 s",
        "[2/5] pe, seed 0 failed: the loss is nan",
        "[3/5] no_pe, seed 1",
        "[4/5] pe, seed 1",
    ]


def test_nothing_done_has_no_best() -> None:
    assert best_so_far([]) == ""
    assert totals([]) == "0 of 0 done"


def written(out: Path, run: Run, run_id: str, **figures: Any) -> None:
    """A finished run in a store of runs."""
    folder = out / store.RUNS / run_id
    folder.mkdir(parents=True)
    store.save(folder, but(run, run_id=run_id, **figures).result)


def expected(preview: dict[str, Any]) -> list[float | None]:
    return [run["seconds"] for run in preview["runs"]]


CONTRAST = ["data=contrast", "data.limit_train=2000", "data.limit_test=1000", "train.epochs=3"]


@pytest.mark.parametrize(
    ("words", "texts"),
    [([], 3 * 2000 + 1000), (["train=holdout"], 3 * 1800 + 200)],
)
def test_with_nothing_finished_an_estimate_takes_the_flops_at_a_stated_rate(
    tmp_path: Path, words: list[str], texts: int
) -> None:
    shown = preview_sweep(plan([*CONTRAST, *words, f"out={tmp_path}"]))
    each = 24 * (6 * 128 * 128 + 4 * 24 * 128)
    assert expected(shown) == [pytest.approx(3 * texts * each / ASSUMED_RATE)]
    assert shown["assumed_rate"] == ASSUMED_RATE
    console = Console(file=io.StringIO(), width=80)
    print_preview(shown, console)
    assert "times assume 50 GFLOP/s" in console.file.getvalue()  # type: ignore[attr-defined]


def test_an_estimate_takes_the_rate_of_other_runs_on_the_same_data(tmp_path: Path) -> None:
    """A run with as many texts and epochs, half the FLOPs and 7 s says 14 s."""
    planned = plan([*CONTRAST, f"out={tmp_path}"])
    config = planned.jobs[0].config
    data = {"fingerprint": read_inputs(config).fingerprint, "n_train": 2000, "n_val": 1000}
    other = result("other", 7, [0.8] * 3, "data=contrast")
    figures = {"wall_seconds": 7.0, "flops_per_example": int(flops_per_text(config) / 2)}
    written(tmp_path, other, "other", data=other.result.data | data, **figures)
    written(tmp_path, other, "elsewhere", wall_seconds=1000.0)  # on other data
    (tmp_path / store.RUNS / "damaged").mkdir()
    (tmp_path / store.RUNS / "damaged" / store.RESULT).write_text("{")
    shown = preview_sweep(planned)
    assert expected(shown) == [pytest.approx(14.0)]
    assert shown["assumed_rate"] is None


def test_an_estimate_takes_what_the_variant_took_before(tmp_path: Path) -> None:
    planned = plan([*CONTRAST, "seed=0,1", f"out={tmp_path}"])
    first, _ = scan(planned)
    written(tmp_path, result("no_pe", 0, [0.8]), first.path.name, wall_seconds=9.0)
    assert expected(preview_sweep(planned)) == [None, 9.0]


def test_an_estimate_counts_the_start_of_processes(tmp_path: Path) -> None:
    """None where runs are done one after another; one for each run of a queue."""

    def start_up(*words: str) -> Any:
        return preview_sweep(plan([*CONTRAST, f"out={tmp_path}", *words]))["start_up"]

    alone = start_up("seed=range(40)", "executor.workers=1")
    pool = start_up("seed=range(40)", "executor.workers=20")
    queue = start_up("seed=range(40)", "executor.workers=20", "executor=submitit")
    assert 0 < alone < pool <= queue


@pytest.mark.parametrize("model", ["attention", "lstm"])
@pytest.mark.parametrize("more", [[], ["data.max_len=40", "model.d_model=64"]])
def test_flops_without_torch_are_those_that_torch_counts(model: str, more: list[str]) -> None:
    config = compose([f"model={model}", *more])
    assert flops_per_text(config) == pytest.approx(cost_of(config)["flops_per_example"], rel=1e-3)
