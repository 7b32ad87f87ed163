"""Errors meant for people, printed without a traceback, and texts of others made fit for them."""

import difflib
import importlib
import re
from collections.abc import Collection, Iterable
from typing import Any

CONTROLS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a terminal would obey, but for a line break: control characters, separators of lines,
changes of the direction of writing, halves of characters."""


class UserError(ValueError):
    """Error in what the user gave, with what to do: exit code 2."""


class RunFailed(RuntimeError):
    """A run that was asked for rightly and failed: exit code 1."""


class Busy(RunFailed):
    """Another process is doing this run."""


def escape_controls(text: str) -> str:
    r"""The text with everything that a terminal would obey as an escape, such as `\x1b`."""
    return CONTROLS.sub(lambda control: ascii(control[0]).strip("'"), text)


def escape_name(name: object) -> str:
    """A name on one line: as `escape_controls` gives it, with a line break escaped, too."""
    return escape_controls(str(name)).replace("\n", "\\n")


def join_names(names: Iterable[object]) -> str:
    """The first five names, each cut after 99 characters."""
    listed = [escape_name(name)[:99] for name in names]
    if len(listed) > 5:
        listed = [*listed[:5], "..."]
    return ", ".join(listed)


def on_one_line(message: object) -> str:
    """The message of another program, such as an error, without its line breaks."""
    return " ".join(str(message).split())


def did_you_mean(name: str, names: Collection[str], prefix: str = "") -> str:
    """` Did you mean 'PREFIXx'?`: up to two names that end in `.NAME`, else the nearest, if any."""
    ending_in_it = [key for key in names if key.endswith(f".{name}")]
    near = ending_in_it or difflib.get_close_matches(name, names, n=1)
    if not near:
        return ""
    in_quotes = " or ".join(repr(f"{prefix}{key}") for key in near[:2])
    return f" Did you mean {in_quotes}?"


def require(package: str, what: str, extra: str) -> Any:
    """Import a package that only `what` needs and `extra` installs. Raises `UserError`."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise UserError(
            f"{what} needs {package}, which cannot be imported ({error}). Install it: "
            f"pip install 'attnexp[{extra}]'."
        ) from error
