"""A system may lack what Unix has, use another encoding than UTF-8, and have another torch."""

import ast
import re
import subprocess
import sys
import tomllib
from functools import reduce
from pathlib import Path

import pytest
import torch
from conftest import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

LACKING = """
import ctypes, os, signal, subprocess, sys, warnings
for name in ("resource", "fcntl", "_posixsubprocess"):  # the last starts the resource tracker
    sys.modules[name] = None
del signal.pthread_sigmask, os.sysconf
load = ctypes.CDLL
ctypes.CDLL = lambda name, **more: load(name, **more) if name else object()  # no mallopt
warnings.filterwarnings("error", category=EncodingWarning, module="attnexp")
from pathlib import Path
from attnexp import compare, compose, load_runs, train_run
from attnexp.cli import main
from attnexp.sweeps.executors.local import Processes
smoke = sys.argv[1:]
def attnexp(*words):
    sys.argv = ["attnexp", *words]
    try:
        main()
    except SystemExit as stop:
        assert not stop.code, words
attnexp("sweep", *smoke, "seed=0,1", "executor.workers=1")
Processes(2).close()
attnexp("report", "made/runs")
folder, _ = train_run(compose(*smoke, "seed=1"))  # it has finished
attnexp("predict", str(folder), "a superb cast")
attnexp("doctor", "made")
assert len(load_runs("made/runs")) == 2
compare("made/runs")
"""


@pytest.mark.slow
def test_no_command_needs_them(tmp_path: Path) -> None:
    smoke = "experiment=smoke data.limit_train=64 data.limit_test=64 train.epochs=1 out=made"
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-c", LACKING, *smoke.split()],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_torch_has_every_attribute_that_is_read() -> None:
    """This holds for attributes that only a GPU or another system reads, too."""
    read = {
        ast.unparse(node).split(".", 1)[1]
        for file in (ROOT / "attnexp").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_bytes()))
        if isinstance(node, ast.Attribute) and re.fullmatch(r"torch(\.\w+)+", ast.unparse(node))
    }
    assert {"cpu.get_capabilities", "backends.mkldnn.matmul"} <= read  # these set the floor
    for name in read:
        reduce(getattr, name.split("."), torch)


def test_every_pin_is_in_its_range_and_the_floor_of_torch_is_declared_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    ranges = [Requirement(one) for group in groups for one in group]
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = {canonicalize_name(name): pin for name, _, pin in (one.partition("==") for one in lines)}
    for one in ranges:
        name = canonicalize_name(one.name)
        assert name not in pins or pins[name] in one.specifier, one
    assert [str(one.specifier) for one in ranges if one.name == "torch"] == [">=2.11"]
    pages = [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("docs/*.md")]
    stated = [page.name for page in pages if re.search(r"torch ?>=", page.read_text("utf-8"))]
    assert stated == ["pyproject.toml"]
