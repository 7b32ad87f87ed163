"""Measure how planning, surveying, reporting and the page grow with the number of runs.

CPU seconds of whole commands on studies of 10 to 10,000 runs, and the exponent of each: the least-
squares slope of log(value minus that of two runs, the start-up) over log(runs), from 100 runs on.
Nothing is trained: finished runs are made up, each a folder with a result of five epochs and
predictions of 2,000 reviews.

    python benchmarks/growth.py
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import torch

from attnexp.config.schema import to_dict
from attnexp.data import contrast
from attnexp.runs import manifest, predictions, store
from attnexp.runs.result import SCHEMA, EpochRow, Evaluation, RunResult
from attnexp.sweeps.folder import assign_folder
from attnexp.sweeps.plan import Sweep, plan
from attnexp.sweeps.schedule import SweepEntry, manifest_of_entries, scan
from attnexp.training.device import describe_provenance

ATTNEXP = str(Path(sys.executable).with_name("attnexp"))
SIZES = (10, 100, 1_000, 2_000, 10_000)
SMALLEST, FITTED_FROM = 2, 100

COLUMNS = {
    "plan": ("plan", "s", 1),
    "survey": ("survey", "s", 1),
    "report": ("report", "s", 1),
    "page": ("--html", "s", 1),
    "report_peak": ("memory", "MB", 1e6),
    "manifest_bytes": ("study", "kB", 1e3),
    "page_bytes": ("page", "kB", 1e3),
}
"""Heading, unit and scale of each measurement."""

ONE_THREAD = {**os.environ, "OMP_NUM_THREADS": "1"}
"""Environment with one thread, so that CPU seconds are those of an idle machine."""

Figures = dict[str, float]


def main() -> None:
    """Print the table, and write it as JSON if asked."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--turns", type=int, default=3, help="of which the median counts")
    parser.add_argument("--most", type=int, default=SIZES[-1], help="runs of the largest study")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all that is measured")
    args = parser.parse_args()
    print(f"{len(os.sched_getaffinity(0))} cores, load {os.getloadavg()[0]:.1f} at the start\n")
    print_line("", [name for name, _, _ in COLUMNS.values()])
    print_line("runs", [unit for _, unit, _ in COLUMNS.values()])
    figures: dict[int, Figures] = {}
    for size in (SMALLEST, *SIZES):
        if size > args.most:
            break
        figures[size] = measure(size, args.turns)
        values = [figures[size][key] / scale for key, (_, _, scale) in COLUMNS.items()]
        cells = [f"{value:.2f}" if value < 100 else f"{value:.0f}" for value in values]
        print_line(f"{size:,d}", cells)
    exponents = {key: exponent(figures, key) for key in COLUMNS}
    print_line("exponent", [f"{value:.2f}" for value in exponents.values()])
    if args.json:
        args.json.write_text(json.dumps({"runs": figures, "exponents": exponents}, indent=1))


def print_line(head: str, cells: Iterable[str]) -> None:
    """Print a line of the table at once."""
    print(f"{head:>9s}" + "".join(f"{cell:>8s}" for cell in cells), flush=True)


