"""The command line, one file a group of commands. The entry point is `attnexp.cli:main`."""

import sys

try:
    from attnexp.cli import train, report, inspect, setup  # noqa: F401, I001  # the order of --help
    from attnexp.cli.app import app, main
except KeyboardInterrupt:
    sys.stderr.write("Interrupted: Nothing was begun.\n")
    raise SystemExit(130) from None

__all__ = ["app", "main"]
