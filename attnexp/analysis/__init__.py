"""Results as data frames, from wherever they lie, and the contrasts between their variants."""
