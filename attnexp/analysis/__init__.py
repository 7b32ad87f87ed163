"""The results table of finished runs or of other trainers, and the comparison of its variants."""
