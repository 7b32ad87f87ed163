"""What the server of processes has when it is forked: imports and caches that every run needs."""

import gc

import typer  # noqa: F401 - The console script, which each process imports, needs it.

from attnexp.config import options
from attnexp.config.compose import compose
from attnexp.config.schema import to_dict
from attnexp.runs import identity, labels

options.names_of_kinds()
config = compose([])  # Hydra looks for plugins once: here, before user code extends `sys.path`.
labels.departures(to_dict(config))
identity.identify(config, fingerprint="")
gc.freeze()  # A collection in a fork would copy all of this.
