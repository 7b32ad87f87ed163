"""`make bench`: its tables say what was measured, and a small measurement gives them."""

import importlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

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


def test_the_published_page_says_what_was_measured(
    page: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(BENCH)
    results = json.loads((BENCH / "results.json").read_text())
    importlib.import_module("_tables").write_tables(page, results)
    assert page.read_text() == (BENCH / "README.md").read_text()


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
