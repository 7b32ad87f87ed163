"""Modules by name: where they lie, found without running them, and those that an extra installs."""

import functools
import importlib
import importlib.util
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from attnexp.base.errors import UserError


@functools.cache
def find(name: str) -> ModuleSpec | None:
    """The spec of a module; None where there is none."""
    parent = name.rpartition(".")[0]
    if not parent:
        return importlib.util.find_spec(name)
    above = find(parent)
    if above is None or above.submodule_search_locations is None:
        return None
    return PathFinder.find_spec(name, list(above.submodule_search_locations))


def require(package: str, what: str, extra: str) -> Any:
    """A package that only `what` needs, imported. Raises `UserError` where it is not installed.

    extra: of attnexp, which installs it.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise UserError(
            f"{what} needs {package}, which is not installed. Install it: "
            f"pip install 'attnexp[{extra}]'."
        ) from error
