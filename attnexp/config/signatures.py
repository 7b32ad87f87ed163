"""Signatures of pieces, read from their source: nobody's module is imported to compose a config.

An annotation says everything about a setting:

    rate: Annotated[float, "> 0", "<= 1", "How fast scores fall, per token."] = 0.5

Types are int, float, bool, str, a `Literal` or `StrEnum` of texts, any of these `| None`, and
`type[Seam]` for a piece within the piece. Texts that begin with a comparison, or are `odd` or
`even`, are bounds; they also hold for positional arguments, which the surroundings give.
"""

import ast
import re
from collections.abc import Iterator
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import Any

from attnexp.base import modules
from attnexp.base.errors import UserError

SEAMS = "attnexp.model.seams"
TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}
BOUND = re.compile(r"(>=|>|<=|<) (-?[\d.e]+)|odd|even")


class Annotation:
    """Type, bounds and description of an argument, from its annotation."""

    def __init__(self, module: str, arg: ast.arg) -> None:
        self.name = arg.arg
        self.type: Any = None
        self.optional = False
        self.options: dict[str, str] = {}
        """Allowed texts, keyed by the names of their enum's members."""
        self.seam = ""
        self.bounds: tuple[str, ...] = ()
        self.about = ""
        self.is_understood = arg.annotation is not None and self._read(module, arg.annotation)

    def _read(self, module: str, node: ast.expr) -> bool:
        match node:
            case ast.Constant(value=None):
                self.optional = True
            case ast.Constant(value=str(text)):
                return self._read(module, ast.parse(text, mode="eval").body)
            case ast.BinOp(left=left, op=ast.BitOr(), right=right):
                return self._read(module, left) and self._read(module, right)
            case ast.Subscript(
                value=ast.Name(id="Annotated") | ast.Attribute(attr="Annotated"),
                slice=ast.Tuple(elts=[kind, *more]),
            ):
                texts = [one.value for one in more if isinstance(one, ast.Constant)]
                known = tuple(str(text) for text in texts if BOUND.fullmatch(str(text)))
                self.bounds += known
                self.about = " ".join(str(text) for text in texts if text not in known)
                return self._read(module, kind)
            case ast.Subscript(
                value=ast.Name(id="Literal") | ast.Attribute(attr="Literal"), slice=options
            ):
                given = ast.literal_eval(options)
                given = (given,) if isinstance(given, str) else given
                return self._offer({str(option): option for option in given})
            case ast.Subscript(value=ast.Name(id="type"), slice=seam):
                where, found = find(module, seam)
                if not isinstance(found, ast.ClassDef):
                    return False
                *_, (_, last) = with_bases(where, found.name)
                self.seam = last.name
            case ast.Name(id=name) if name in TYPES:
                self.type = TYPES[name]
            case ast.Name() | ast.Attribute():
                where, found = find(module, node)
                match found:
                    case ast.ClassDef(bases=[ast.Name(id="StrEnum")]):
                        return self._offer({
                            ast.unparse(one.targets[0]): getattr(one.value, "value", None)
                            for one in found.body if isinstance(one, ast.Assign)
                        })  # fmt: skip
                    case ast.expr():
                        return self._read(where, found)
                    case _:
                        return False
            case _:
                return False
        return True

    def _offer(self, options: dict[str, Any]) -> bool:
        self.options = options
        make: Any = StrEnum
        if not all(isinstance(option, str) for option in options.values()):
            return False
        self.type = make(self.name, {option: option for option in options.values()})
        return True


def with_bases(module: str, name: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """A class, then its bases up to its seam, each with its module. Raises `UserError` if the
    module has no such class."""
    where, node = find(module, ast.Name(id=name))
    if not isinstance(node, ast.ClassDef):
        near = [one.name for one in source(module).body if isinstance(one, ast.ClassDef)]
        raise UserError(
            f"Module {module} has no class '{name}'. It has {', '.join(near) or 'none'}."
        )
    yield where, node
    if where == SEAMS:
        return
    for base in node.bases:
        above, found = find(where, base)
        if isinstance(found, ast.ClassDef):
            rest = list(with_bases(above, found.name))
            if rest[-1][0] == SEAMS:
                yield from rest
                return


def find(module: str, node: ast.expr) -> tuple[str, ast.AST | None]:
    """Definition of a name that a module uses: the module where it stands, and its node."""
    match node:
        case ast.Attribute(value=value, attr=attr):
            where, found = find(module, value)
            return find(where, ast.Name(id=attr)) if isinstance(found, ast.Module) else ("", None)
        case ast.Name(id=name):
            for one in source(module).body:
                match one:
                    case ast.ClassDef(name=defined) if defined == name:
                        return module, one
                    case ast.Assign(targets=[ast.Name(id=defined)]) if defined == name:
                        return module, one.value
                    case ast.Import(names=names) | ast.ImportFrom(names=names):
                        for alias in names:
                            if (alias.asname or alias.name) == name:
                                return _imported(module, one, alias.name)
                            if alias.name == "*" and (star := _imported(module, one, name))[1]:
                                return star
    return "", None


def _imported(
    module: str, node: ast.Import | ast.ImportFrom, name: str
) -> tuple[str, ast.AST | None]:
    if isinstance(node, ast.Import):
        origin = name
    else:
        package = ".".join(module.split(".")[: -node.level]) if node.level else ""
        origin = ".".join(filter(None, [package, node.module]))
        if origin.split(".")[0] != "torch" and locate(f"{origin}.{name}") is None:
            return find(origin, ast.Name(id=name)) if locate(origin) else ("", None)
        origin = f"{origin}.{name}"
    if origin.split(".")[0] == "torch" or locate(origin) is None:  # no seam of ours lies there
        return "", None
    return origin, source(origin)


@cache
def source(module: str) -> ast.Module:
    """Syntax tree of a module. Raises `UserError` if there is no such module."""
    file = locate(module)
    if file is None:
        raise UserError(
            f"There is no module '{module}' in {Path.cwd()} or on Python's path. Call attnexp from "
            f"the folder that holds it, or set PYTHONPATH."
        )
    _times_of_change[file] = _time_of_change(file)
    try:
        return ast.parse(file.read_bytes())
    except SyntaxError as error:
        raise UserError(f"{file} is no Python: {error}.") from error


_times_of_change: dict[Path, int | None] = {}
"""Time of the last change of each source file when it was read."""


def _time_of_change(file: Path) -> int | None:
    return file.stat().st_mtime_ns if file.exists() else None


def has_changed() -> bool:
    """Whether a file has changed since it was read, as between a notebook's cells. All files are
    then read anew."""
    modules.find.cache_clear()
    changed = any(_time_of_change(file) != time for file, time in _times_of_change.items())
    if changed:
        _times_of_change.clear()
        source.cache_clear()
    return changed


def locate(module: str) -> Path | None:
    """File of a module, found without running its packages; None if there is none."""
    try:
        found = modules.find(module)
    except (ImportError, ValueError):
        return None
    if found is None or found.origin is None or not found.origin.endswith(".py"):
        return None
    return Path(found.origin)
