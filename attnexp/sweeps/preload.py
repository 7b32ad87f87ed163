"""What the server of processes has when it is forked: imports and caches that every run needs."""

import gc

import typer  # noqa: F401 - The console script, which each process imports, needs it.

from attnexp.config import options
from attnexp.config.schema import RunConfig
from attnexp.runs import identity

options.names_of_kinds()
identity.identify(RunConfig(), fingerprint="")
gc.freeze()  # A collection in a fork would copy all of this.
