"""Imports point down, and what must come at once waits for nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "attnexp"

LAYERS = [
    {"errors", "files"},
    {"progress", "config", "arrays"},
    {"checks"},
    {"compose", "stats", "runs", "predictions"},
    {"metrics", "verdict", "sweep"},
    {
        "model.masks",
        "model.softmax",
        "model.scores",
        "model.positions",
        "model.biases",
        "model.mixers",
        "model.init",
    },
    {"model.pooling", "model.window", "model.rotary"},
    {"model.attention"},
    {"model.block"},
    {"data.text", "data.hub", "data.keras_npz"},
    {"data.corpus"},
    {"data.contrast", "data.acl_imdb", "data.vectors"},
    {"data.sources"},
    {"data.encode"},
    {"model.classifier", "data.inventory", "device", "checkpoint"},
    {"loop", "baseline", "cost"},
    {"train", "evaluation"},
    {"executors.task"},
    {"executors.local", "executors.queue", "executors.cluster"},
    {"executors.choose"},
    {"schedule"},
    {"watch", "estimate"},
    {"preview"},
    {"report.kexue"},
    {"report.comparison"},
    {"report.tables", "report.insight", "report.figures"},
    {"report.plots"},
    {"report.formats"},
    {"report.html"},
    {"claims.claim"},
    {"claims.measure", "claims.layers"},
    {
        "claims.encodings",
        "claims.masking",
        "claims.values",
        "claims.heads",
        "claims.growth",
        "claims.reach",
        "claims.trials",
        "claims.sweeps",
    },
    {"claims.run", "claims.figures"},
    {"cli"},
]
"""A module imports from the sets above its own only."""

MODULES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path
    for path in PACKAGE.rglob("*.py")
    if path.name != "__init__.py"
}


def imported(path: Path) -> set[str]:
    """Modules of this package that a file imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("attnexp"):
            parent = (node.module or "").removeprefix("attnexp").lstrip(".")
            for alias in node.names:
                child = f"{parent}.{alias.name}".lstrip(".")
                found.add(child if child in MODULES else parent)
    return found - {""}


def test_every_module_has_a_layer() -> None:
    assert set().union(*LAYERS) == set(MODULES)


@pytest.mark.parametrize("module", sorted(MODULES))
def test_imports_point_down(module: str) -> None:
    level = next(level for level, names in enumerate(LAYERS) if module in names)
    below = set().union(*LAYERS[:level])
    assert imported(MODULES[module]) <= below


@pytest.mark.parametrize("module", sorted(name for name in MODULES if name.startswith("model.")))
def test_the_model_knows_nothing_of_data_and_training(module: str) -> None:
    allowed = ("model",) if module != "model.classifier" else ("model", "config")
    assert all(name.startswith(allowed) for name in imported(MODULES[module]))


@pytest.mark.parametrize(
    "words", [["--help"], ["train", "--help"], ["config"], ["config", "--groups"]]
)
def test_help_and_config_import_neither_torch_nor_datasets(words: list[str]) -> None:
    program = (
        "import sys; from attnexp.cli import app\n"
        f"try: app({words!r})\nexcept SystemExit as stop: assert not stop.code, stop.code\n"
        "heavy = {'torch', 'datasets', 'torchtext', 'pyarrow', 'numpy', 'scipy'}\n"
        "heavy &= set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
