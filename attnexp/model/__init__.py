"""The model, piece by piece as in the paper's figure."""

import numpy  # noqa: F401 - before torch, which swallows a Ctrl-C in this import
