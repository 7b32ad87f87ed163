"""From a class to a typed spec of its settings, without importing it.

A piece of the model is a class of `attnexp.model.seams`, ours or anyone's. On the way from a word
to a module it is three things:

1. a choice: `position=rotary` names `conf/position/rotary.yaml`, whose `kind` is the class as
   `module:Class`; `position=my_package.my_module:Decay` names a class directly.
2. a spec: `spec` reads the class's constructor in its source and makes a dataclass of its
   keyword-only arguments, which are the settings of this piece and of no other.
3. a module: `model.classifier.build_model` imports the class at last, and calls it with the
   settings.

The source is read, not run, so that composing a config imports neither torch nor anyone's code.
An annotation says everything about a setting:

    rate: Annotated[float, "> 0", "<= 1", "How fast scores fall, per token."] = 0.5

Types are int, float, bool, str, a `Literal` or `StrEnum` of texts, any of these `| None`, and
`type[Seam]` for a piece within the piece. Texts that begin with a comparison, or are `odd` or
`even`, are bounds; they also hold for positional arguments, which the surroundings give.
"""

import ast
import importlib
import operator
import re
import sys
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from enum import StrEnum
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from attnexp.base import modules
from attnexp.base.errors import UserError
from attnexp.config.options import name_of

SEAMS = "attnexp.model.seams"
TYPES: dict[str, type] = {"int": int, "float": float, "bool": bool, "str": str}
CLASS = re.compile(r"[\w.]+:\w+")
"""A choice that is anyone's class: `module:Class`."""
BOUND = re.compile(r"(>=|>|<=|<) (-?[\d.e]+)|odd|even")


@dataclass(kw_only=True)
class Piece:
    """What was chosen for a seam, and its settings as further fields. No `kind` is no piece."""

    kind: str | None = None
    """`module:Class`."""

    lineage: ClassVar[tuple[str, ...]] = ()
    """The class and its bases as `module:Class`; the last is its seam."""
    given: ClassVar[dict[str, tuple[str, ...]]] = {}
    """Positional arguments with their bounds."""

    def __post_init__(self) -> None:
        for f in fields(self):  # options are checked as members of an enum, and kept as texts
            value = getattr(self, f.name)
            setattr(self, f.name, str(value) if isinstance(value, StrEnum) else value)

    @property
    def name(self) -> str:
        """How it was chosen: `rotary`, or the name of someone's class."""
        return name_of(self.kind)

    def fills(self, *seams: str) -> bool:
        """Whether the piece is one of these seams, or of these classes of `attnexp.model`."""
        return any(
            module.startswith("attnexp.model.") and name in seams
            for module, _, name in (one.partition(":") for one in self.lineage)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Specs are made when they are needed, in a sweep's other processes too."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return _restore, (_frame(type(self)), values, root(self.kind) if self.kind else "")

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def _restore(frame: Any, values: dict[str, Any], folder: str) -> Piece:
    add_to_path(folder)
    made: Piece = spec(values["kind"], frame)(**values)
    return made


def add_to_path(folder: str) -> None:
    """Let modules be found where they lay for whoever started the sweep. Empty: nowhere else."""
    if folder and folder not in sys.path:
        sys.path.append(folder)


def setting(default: Any = MISSING, *bounds: str, **more: Any) -> Any:
    """A field of a config, with its bounds as above. more: what else is known of it."""
    metadata = {"bounds": bounds, **more}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


def violated(value: Any, bound: str) -> bool:
    """Whether a value breaks a bound such as `>= 1` or `even`. None breaks no bound."""
    if value is None:
        return False
    if bound in ("odd", "even"):
        return bool(value % 2) != (bound == "odd")
    sign, limit = bound.split()
    compare = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}[sign]
    return not compare(value, float(limit))


def format_bounds(bounds: tuple[str, ...]) -> str:
    """`at least 1 and odd`."""
    words = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}
    return " and ".join(
        f"{words[sign]} {limit}" if limit else sign
        for sign, _, limit in (bound.partition(" ") for bound in bounds)
    )


