"""Exceptions that are meant for people; the command line prints them without a traceback."""

import importlib
import unicodedata
from collections.abc import Iterable
from typing import Any


class UserError(ValueError):
    """Error in what the user gave, with what to do: exit code 2."""


class Busy(UserError):
    """Another process is doing this run."""


class RunFailed(RuntimeError):
    """A run that was asked for rightly and failed: exit code 1."""


def check_name(name: str, what: str) -> str:
    """Return a name that a user or a file gives. Raises `UserError` if it has a line break or a
    control character, which would break tables. what: subject of the message."""
    if any(unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") for character in name):
        raise UserError(
            f"{what} is named {name!a}, with a line break or control character. Rename it."
        )
    return name


def join_names(names: Iterable[object]) -> str:
    """First five names, of a length that can be read, with what a terminal cannot show escaped."""
    texts = [str(name) for name in names]
    shown = [text if text.isprintable() else ascii(text)[1:-1] for text in texts[:5]]
    listed = ", ".join(text[:99] for text in shown)
    return f"{listed}, ..." if len(texts) > 5 else listed


def require(package: str, what: str, extra: str) -> Any:
    """Import a package that only `what` needs, and that attnexp's `extra` installs. Raises
    `UserError` if that fails."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise UserError(
            f"{what} needs {package}, which cannot be imported ({error}). Install it: "
            f"pip install 'attnexp[{extra}]'."
        ) from error