def measure(num_runs: int, turns: int) -> Figures:
    """Seconds, memory and bytes of a study of some size, by name."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "out"
        page = Path(folder) / "page.html"
        words = ["study=blog", "data=contrast", f"seed=range({num_runs // 2})", f"out={out}"]
        figures = command("plan", ["sweep", *words, "--dry-run"], turns)
        make_up(assign_folder(plan(words)))
        figures |= command("survey", ["sweep", *words, "--dry-run"], turns)
        figures |= command("report", ["report", f"{out}/blog"], turns)
        figures |= command("page", ["report", f"{out}/blog", "--html", str(page)], turns)
        figures["page_bytes"] = page.stat().st_size
        figures["manifest_bytes"] = (out / "blog" / manifest.FILE).stat().st_size
    return figures


def command(part: str, words: list[str], turns: int) -> Figures:
    """Medians over turns of CPU seconds, seconds from start to exit, and peak memory in bytes."""
    taken = []
    for _ in range(turns):
        started = time.perf_counter()
        process = subprocess.Popen([ATTNEXP, *words], stdout=subprocess.DEVNULL, env=ONE_THREAD)
        _, status, usage = os.wait4(process.pid, 0)
        elapsed = time.perf_counter() - started
        taken.append((usage.ru_utime + usage.ru_stime, elapsed, 1024 * usage.ru_maxrss))
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise SystemExit(f"attnexp {' '.join(words)} failed")
    cpu_seconds, elapsed_seconds, peaks = zip(*taken, strict=True)
    return {
        part: statistics.median(cpu_seconds),
        f"{part}_elapsed": statistics.median(elapsed_seconds),
        f"{part}_peak": statistics.median(peaks),
    }


def exponent(figures: Mapping[int, Figures], key: str) -> float:
    """Exponent of growth beyond start-up; nan if it does not grow."""
    start_up = figures[SMALLEST][key]
    points = []
    for size, measured in figures.items():
        growth = measured[key] - start_up
        if size >= FITTED_FROM and growth > 0:
            points.append((size, growth))
    if len(points) < 2:
        return float("nan")
    log_sizes, log_growths = np.log(points).T
    slope, _ = np.polyfit(log_sizes, log_growths, deg=1)
    return float(slope)


def make_up(sweep: Sweep) -> None:
    """Write finished runs of a whole sweep; accuracies are normal, those of pe a little higher."""
    rng = np.random.default_rng(0)
    entries = scan(sweep)
    for entry in entries:
        entry.path.mkdir(parents=True)
        labels = np.tile([0, 1], contrast.NUM_TEST // 2).astype(np.uint8)
        logits = rng.normal(2.0 * labels - 1).astype(np.float32)
        said = dict.fromkeys((predictions.OWN_BEST, predictions.FINAL), logits)
        predictions.save_arrays(
            entry.path / predictions.FILE, {**said, predictions.VAL_LABELS: labels}
        )
        store.save_result(entry.path, make_result(entry, rng))
    manifest.record_runs(sweep.directory, manifest_of_entries(sweep, entries))


def make_row(epoch: int, gain: float, rng: np.random.Generator) -> EpochRow:
    """One made-up epoch."""
    accuracy = 0.8 + 0.01 * epoch + gain
    chance = rng.normal(scale=0.005, size=4).tolist()
    return EpochRow(
        epoch=epoch,
        val_macro_f1=accuracy,
        train_loss=0.4 + chance[0],
        train_accuracy=accuracy + 0.01,
        train_loss_after=0.35 + chance[0],
        train_accuracy_after=accuracy + 0.02 + chance[3],
        val_loss=0.5 + chance[1],
        val_accuracy=accuracy + chance[2],
        val_brier=0.12 + chance[1],
        val_ece=0.05 + chance[3],
        seconds=1.0,
        examples_per_second=4_000.0,
    )


def make_result(entry: SweepEntry, rng: np.random.Generator) -> RunResult:
    """One made-up result."""
    gain = 0.01 if entry.job.label == "pe" else 0.0
    rows = [make_row(epoch, gain, rng) for epoch in range(1, 6)]
    best = max(rows, key=lambda row: row.val_accuracy)
    final = rows[-1]
    return RunResult(
        schema=SCHEMA,
        run_id=entry.path.name,
        code={},
        seed=entry.job.config.seed,
        label=entry.job.label,
        departures=[],
        config=to_dict(entry.job.config),
        data={
            "name": "contrast",
            "source": "generated",
            "fingerprint": "made up",
            "n_train": contrast.NUM_TRAIN,
            "n_val": contrast.NUM_TEST,
            "n_test": contrast.NUM_TEST,
            "classes": ["negative", "positive"],
        },
        parameters=2_609_281,
        epochs=rows,
        own_best=best,
        final=final,
        test=Evaluation(
            macro_f1=final.val_macro_f1,
            loss=final.val_loss,
            accuracy=final.val_accuracy,
            brier=final.val_brier,
            ece=final.val_ece,
            n=contrast.NUM_TEST,
        ),
        wall_seconds=6.0,
        provenance=describe_provenance(torch.device("cpu")),
    )


if __name__ == "__main__":
    main()
