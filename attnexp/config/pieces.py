"""Pieces: from a class to a typed spec of its settings.

A piece of the model is a subclass of one of `attnexp.model.seams`, ours or anyone's. The
keyword-only arguments of its constructor are its settings, and those of no other piece:

    rate: Annotated[float, Gt(0), Le(1), Doc("How fast scores fall, per token.")] = 0.5

Types are those that pydantic can check and a word can give, and `type[Seam]` for a piece within
the piece. The model lies above this room, so its classes are reached by name, like anyone's.
"""

import ast
import hashlib
import importlib
import inspect
import os
import re
import sys
from collections.abc import Iterable
from dataclasses import MISSING, field, fields
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, PydanticUserError
from pydantic.dataclasses import dataclass
from typing_extensions import Doc

from attnexp.base.errors import UserError
from attnexp.config.options import name_of

CLASS = re.compile(r"[\w.]+:\w+")
"""A choice that is anyone's class: `module:Class`."""

CHECKED = ConfigDict(
    extra="forbid", allow_inf_nan=False, coerce_numbers_to_str=True, validate_default=True
)
"""How pydantic checks the values of a config."""

_imported: dict[str, dict[str, str]] = {}  # digests of the user's code as it was imported


@dataclass(kw_only=True, config=CHECKED)
class Piece:
    """Class chosen for a seam, with its settings as further fields. Without `kind`, no piece."""

    kind: str | None = None

    lineage: ClassVar[tuple[str, ...]] = ()  # names of the class and its bases in attnexp.model
    frame: ClassVar[Any] = None  # class of the settings that every piece in its place has

    @property
    def name(self) -> str:
        """Name under which it was chosen: `rotary`, or the name of a class."""
        return name_of(self.kind)

    def fills(self, *names: str) -> bool:
        """Whether the piece is one of these seams, or of these classes of `attnexp.model`."""
        return any(name in self.lineage for name in names)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its values, since other processes have to make its dataclass themselves."""
        values = {f.name: getattr(self, f.name) for f in fields(self)}
        return _restore, (self.frame or type(self), values)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def _restore(frame: Any, values: dict[str, Any]) -> Any:
    return spec(values["kind"], frame)(**values)


def setting(default: Any = MISSING, about: str = "", when: Any = None, **more: Any) -> Any:
    """A field of a config, with its meaning and the condition under which it acts."""
    how = "default_factory" if isinstance(default, type) else "default"
    return field(**{how: default}, metadata={"about": about, "when": when, **more})


@cache
def spec(kind: str | None, frame: Any = Piece) -> Any:
    """The dataclass of a class's settings, on top of those that `frame` has for all its pieces.

    Raises `UserError` where there is no such class, or its constructor cannot be read.
    """
    if kind is None:
        return frame
    made_of = load(kind)
    try:
        hints = get_type_hints(made_of.__init__, include_extras=True)
        given = inspect.signature(made_of).parameters.values()
        own = [one for one in given if one.kind is one.KEYWORD_ONLY]
        for name in {one.name for one in own} & {*dir(frame), *(f.name for f in fields(frame))}:
            raise TypeError(f"every choice in its place has a setting '{name}'; rename it")
        settings = {one.name: _setting(one, hints.get(one.name, Any)) for one in own}
        body = {name: f for name, (_, f) in settings.items()}
        body |= {"lineage": lineage(kind), "frame": frame, "__module__": __name__}
        body["__annotations__"] = {name: hint for name, (hint, _) in settings.items()}
        return dataclass(type(made_of.__name__, (frame,), body), kw_only=True, config=CHECKED)
    except (NameError, TypeError, ValueError, AttributeError, PydanticUserError) as error:
        said = str(error).splitlines()[0]  # of pydantic's, where no word can give the type
        raise UserError(f"{kind}: its constructor cannot be read: {said}.") from error


def _setting(given: inspect.Parameter, hint: Any) -> tuple[Any, Any]:
    """Type and field of an argument."""
    default = MISSING if given.default is given.empty else given.default
    plain, *more = get_args(hint) if get_origin(hint) is Annotated else [hint]
    about = "".join(one.documentation for one in more if isinstance(one, Doc))
    if get_origin(plain) is not type:
        return hint, setting(default, about)
    chosen = f"{default.__module__}:{default.__name__}" if isinstance(default, type) else None
    return Piece, setting(Piece, about, seam=get_args(plain)[0].__name__, option=chosen)


def lineage(kind: str) -> tuple[str, ...]:
    """Names of a class and its bases in attnexp.model, its seam among them. Raises like `load`."""
    classes = getattr(load(kind), "__mro__", ())
    return tuple(c.__name__ for c in classes if c.__module__.startswith("attnexp.model."))


def load(kind: str) -> Any:
    """Class or function `module:name`, imported; the user's from the current folder, too.

    Raises `UserError` if that fails, and where the user's code was edited after its import.
    """
    module, _, name = kind.partition(":")
    is_ours = module.startswith("attnexp.")
    if not is_ours and os.getcwd() not in sys.path:
        sys.path += [str(Path(__file__).parents[2]), os.getcwd()]  # it may hold an attnexp, too
    if module not in sys.modules:
        importlib.invalidate_caches()  # the file may just have been written
    try:
        found = getattr(importlib.import_module(module), name)
        now = {} if is_ours else _code_on_disk(module)
    except (Exception, SystemExit) as error:  # whatever anyone's module may do when it is imported
        raise UserError(
            f"{kind} cannot be imported: {type(error).__name__}: {error}. Call attnexp from the "
            f"folder that holds the module, or set PYTHONPATH."
        ) from error
    if _imported.setdefault(kind, now) != now:
        raise UserError(
            f"The code of {kind} changed since it was imported, and this process still runs the "
            f"old one. Restart the kernel, or give the command again."
        )
    return found


def code_of(kind: str) -> dict[str, str]:
    """Digests of the file, or of all files of the package, of a user's `module:name`, by name."""
    load(kind)
    return _imported[kind]


def _code_on_disk(name: str) -> dict[str, str]:
    file = Path(getattr(sys.modules[name], "__file__", None) or "")
    if file.suffix != ".py":  # compiled, or built into Python
        return {}
    root = file.parents[name.count(".") + (file.name == "__init__.py")]
    package = root / name.partition(".")[0]
    is_large = "site-packages" in file.parts  # an installed package counts by its module alone
    return syntax(root, package.rglob("*.py") if package.is_dir() and not is_large else [file])


def syntax(root: Path, files: Iterable[Path]) -> dict[str, str]:
    """Sixteen hex digits for each file, by its name from `root`, which change with its code and
    docstrings, not with comments and layout."""
    return {
        path.relative_to(root).as_posix(): _digest(path, path.stat().st_mtime_ns)
        for path in sorted(files)
    }


@cache
def _digest(path: Path, _changed: int) -> str:
    return hashlib.sha256(ast.dump(ast.parse(path.read_bytes())).encode()).hexdigest()[:16]
