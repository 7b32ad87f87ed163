"""Modules by name: their files, found without running them, and packages that an extra installs."""

import functools
import importlib
import os
import sys
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any

from attnexp.base.errors import UserError


@functools.cache
def find(name: str) -> ModuleSpec | None:
    """Spec of a module as it is on disk now, whatever this process has imported; None for none.

    The current folder is searched last, also if it is not on Python's path. Nothing is imported,
    not even the packages above the module. The spec of a namespace package has neither `loader`
    nor `origin`.
    """
    parent, _, last = name.rpartition(".")
    if parent:
        above = find(parent)
        if above is None or above.submodule_search_locations is None:
            return None
        # By its last name: under the whole one a namespace package needs its parent imported.
        spec = PathFinder.find_spec(last, above.submodule_search_locations)
    else:
        found = (finder.find_spec(name, None) for finder in sys.meta_path)
        spec = next(filter(None, found), None) or PathFinder.find_spec(name, [os.getcwd()])
    if spec is not None and spec.submodule_search_locations is not None:
        spec.submodule_search_locations = list(spec.submodule_search_locations)
    return spec


def require(package: str, what: str, extra: str) -> Any:
    """Import a package that only `what` needs. Raises `UserError` if that fails.

    extra: name of the extra of attnexp that installs it.
    """
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise UserError(
            f"{what} needs {package}, which cannot be imported ({error}). Install it: "
            f"pip install 'attnexp[{extra}]'."
        ) from error
