"""Numbers in, numbers out: intervals of paired differences, and the verdict that follows."""
