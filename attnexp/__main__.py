"""`python -m attnexp` is `attnexp`."""

from attnexp.cli import main

main()
