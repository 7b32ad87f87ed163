"""What the sources say, as checks that anyone can run: `attnexp claims`."""

import numpy  # noqa: F401 - before torch, which swallows a Ctrl-C in this import
