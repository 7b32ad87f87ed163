"""Where code lies, found as an import would, without running it or the packages around it."""

import functools
import importlib.util
from importlib.machinery import ModuleSpec, PathFinder


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
