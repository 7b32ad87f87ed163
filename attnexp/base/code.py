"""The code behind a result: a digest of the syntax of each module that imports lead to.

Comments, docstrings, layout, the version of Python and the place of an installation leave a digest
as it is. Code is read and never run, so imports under a computed name are not seen, nor what code
reads from files and from the environment. Installed packages (torch, numpy) do not count.
"""

import ast
import functools
import hashlib
import importlib
import importlib.util
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from attnexp.base.errors import RunFailed
from attnexp.base.modules import find

PACKAGE = __name__.partition(".")[0]

STARTED = time.time()
"""When this process began to import attnexp, in seconds since 1970."""

_read_before: dict[str, tuple[str, ModuleType | None, float]] = {}
"""Modules when they were last read: the digest, the module if it was imported by then, and the time
of the last change of its file."""


def digests(roots: Iterable[str], counts: Callable[[str, str], bool]) -> dict[str, str]:
    """Digests of modules, by name: of `roots` and of what imports lead to from there.

    Imports are followed into the user's own code, which is all that is neither installed nor in the
    standard library (or belongs to the package that imports it), and into those modules of attnexp
    for which `counts(module, importer)` holds. A package is named `package.__init__`; it counts
    with its modules.

    User code that was edited after its import is removed from `sys.modules`, so that this process
    imports and runs the code of the digests. Raises `RunFailed` if attnexp itself was edited.
    """
    importlib.invalidate_caches()
    find.cache_clear()
    found: dict[str, str] = {}
    todo, seen = [*roots], set[str]()
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        spec = find(name)
        assert spec is not None, name
        package = name.rpartition(".")[0]
        targets = [package]
        loader: Any = spec.loader
        if loader is not None:  # a namespace package has no code
            is_package = spec.submodule_search_locations is not None
            digest_of_module, imports = _read(
                loader.get_data(spec.origin), name if is_package else package
            )
            found[f"{name}.__init__" if is_package else name] = digest_of_module
            targets += [_module_of(base, attribute) for base, attribute in imports]
        todo += [target for target in targets if _is_followed(target, name, counts)]
    _forget_edited(found)
    return dict(sorted(found.items()))


def expect(now: Mapping[str, str], before: Mapping[str, str]) -> None:
    """Raise `RunFailed` where code changed between the planning of a run and its end."""
    if now != before:
        raise RunFailed(_changed_under_way(changed(before, now)))


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Files of the modules that differ."""
    return files({name for name, _ in before.items() ^ after.items()})


def files(names: Iterable[str]) -> list[str]:
    """Modules as files, such as `model/positions.py`."""
    return sorted(f"{name.removeprefix(f'{PACKAGE}.').replace('.', '/')}.py" for name in names)


def _changed_under_way(names: list[str]) -> str:
    return (
        f"{', '.join(names)} changed under way, so the run would mix old code and new. The same "
        f"command, given again, does what is missing; in a notebook, restart the kernel first."
    )


def _is_followed(name: str, importer: str, counts: Callable[[str, str], bool]) -> bool:
    """Whether an import leads to code that counts."""
    top = name.partition(".")[0]
    if not name or top in sys.stdlib_module_names or (spec := find(name)) is None:
        return False
    if top == PACKAGE:
        return counts(name, importer)
    places = [spec.origin] if spec.origin else spec.submodule_search_locations or []
    parts = {part for place in places for part in Path(place).parts}
    is_installed = bool(parts & {"site-packages", "dist-packages"})
    return not is_installed or top == importer.partition(".")[0]


def _module_of(base: str, attribute: str) -> str:
    """The module behind `from base import attribute`: a submodule, or `base` itself."""
    submodule = f"{base}.{attribute}"
    is_standard = base.partition(".")[0] in sys.stdlib_module_names
    return submodule if base and attribute and not is_standard and find(submodule) else base


def _forget_edited(found: Mapping[str, str]) -> None:
    """Have the user's modules imported anew if one was edited since this process imported it."""
    edited = {name for name, digest in found.items() if _is_edited(name, digest)}
    if ours := {name for name in edited if name.startswith(f"{PACKAGE}.")}:
        raise RunFailed(_changed_under_way(files(ours)))
    if edited:  # all of them, since any may hold what it imported from another
        packages = {name.partition(".")[0] for name in {*found, *_read_before}} - {PACKAGE}
        for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
            del sys.modules[name]
    for name, digest in found.items():
        _read_before[name] = (digest, _imported(name), _time_of_change(name))


