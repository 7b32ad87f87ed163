"""The model, piece by piece as in the paper's figure.

K is Su Jianlin's page, kexue.fm/archives/4765; C05 and the like are claims: see `attnexp claims`.
"""

import numpy  # noqa: F401 - before torch, which swallows a Ctrl-C in this import
