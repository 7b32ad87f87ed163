"""The model, piece by piece as in the paper's figure.

Numbers such as C05 are claims of the sources, which `attnexp claims` lists and checks.
"""

import numpy  # noqa: F401 - before torch, which swallows a Ctrl-C in this import