@cache
def spec(kind: str | None, frame: Any = Piece) -> type[Piece]:
    """The dataclass of a class's settings, on top of those that `frame` has for all its pieces.

    kind: `module:Class`. Raises `UserError` where there is no such class, or its constructor cannot
    be read.
    """
    if kind is None:
        return frame  # type: ignore[no-any-return]
    module, _, name = kind.partition(":")
    lineage = list(_lineage(module, name))
    constructors = [
        (where, one.args)
        for where, node in lineage
        for one in node.body
        if isinstance(one, ast.FunctionDef) and one.name == "__init__"
    ]
    settings: list[tuple[str, Any, Any]] = []
    given = {}
    for owner, parameters in constructors[:1]:
        positional = [*parameters.posonlyargs, *parameters.args][1:]
        given = {arg.arg: _Annotation(owner, arg).bounds for arg in positional}
        taken = {f.name for f in fields(frame)}
        for arg, default in zip(parameters.kwonlyargs, parameters.kw_defaults, strict=True):
            if arg.arg in taken:
                raise UserError(
                    f"{kind} has a setting '{arg.arg}', which every choice in its place has. Give "
                    f"it another name."
                )
            settings.append(_setting(kind, owner, arg, default))
    made: type[Piece] = make_dataclass(
        name,
        settings,
        bases=(frame,),
        namespace={
            "lineage": tuple(f"{where}:{node.name}" for where, node in lineage),
            "given": given,
            "__module__": __name__ + ".spec",
        },
        kw_only=True,
    )
    return made


def seam(kind: str | None) -> str | None:
    """The seam that a class fills; None where it fills none. Raises `UserError` like `spec`."""
    last = spec(kind).lineage[-1:] if kind else ()
    module, _, name = "".join(last).partition(":")
    return name if module == SEAMS else None


def describe(seam: str) -> str:
    """`Rotation (rotates q and k)`."""
    (found,) = (
        node for node in _source(SEAMS).body if isinstance(node, ast.ClassDef) and node.name == seam
    )
    about = (ast.get_docstring(found) or "").split(":")[0]
    return f"{seam} ({about[0].lower()}{about[1:]})"


def _setting(kind: str, owner: str, arg: ast.arg, default: ast.expr | None) -> tuple[str, Any, Any]:
    annotation = _Annotation(owner, arg)
    if not annotation.is_understood:
        raise UserError(
            f"{kind}: the type of '{arg.arg}' must be int, float, bool, str, a Literal or StrEnum "
            f"of texts, one of these | None, or type[Seam]; got "
            f"{ast.unparse(arg.annotation) if arg.annotation else 'none'}."
        )
    if annotation.seam:
        chosen = None
        if isinstance(default, ast.Name | ast.Attribute):
            found = _find(owner, default)
            chosen = f"{found[0]}:{found[1].name}" if isinstance(found[1], ast.ClassDef) else None
        return arg.arg, Piece, setting(Piece, seam=annotation.seam, option=chosen)
    value: Any = "???"  # OmegaConf's word for what must be given
    if isinstance(default, ast.Attribute) and default.attr in annotation.options:
        value = annotation.options[default.attr]
    elif default is not None:
        try:
            value = ast.literal_eval(default)
        except ValueError:
            raise UserError(
                f"{kind}: the default of '{arg.arg}' must be a number, a text, a bool or None; got "
                f"{ast.unparse(default)}."
            ) from None
    if value in annotation.options.values():
        value = annotation.type(value)
    return (
        arg.arg,
        annotation.type | None if annotation.optional else annotation.type,
        setting(value, *annotation.bounds, about=annotation.about),
    )


class _Annotation:
    """What the annotation of an argument says."""

    def __init__(self, module: str, arg: ast.arg) -> None:
        self.name = arg.arg
        self.type: Any = None
        self.optional = False
        self.options: dict[str, str] = {}
        """Texts by the names of their members."""
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
                where, found = _find(module, seam)
                if not isinstance(found, ast.ClassDef):
                    return False
                *_, (_, last) = _lineage(where, found.name)
                self.seam = last.name
            case ast.Name(id=name) if name in TYPES:
                self.type = TYPES[name]
            case ast.Name() | ast.Attribute():
                where, found = _find(module, node)
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


def _lineage(module: str, name: str) -> Iterator[tuple[str, ast.ClassDef]]:
    """A class, then its bases up to its seam, each with its module. Raises `UserError` without."""
    where, node = _find(module, ast.Name(id=name))
    if not isinstance(node, ast.ClassDef):
        near = [one.name for one in _source(module).body if isinstance(one, ast.ClassDef)]
        raise UserError(
            f"Module {module} has no class '{name}'. It has {', '.join(near) or 'none'}."
        )
    yield where, node
    if where == SEAMS:
        return
    for base in node.bases:
        above, found = _find(where, base)
        if isinstance(found, ast.ClassDef):
            rest = list(_lineage(above, found.name))
            if rest[-1][0] == SEAMS:
                yield from rest
                return


