"""What the sources say, as checks that anyone can run: `attnexp claims`.

The docstring of a check is the result that would refute its claim, and is printed as such.
"""

import numpy  # noqa: F401 - before torch, which swallows a Ctrl-C in this import
