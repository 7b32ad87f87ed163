"""The code that computes a run: the modules that it uses, each with a digest of its syntax.

Comments, docstrings, layout, the version of Python and the place of an installation leave a digest
as it is. Installed packages (torch, numpy) do not count; `provenance` names them.
"""

import ast
import functools
import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from attnexp.base.errors import RunFailed
from attnexp.base.modules import find

ROOT = "attnexp.training.run"
"""Where every run starts; what it imports is followed from here."""

COMPUTING = (
    *("attnexp.model.", "attnexp.training."),
    *("attnexp.data.encode", "attnexp.data.text", "attnexp.data.vectors"),
)
"""Modules of attnexp that can change a figure. Settings and data enter a run's id by themselves;
the rest stores and shows."""

BUILDERS = (
    *("attnexp.training.run", "attnexp.training.inputs"),
    *("attnexp.model.classifier", "attnexp.model.attention"),
)
"""Modules that import what only some runs use."""

ON_DEMAND = (
    *("attnexp.model.block", "attnexp.model.masks", "attnexp.model.positions"),
    *("attnexp.model.window", "attnexp.model.fast", "attnexp.data.vectors"),
)
"""What they import, and what counts where it is asked for alone."""

_imported: dict[str, str] = {}
"""Digests of modules when this process first read them, which is when it imported them."""


def read_again() -> None:
    """Have `reached` look at the disk anew."""
    reached.cache_clear()


def expect(now: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Raise `RunFailed` where code changed between planning a run and the end of it."""
    if now != before:
        raise RunFailed(
            f"{', '.join(changed(before, now))} changed under way, so the run would mix old code "
            f"and new. The same command, given again, does what is missing."
        )


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Files of the modules that differ."""
    return files({name for name, _ in before.items() ^ after.items()})


def files(names: Iterable[str]) -> list[str]:
    """Modules as `model/positions.py`."""
    return sorted(f"{name.removeprefix('attnexp.').replace('.', '/')}.py" for name in names)


@functools.cache
def reached(asked_for: frozenset[str]) -> dict[str, str]:
    """Digests by module of the code that imports lead to, from `ROOT` and what is asked for.

    The disk is read once, and anew after `read_again`. Raises `RunFailed` when a module is no
    longer what this process has imported.
    """
    found: dict[str, str] = {}
    todo = [ROOT, *asked_for]
    while todo:
        name = todo.pop()
        if name in found:
            continue
        spec = find(name)
        assert spec is not None
        found[name], imported = _read(_source(spec), spec.parent or "")
        for base, attribute in imported:
            target = _target(base, attribute)
            left_out = name in BUILDERS and target in ON_DEMAND and target not in asked_for
            if not left_out and _counts(target, name):
                todo.append(target)
    expect(found, {name: _imported.setdefault(name, found[name]) for name in found})
    return dict(sorted(found.items()))


def _counts(name: str, importer: str) -> bool:
    """Whether to follow an import: into what computes here, and into code of the user's own."""
    top = name.partition(".")[0]
    if top == "attnexp":
        return name.startswith(COMPUTING)
    if top in sys.stdlib_module_names or (spec := find(name)) is None:
        return False
    installed = {"site-packages", "dist-packages"} & set(Path(spec.origin or "").parts)
    return not installed or top == importer.partition(".")[0]


def _target(base: str, attribute: str) -> str:
    """The module behind `from base import attribute`: a submodule, or `base` itself."""
    top = base.partition(".")[0]
    if attribute and top not in sys.stdlib_module_names and find(f"{base}.{attribute}"):
        return f"{base}.{attribute}"
    return base


def _source(spec: ModuleSpec) -> str:
    """The text of a module now; for one without, its bytes as text."""
    loader: Any = spec.loader
    text = loader.get_source(spec.name)
    return text if text is not None else ascii(loader.get_data(spec.origin))


@functools.cache
def _read(source: str, package: str) -> tuple[str, list[tuple[str, str]]]:
    """The digest of a module, and what it imports: a module, and an attribute of it or nothing."""
    try:
        tree = ast.parse(source)
    except SyntaxError:  # half written, maybe; certainly not what it was
        return hashlib.sha256(source.encode()).hexdigest()[:16], []
    return digest(tree), list(_imports(tree, package))


def digest(tree: ast.AST) -> str:
    """Sixteen hex digits that change with what the code says."""
    return hashlib.sha256(canonical(tree).encode()).hexdigest()[:16]


def canonical(node: Any) -> str:
    """A syntax tree as text that is the same on every Python: unlike `ast.dump`, whose fields and
    defaults change between versions. Without strings that are statements, such as docstrings."""
    match node:
        case ast.Constant():
            return ascii(node.value)  # what repr escapes depends on the version's Unicode
        case ast.JoinedStr():  # Python 3.12 ends f"{x:{y}}" with an empty string
            parts = [canonical(part) for part in node.values]
            return f"JoinedStr({[part for part in parts if part != ascii('')]})"
        case ast.AST():
            fields = sorted((name, value) for name, value in ast.iter_fields(node) if value)
            inside = ", ".join(f"{name}={canonical(value)}" for name, value in fields)
            return f"{type(node).__name__}({inside})"
        case list():
            return f"[{', '.join(canonical(item) for item in node if not _is_text(item))}]"
    return ascii(node)


def _is_text(node: Any) -> bool:
    """Whether it is a string that stands alone."""
    match node:
        case ast.Expr(value=ast.Constant(value=str())):
            return True
    return False


def _imports(tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = importlib.util.resolve_name("." * node.level + (node.module or ""), package)
            yield from ((base, alias.name) for alias in node.names)
