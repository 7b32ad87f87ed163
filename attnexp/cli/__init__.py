"""The command line, one file a command or a few small ones. The entry point is `cli:main`."""

from attnexp.cli import train, sweep, report, inspect, setup  # noqa: F401, I001  # the order of --help
from attnexp.cli.app import app, main

__all__ = ["app", "main"]
