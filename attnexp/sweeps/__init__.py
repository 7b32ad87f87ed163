"""Sweeps: many runs, planned, executed and displayed."""

import numpy  # noqa: F401 - before torch, which swallows a Ctrl-C in this import