def _is_edited(name: str, digest: str) -> bool:
    """Whether the module on disk, with this digest, differs from the one that was imported."""
    module, changed_at = _imported(name), _time_of_change(name)
    if name not in _read_before:
        return module is not None and STARTED < changed_at <= time.time()
    digest_before, module_before, changed_at_before = _read_before[name]
    if digest != digest_before or name.startswith(f"{PACKAGE}."):
        return digest != digest_before
    # The user may have edited it, imported it and undone the edit.
    return module not in (None, module_before) and changed_at != changed_at_before


def _imported(name: str) -> ModuleType | None:
    return sys.modules.get(name.removesuffix(".__init__"))


def _time_of_change(name: str) -> float:
    """When a module's file was written or moved to its place, in seconds since 1970."""
    spec = find(name.removesuffix(".__init__"))
    assert spec is not None
    assert spec.origin is not None
    if not os.path.exists(spec.origin):  # within an archive
        return 0.0
    stat = os.stat(spec.origin)
    return max(stat.st_mtime, stat.st_ctime)


@functools.cache
def _read(source: bytes, package: str) -> tuple[str, list[tuple[str, str]]]:
    """The digest of a module's file, and its imports: a module, and an attribute of it or ""."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's code; importing it gives them
            tree = ast.parse(source)
    except (SyntaxError, ValueError):  # half written, or compiled
        return hashlib.sha256(source).hexdigest()[:16], []
    return digest(tree), list(_imports(tree, package))


def digest(tree: ast.AST) -> str:
    """Sixteen hex digits that change with what the code says."""
    return hashlib.sha256(canonical(tree).encode()).hexdigest()[:16]


def canonical(node: Any) -> str:
    """A syntax tree as text that is the same on every Python: unlike `ast.dump`, whose fields and
    defaults change between versions. Without `pass`, and without strings that are statements, such
    as docstrings."""
    match node:
        case ast.Pass() | ast.Expr(value=ast.Constant(value=str())):
            return ""
        case None:  # in a list: the key of {**x}, the default of an argument that has none
            return "absent"
        case ast.Constant():
            return ascii(node.value)  # what repr escapes depends on the version's Unicode
        case ast.JoinedStr():  # Python 3.12 ends f"{x:{y}}" with an empty string
            parts = [canonical(part) for part in node.values]
            return f"JoinedStr({[part for part in parts if part != ascii('')]})"
        case ast.AST():
            given = [(name, value) for name, value in ast.iter_fields(node)]
            inside = [
                f"{name}={canonical(value)}"
                for name, value in sorted(given, key=lambda field: field[0])
                if value is not None and value != []
            ]
            return f"{type(node).__name__}({', '.join(inside)})"
        case list():
            return f"[{', '.join(filter(None, map(canonical, node)))}]"
    return ascii(node)


def _imports(tree: ast.AST, package: str) -> Iterator[tuple[str, str]]:
    """Imports of a module of this package, by a statement or by a call with a literal name."""
    nodes = list(_nodes_that_run(tree))
    functions = {"import_module", "__import__"} | {
        alias.asname
        for node in nodes
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if alias.name == "import_module"
    }
    for node in nodes:
        match node:
            case ast.Import():
                yield from ((alias.name, "") for alias in node.names)
            case ast.ImportFrom():
                base = _absolute("." * node.level + (node.module or ""), package)
                yield from ((base, alias.name) for alias in node.names)
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if name in functions:
                texts = _texts([*node.args, *node.keywords])
                for base in texts[:1]:
                    base = _absolute(base, texts[1] if len(texts) > 1 else package)
                    yield from ((base, name) for name in ["", *texts[1:]])  # as in fromlist
            case ast.Assign(targets=[ast.Name(id="__all__")]):  # import * imports submodules
                yield from ((package, name) for name in _texts([node]))


def _nodes_that_run(tree: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree outside of `if TYPE_CHECKING`."""
    todo = [tree]
    while todo:
        match node := todo.pop():
            case ast.If(test=ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING")):
                todo += node.orelse
            case _:
                yield node
                todo += ast.iter_child_nodes(node)


def _texts(trees: Iterable[ast.AST]) -> list[str]:
    """The string literals in trees."""
    nodes = (node for tree in trees for node in ast.walk(tree))
    values = (node.value for node in nodes if isinstance(node, ast.Constant))
    return [value for value in values if isinstance(value, str)]


def _absolute(name: str, package: str) -> str:
    """A module's name in full; "" for a relative one that leads out of its package."""
    try:
        return importlib.util.resolve_name(name, package)
    except ImportError:
        return ""
