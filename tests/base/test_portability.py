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
    names = set()
    for file in (ROOT / "attnexp").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Attribute):
                root, _, name = ast.unparse(node).partition(".")
                if root == "torch" and re.fullmatch(r"[\w.]+", name):
                    names.add(name)
    assert {"cpu.get_capabilities", "backends.mkldnn.matmul"} <= names  # these set the floor
    for name in names:
        reduce(getattr, name.split("."), torch)


def test_every_pin_is_in_its_range_and_the_floor_of_torch_is_declared_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    requirements = [Requirement(line) for group in groups for line in group]
    pins = {}
    for line in (ROOT / "constraints.txt").read_text("utf-8").splitlines():
        name, _, version = line.partition("==")
        pins[canonicalize_name(name)] = version
    for requirement in requirements:
        name = canonicalize_name(requirement.name)
        assert name not in pins or pins[name] in requirement.specifier, requirement
    floors = [str(each.specifier) for each in requirements if each.name == "torch"]
    assert floors == [">=2.11"]
    pages = [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("docs/*.md")]
    stated = [page.name for page in pages if re.search(r"torch ?>=", page.read_text("utf-8"))]
    assert stated == ["pyproject.toml"]
