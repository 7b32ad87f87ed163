"""`make bench`: its tables say what was measured, and a small measurement gives them."""

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT, Patch

BENCH = ROOT / "benchmarks"
PAGE = BENCH / "README.md"


def test_the_published_page_says_what_was_measured(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.syspath_prepend(BENCH)
    page = Path(shutil.copy(PAGE, tmp_path))
    results = json.loads((BENCH / "results.json").read_text())
    importlib.import_module("_tables").write_tables(page, results)
    assert page.read_text() == PAGE.read_text()


@pytest.mark.slow
def test_a_small_measurement(tmp_path: Path) -> None:
    words = ["--rounds=2", "--reviews=64", "--keras=nowhere", "--only", "training", "start"]
    page = Path(shutil.copy(PAGE, tmp_path))
    command = [sys.executable, str(BENCH / "bench.py"), "--into", str(tmp_path), *words]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    measured = json.loads((tmp_path / "results.json").read_text())
    rows = ["ours", "ours, train.fast=false", "fused attention in our loop", "the usual PyTorch"]
    for table in measured["training"]["tables"].values():
        assert list(table) == rows  # without Keras, its rows are left out
        for row in table.values():
            assert {len(seconds) for seconds in row["seconds"].values()} == {2}
            assert all(second > 0 for seconds in row["seconds"].values() for second in seconds)
            assert 0 <= row["figures"]["accuracy"] <= 1
    assert "`attnexp train`, to the first step" in page.read_text()
