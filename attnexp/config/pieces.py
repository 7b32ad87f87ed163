"""Pieces: from a class to a typed spec of its settings, without importing it.

A piece of the model is a class of `attnexp.model.seams`, ours or anyone's. On the way from a word
to a module it is three things:

1. a choice: `position=rotary` names `conf/position/rotary.yaml`, whose `kind` is the class as
   `module:Class`; `position=my_package.my_module:Decay` names a class directly.
2. a spec: `spec` makes a dataclass of the keyword-only arguments of the class's constructor, which
   are the settings of this piece and of no other; `signatures` reads them in the source.
3. a module: `model.classifier.build_model` imports the class at last, and calls it with the
   settings.
"""

import ast
import importlib
import re
import sys
from dataclasses import MISSING, dataclass, field, fields, make_dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from attnexp.base.errors import UserError
from attnexp.config.options import name_of
from attnexp.config.signatures import (
    SEAMS,
    Annotation,
    find,
    has_changed,
    locate,
    source,
    with_bases,
)

CLASS = re.compile(r"[\w.]+:\w+")
"""A choice that is anyone's class: `module:Class`."""


@dataclass(kw_only=True)
class Piece:
    """Class chosen for a seam, with its settings as further fields. Without `kind`, no piece."""

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
        """Name under which it was chosen: `rotary`, or the name of a class."""
        return name_of(self.kind)

    def fills(self, *seams: str) -> bool:
        """Whether the piece is one of these seams, or of these classes of `attnexp.model`."""
        return any(
            module.startswith("attnexp.model.") and name in seams
            for module, _, name in (one.partition(":") for one in self.lineage)
        )

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its values, since other processes have to make its dataclass themselves."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return _restore, (_frame(type(self)), values, root(self.kind) if self.kind else "")

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def _restore(frame: Any, values: dict[str, Any], folder: str) -> Piece:
    add_to_path(folder)
    made: Piece = spec(values["kind"], frame)(**values)
    return made


def add_to_path(folder: str) -> None:
    """Add a folder of modules to Python's path, unless it is empty or there already."""
    if folder and folder not in sys.path:
        sys.path.append(folder)


def setting(default: Any = MISSING, *bounds: str, **more: Any) -> Any:
    """A field of a config, with its bounds as above. more: what else is known of it."""
    metadata = {"bounds": bounds, **more}
    if isinstance(default, type):
        return field(default_factory=default, metadata=metadata)
    return field(default=default, metadata=metadata)


@cache
def spec(kind: str | None, frame: Any = Piece) -> type[Piece]:
    """The dataclass of a class's settings, on top of those that `frame` has for all its pieces.

    kind: `module:Class`. Raises `UserError` where there is no such class, or its constructor cannot
    be read.
    """
    if kind is None:
        return frame  # type: ignore[no-any-return]
    module, _, name = kind.partition(":")
    classes = list(with_bases(module, name))
    constructors = [
        (where, one.args)
        for where, node in classes
        for one in node.body
        if isinstance(one, ast.FunctionDef) and one.name == "__init__"
    ]
    settings: list[tuple[str, Any, Any]] = []
    given = {}
    for owner, parameters in constructors[:1]:
        positional = [*parameters.posonlyargs, *parameters.args][1:]
        given = {arg.arg: Annotation(owner, arg).bounds for arg in positional}
        taken = {f.name for f in fields(frame)} | {*dir(frame)}
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
            "lineage": tuple(f"{where}:{node.name}" for where, node in classes),
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
    """Name and purpose of a seam, as `Rotation (rotates q and k)`."""
    (found,) = (
        node for node in source(SEAMS).body if isinstance(node, ast.ClassDef) and node.name == seam
    )
    about = (ast.get_docstring(found) or "").split(":")[0]
    return f"{seam} ({about[0].lower()}{about[1:]})"


def _setting(kind: str, owner: str, arg: ast.arg, default: ast.expr | None) -> tuple[str, Any, Any]:
    annotation = Annotation(owner, arg)
    if not annotation.is_understood:
        raise UserError(
            f"{kind}: the type of '{arg.arg}' must be int, float, bool, str, a Literal or StrEnum "
            f"of texts, one of these | None, or type[Seam]; got "
            f"{ast.unparse(arg.annotation) if arg.annotation else 'none'}."
        )
    if annotation.seam:
        chosen = None
        if isinstance(default, ast.Name | ast.Attribute):
            found = find(owner, default)
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


def forget_edited() -> None:
    """Make specs anew if one of their files has changed, as between a notebook's cells."""
    if has_changed():
        spec.cache_clear()


MOVED = {"masks": "scores", "softmax": "scores", "block": "attention", "rotary": "positions",
         "biases": "positions", "embedding": "mixers", "pooling": "mixers"}  # fmt: skip
"""Modules of attnexp.model whose classes are in another one now."""


def renamed(stored: Any) -> Any:
    """A stored config with attnexp's own classes where they are now."""
    if isinstance(stored, dict):
        return {key: renamed(value) for key, value in stored.items()}
    if isinstance(stored, str) and (found := re.fullmatch(r"attnexp\.model\.(\w+):(\w+)", stored)):
        return f"attnexp.model.{MOVED.get(found[1], found[1])}:{found[2]}"
    return stored


def settings(piece: Piece) -> dict[str, Any]:
    """Settings of the piece itself, without those that every piece in its place has."""
    frame = _frame(type(piece))
    shared = {f.name for f in fields(frame)}
    return {f.name: getattr(piece, f.name) for f in fields(piece) if f.name not in shared}


def _frame(made: type[Piece]) -> type[Piece]:
    return next(base for base in made.__mro__ if not base.__module__.endswith(".spec"))


def root(kind: str) -> str:
    """Folder on Python's path that holds the module of `module:name`; empty if there is none."""
    module = kind.partition(":")[0]
    if (file := locate(module)) is None:
        return ""
    depth = module.count(".") + (file.name == "__init__.py")
    return str(file.absolute().parents[depth])


def add_folder_of(kind: str) -> None:
    """Add the folder of a user's `module:name` to Python's path."""
    if not kind.startswith("attnexp."):
        add_to_path(root(kind))


def load(kind: str) -> Any:
    """Class or function `module:name`, imported. Raises `UserError` if that fails."""
    module, _, name = kind.partition(":")
    add_folder_of(kind)
    try:
        return getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:  # whatever anyone's module may do when it is imported
        raise UserError(f"{kind} cannot be imported: {type(error).__name__}: {error}") from error
