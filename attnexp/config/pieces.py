"""Pieces: the settings of a class (`spec`), and the class of a name, `module:Class` (`load`).

The spec of a class is a dataclass. It has the settings that all pieces of a place share, those of
a `base_spec`, and its own, which are the keyword-only arguments of its constructor:

    rate: Annotated[float, Gt(0), Le(1), Doc("How fast scores fall, per token.")] = 0.5

Types are what pydantic can check and a word can give; `type[Seam]` is a piece within the piece."""

import importlib
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import MISSING, field
from functools import cache
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, get_args, get_origin, get_type_hints

from pydantic import ConfigDict, PydanticUserError
from pydantic.dataclasses import dataclass
from typing_extensions import Doc

from attnexp.base import reads
from attnexp.base.errors import UserError, did_you_mean
from attnexp.config.options import name_of, names_of_kinds
from attnexp.config.settings import Tree

CLASS = re.compile(r"[\w.]+:\w+")  # a choice that is anyone's class: `module:Class`
CHECKED = ConfigDict(
    extra="forbid", allow_inf_nan=False, coerce_numbers_to_str=True, validate_default=True
)
_trusts_all: ContextVar[bool] = ContextVar("trusts_all", default=True)


@dataclass(kw_only=True, config=CHECKED)
class Piece:
    """A chosen class with its settings, which `spec` adds as fields. Without `kind`, no piece."""

    kind: str | None = None
    cls: ClassVar[type] = NoneType  # what `kind` names; NoneType for no piece, or a function
    base_spec: ClassVar[Any] = None  # what `spec` extended; None if that is this very class

    @property
    def name(self) -> str:
        """Name of the class: its plainest option, such as rotary, or its own."""
        return name_of(self.kind)

    def fills(self, *seams: type) -> bool:
        """Whether the class is a subclass of one of these."""
        return issubclass(self.cls, seams)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its values, since other processes have to make its dataclass themselves."""
        return _restore, (self.base_spec or type(self), vars(self))

    if TYPE_CHECKING:  # the settings that `spec` adds

        def __getattr__(self, name: str) -> Any: ...


@cache
def spec(cls: Any, base_spec: Any = Piece) -> Any:
    """`base_spec` with the settings of a class. Raises `UserError` if its constructor is unfit."""
    if cls is NoneType or not inspect.isclass(cls):  # no piece, or a function: it takes none
        return base_spec
    taken = dir(base_spec())  # names of its fields, properties and methods
    annotations: Tree = {}
    new_fields: Tree = {}
    try:
        hints = get_type_hints(cls.__init__, include_extras=True)
        for name, argument in inspect.signature(cls).parameters.items():
            if argument.kind is not argument.KEYWORD_ONLY:
                continue
            if name in taken:
                raise TypeError(f"every choice in its place has a setting '{name}'; rename it")
            annotations[name], new_fields[name] = _type_and_field(argument, hints.get(name, Any))
        body = {"cls": cls, "base_spec": base_spec, "__annotations__": annotations, **new_fields}
        # `make_dataclass` would take the fields out of the body, where pydantic looks for them.
        plain_class = type(cls.__name__, (base_spec,), body)
        return dataclass(plain_class, kw_only=True, config=CHECKED)
    except (NameError, TypeError, ValueError, AttributeError, PydanticUserError) as error:
        message = str(error).splitlines()[0]  # Pydantic's goes on for lines.
        name = f"{cls.__module__}:{cls.__name__}"
        raise UserError(f"{name}: its constructor does not fit: {message}.") from error


def _restore(base_spec: Any, values: Tree) -> Any:
    """A piece made anew: its class is loaded, and its dataclass extends `base_spec` as before."""
    return spec(load(values["kind"]), base_spec)(**values)


def _type_and_field(argument: inspect.Parameter, hint: Any) -> tuple[Any, Any]:
    """Type and field of a setting. One whose type is `type[Seam]` is a piece within the piece."""
    default = MISSING if argument.default is argument.empty else argument.default
    notes = getattr(hint, "__metadata__", ())  # of `Annotated`
    plain_type = get_args(hint)[0] if notes else hint
    meaning = "".join(note.documentation for note in notes if isinstance(note, Doc))
    # The type may also be `type[Seam] | None`.
    types_of_seams = [t for t in (plain_type, *get_args(plain_type)) if get_origin(t) is type]
    if not types_of_seams:
        return hint, field(default=default, metadata={"meaning": meaning})
    if default is MISSING:
        raise TypeError(f"'{argument.name}', a piece within it, needs a default: a class, or None")
    (seam,) = get_args(types_of_seams[0])
    default_kind = f"{default.__module__}:{default.__name__}" if default else None
    return Piece, inner_piece(default_kind, meaning, lambda: seam)


class InnerPlace(NamedTuple):
    """A place for a piece within a piece. `schema` has some, and is imported without torch."""

    seam: Callable[[], type]  # gives the base class, which imports torch
    default_kind: str | None  # `module:Class`, or None where there may be no piece


def inner_piece(default_kind: str | None, meaning: str, seam: Callable[[], type]) -> Any:
    """A field for a piece within a piece; its metadata has the `InnerPlace` as `place`."""
    metadata = {"meaning": meaning, "place": InnerPlace(seam, default_kind)}
    return field(default_factory=Piece, metadata=metadata)


@contextmanager
def trusting(*, all_code: bool) -> Iterator[None]:
    """Let `load` import all code within, or only what `is_ours`, however a config names it."""
    token = _trusts_all.set(all_code)
    try:
        yield
    finally:
        _trusts_all.reset(token)


def is_ours(kind: str) -> bool:
    """Whether a name stands for a piece of attnexp: a class of its model, or of its options."""
    return kind.startswith("attnexp.model.") or kind in names_of_kinds()


def load(kind: str | None) -> Any:
    """Class or function `module:name`, if it is trusted; NoneType for None. Raises `UserError`."""
    if kind is None:
        return NoneType
    kind = str(kind)  # `kind: 1` is YAML.
    if not (_trusts_all.get() or is_ours(kind)):
        raise UserError(
            f"This run is not of attnexp's code alone: loading it would run {kind}. If you trust "
            f"this code, add --trust-code. Tables and verdicts need no model."
        )
    if not CLASS.fullmatch(kind):
        raise UserError(f"{kind}: wanted module:Class or module:function.")
    return _import_attribute(kind)


@cache
def _import_attribute(kind: str) -> Any:
    """What `module:name` names, imported once; a user's module from the current folder, too."""
    module_name, _, name = kind.partition(":")
    is_users = module_name.partition(".")[0] not in ("attnexp", "torch")
    importlib.invalidate_caches()  # The file may just have been written.
    try:
        if is_users and os.getcwd() not in sys.path:
            # Last, and after attnexp's own folder: the current one may hold an attnexp, too.
            sys.path += [str(Path(__file__).parents[2]), os.getcwd()]
        with reads.importing(module_name) if is_users else nullcontext():
            module = importlib.import_module(module_name)
    except (Exception, SystemExit) as error:  # A user's module may raise anything.
        raise UserError(
            f"{kind} cannot be imported: {type(error).__name__}: {error}. Call attnexp from the "
            f"folder that holds the module, or set PYTHONPATH."
        ) from error
    loaded = getattr(module, name, None)
    if loaded is None:
        file = getattr(module, "__file__", "built in")  # Python's own may hide the user's.
        raise UserError(f"{module_name} ({file}) has no {name}.{did_you_mean(name, vars(module))}")
    if "__main__" in (module_name, getattr(loaded, "__module__", "")):  # of a script or notebook
        raise UserError(f"{kind} is in no module. Put it into a file, such as mine.py: mine:{name}")
    if not callable(loaded):
        raise UserError(f"{kind} is {loaded!r}, which is neither a class nor a function.")
    return loaded
