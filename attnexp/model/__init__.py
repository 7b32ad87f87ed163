"""The model, piece by piece as in the paper's figure."""
