"""What lies beside the package: an installation far from it, benchmarks and the notebook."""

import importlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from conftest import ROOT, Patch
from nbclient import NotebookClient

from attnexp.config.compose import compose
from attnexp.runs.identity import identify

BENCH = ROOT / "benchmarks"
PAGE = BENCH / "README.md"


@pytest.mark.slow  # pip builds the package
def test_a_plain_install_finds_its_conf_from_anywhere(tmp_path: Path) -> None:
    source = tmp_path / "source"
    shutil.copytree(ROOT, source, ignore=shutil.ignore_patterns(".*", "outputs", "__pycache__"))
    site = tmp_path / "site"
    pip = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "-q"]
    subprocess.run([*pip, "--target", str(site), str(source)], check=True, capture_output=True)
    program = """
from attnexp.config import compose, options
from attnexp.runs.identity import identify
print(options.conf_dir())
print(identify(compose.compose(["experiment=blog_pe"]), "").run_id)"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, env={"PYTHONPATH": str(site)}, capture_output=True, text=True,
    )  # fmt: skip
    same_id = identify(compose(["experiment=blog_pe"]), "").run_id  # as of the same code
    assert done.stdout.splitlines() == [str(site / "attnexp/conf"), same_id], done.stderr
    compare = ["diff", "--recursive", "--exclude=__pycache__"]
    subprocess.run([*compare, ROOT / "conf", site / "attnexp/conf"], check=True)
    subprocess.run([*compare, "--exclude=conf", ROOT / "attnexp", site / "attnexp"], check=True)


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
    subprocess.run(command, check=True)
    measured = json.loads((tmp_path / "results.json").read_text())
    rows = ["ours", "ours, train.fast=false", "fused attention in our loop", "the usual PyTorch"]
    for table in measured["training"]["tables"].values():
        assert list(table) == rows  # without Keras, its rows are left out
    assert "`attnexp train`, to the first step" in page.read_text()


@pytest.mark.slow
def test_cells_of_the_notebook_train_compare_predict_and_draw(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook = nbformat.read(ROOT / "docs/first_steps.ipynb", as_version=4)
    place = {"metadata": {"path": str(tmp_path)}}
    ran = NotebookClient(notebook, timeout=300, resources=place).execute()
    shown = str([cell.get("outputs") for cell in ran.cells])
    for part in ("helps", "position=sinusoidal", "text/html", "superb", "image/svg+xml", "<svg"):
        assert part in shown
    assert "━" not in shown  # a line for each epoch, no bar
