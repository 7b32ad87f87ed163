"""One run: the loop and what surrounds it."""