def _find(module: str, node: ast.expr) -> tuple[str, ast.AST | None]:
    """Where a name of a module was defined, and as what; a module for a module's name."""
    match node:
        case ast.Attribute(value=value, attr=attr):
            where, found = _find(module, value)
            return _find(where, ast.Name(id=attr)) if isinstance(found, ast.Module) else ("", None)
        case ast.Name(id=name):
            for one in _source(module).body:
                match one:
                    case ast.ClassDef(name=defined) if defined == name:
                        return module, one
                    case ast.Assign(targets=[ast.Name(id=defined)]) if defined == name:
                        return module, one.value
                    case ast.Import(names=names) | ast.ImportFrom(names=names):
                        for alias in names:
                            if (alias.asname or alias.name) == name:
                                return _imported(module, one, alias.name)
    return "", None


def _imported(
    module: str, node: ast.Import | ast.ImportFrom, name: str
) -> tuple[str, ast.AST | None]:
    if isinstance(node, ast.Import):
        origin = name
    else:
        package = ".".join(module.split(".")[: -node.level]) if node.level else ""
        origin = ".".join(filter(None, [package, node.module]))
        if origin.split(".")[0] != "torch" and _locate(f"{origin}.{name}") is None:
            return _find(origin, ast.Name(id=name)) if _locate(origin) else ("", None)
        origin = f"{origin}.{name}"
    if origin.split(".")[0] == "torch" or _locate(origin) is None:  # no seam of ours lies there
        return "", None
    return origin, _source(origin)


@cache
def _source(module: str) -> ast.Module:
    """A module's syntax tree. Raises `UserError` where there is none."""
    file = _locate(module)
    if file is None:
        raise UserError(
            f"There is no module '{module}' in {Path.cwd()} or on Python's path. Call attnexp from "
            f"the folder that holds it, or set PYTHONPATH."
        )
    _times_of_change[file] = _time_of_change(file)
    try:
        return ast.parse(file.read_text())
    except (SyntaxError, UnicodeDecodeError) as error:
        raise UserError(f"{file} is no Python: {error}.") from error


_times_of_change: dict[Path, int | None] = {}
"""Time of the last change of each source file when it was read, by path."""


def _time_of_change(file: Path) -> int | None:
    return file.stat().st_mtime_ns if file.exists() else None


def forget_edited() -> None:
    """Have specs read anew if one of their files has changed, as between a notebook's cells."""
    modules.find.cache_clear()
    if any(_time_of_change(file) != time for file, time in _times_of_change.items()):
        _times_of_change.clear()
        _source.cache_clear()
        spec.cache_clear()


def _locate(module: str) -> Path | None:
    """The file of a module, without running its packages."""
    try:
        found = modules.find(module)
    except (ImportError, ValueError):
        return None
    if found is None or found.origin is None or not found.origin.endswith(".py"):
        return None
    return Path(found.origin)


def settings(piece: Piece) -> dict[str, Any]:
    """The settings of a piece's own, without those that all have in its place."""
    frame = _frame(type(piece))
    shared = {f.name for f in fields(frame)}
    return {f.name: getattr(piece, f.name) for f in fields(piece) if f.name not in shared}


def _frame(made: type[Piece]) -> type[Piece]:
    return next(base for base in made.__mro__ if not base.__module__.endswith(".spec"))


def root(kind: str) -> str:
    """The folder on Python's path that holds the module of `module:name`; empty if it has none."""
    module = kind.partition(":")[0]
    if (file := _locate(module)) is None:
        return ""
    depth = module.count(".") + (file.name == "__init__.py")
    return str(file.absolute().parents[depth])


def add_folder_of(kind: str) -> None:
    """Let the user's `module:name` be imported, with what lies beside it, from here on."""
    if not kind.startswith("attnexp."):
        add_to_path(root(kind))


def load(kind: str) -> Any:
    """The class itself, imported at last."""
    module, _, name = kind.partition(":")
    add_folder_of(kind)
    try:
        return getattr(importlib.import_module(module), name)
    except Exception as error:  # whatever anyone's module may do when it is imported
        raise UserError(f"{kind} cannot be imported: {type(error).__name__}: {error}") from error
