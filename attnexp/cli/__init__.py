"""The command line. The entry point is `attnexp.cli:main`."""

# Each module adds its commands to the application, in the order of --help.
from attnexp.cli import train, sweep  # noqa: F401, I001
from attnexp.cli import report, judge, runs  # noqa: F401
from attnexp.cli import evaluate, probe, predict  # noqa: F401
from attnexp.cli import config, data, claims  # noqa: F401
from attnexp.cli.app import app, main

__all__ = ["app", "main"]
