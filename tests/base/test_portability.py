"""Other systems and other versions of what is installed."""

import ast
import re
import tomllib
from functools import reduce

import torch
from conftest import ROOT
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name


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
