"""Names of `base.code` and `identity` under which their callers still import them."""

from attnexp.base.code import changed, expect, files
from attnexp.runs.identity import read_again

__all__ = ["changed", "expect", "files", "read_again"]
