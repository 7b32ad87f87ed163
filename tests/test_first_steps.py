"""The notebook for newcomers, as it lies in the repository and as Jupyter runs it."""

import os
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from conftest import ROOT, Patch
from nbclient import NotebookClient


def notebook() -> Any:
    return nbformat.read(ROOT / "docs" / "first_steps.ipynb", as_version=4)


def test_it_is_stored_without_outputs() -> None:
    nbformat.validate(notebook())
    cells = [cell for cell in notebook().cells if cell.cell_type == "code"]
    assert cells
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells)


@pytest.mark.slow
def test_its_cells_train_compare_predict_and_draw(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    place = {"metadata": {"path": str(tmp_path)}}
    ran = NotebookClient(notebook(), timeout=300, resources=place).execute()
    shown = [output for cell in ran.cells for output in cell.get("outputs", [])]
    results = [output.data for output in shown if output.output_type == "execute_result"]
    printed = "".join(output.text for output in shown if output.output_type == "stream")
    compared, by_epoch, picture = results
    assert "helps" in compared["text/plain"]
    assert "position=sinusoidal" in by_epoch["text/html"]
    assert "superb" in printed
    assert picture["image/svg+xml"].startswith("<svg")
