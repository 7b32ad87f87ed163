"""The command line, one file a group of commands. The entry point is `attnexp.cli:main`."""

# in the order of --help
from attnexp.cli import train, report, judge, runs, inspect, setup  # noqa: F401, I001
from attnexp.cli.app import app, main

__all__ = ["app", "main"]
