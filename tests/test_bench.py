"""`make bench`: its tables say what was measured, and a small measurement gives them."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

BENCH = ROOT / "benchmarks"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """A copy of benchmarks/README.md."""
    return Path(shutil.copy(BENCH / "README.md", tmp_path))


def bench(page: Path, *words: str) -> str:
    """What the page says after `bench.py`."""
    command = [sys.executable, str(BENCH / "bench.py"), "--into", str(page.parent), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return page.read_text()


def results(*, others: float = 0.0) -> dict[str, Any]:
    """Two rows in two arrangements; each works faster in another one."""

    def row(*seconds: float) -> dict[str, Any]:
        parts = {part: list(seconds) for part in ("train", "evaluate", "epoch")}
        return {"seconds": parts, "figures": {"accuracy": 0.8417, "peak_mib": 512.3}}

    return {
        "training": {
            "started": "2026-11-21T15:00:00+00:00", "commit": "0123456789", "threads": 2,
            "cpu": "a processor", "torch": "2.13.0", "data": "2 reviews", "reviews": 2, "load": 0.1,
            "others": others,
            "tables": {
                "together": {"ours": row(4, 4, 4), "peer": row(2, 4, 6)},
                "apart": {"ours": row(1, 2, 2), "peer": row(8, 8, 8)},
            },
        }
    }  # fmt: skip


def test_a_figure_is_the_median_of_ratios_within_a_round(page: Path) -> None:
    (page.parent / "results.json").write_text(json.dumps(results()))
    text = bench(page, "--tables")
    assert "| ours | 4 s | 4 s | 4 s | 84.2% | 512 |" in text
    cell = "**1.00** (0.50 to 1.50)"
    assert f"| peer | {cell} | {cell} | {cell} | 84.2% | 512 |" in text


def test_for_a_study_each_stands_at_its_better_arrangement(page: Path) -> None:
    (page.parent / "results.json").write_text(json.dumps(results()))
    text = bench(page, "--tables")
    assert "| ours (apart) | 2 s |" in text
    assert "| peer (together) | **2.00** (2.00 to 3.00) |" in text


def test_a_busy_machine_is_said_to_be_one(page: Path) -> None:
    (page.parent / "results.json").write_text(json.dumps(results()))
    assert "busy" not in bench(page, "--tables").partition("<!-- training -->")[2].partition("|")[0]
    (page.parent / "results.json").write_text(json.dumps(results(others=0.5)))
    assert "0.5 cores **(busy" in bench(page, "--tables")


def test_the_published_page_says_what_was_measured(page: Path) -> None:
    shutil.copy(BENCH / "results.json", page.parent)
    assert bench(page, "--tables") == (BENCH / "README.md").read_text()


@pytest.mark.slow
def test_a_small_measurement(page: Path) -> None:
    words = ["--rounds=2", "--reviews=64", "--keras=nowhere", "--only", "training", "start"]
    text = bench(page, *words)
    measured = json.loads((page.parent / "results.json").read_text())
    rows = ["ours", "ours, train.fast=false", "fused attention in our loop", "the usual PyTorch"]
    for table in measured["training"]["tables"].values():
        assert list(table) == rows  # without Keras, its rows are left out
        for row in table.values():
            assert {len(seconds) for seconds in row["seconds"].values()} == {2}
            assert all(second > 0 for seconds in row["seconds"].values() for second in seconds)
            assert 0 <= row["figures"]["accuracy"] <= 1
    assert "`attnexp train`, to the first step" in text
