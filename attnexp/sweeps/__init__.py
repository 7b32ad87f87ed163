"""Sweeps: many runs, planned, executed and displayed."""

import numpy  # noqa: F401 - before torch, whose own import of it swallows a Ctrl-C
