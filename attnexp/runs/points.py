"""Endpoints, the moments of training at which variants are compared."""

METRICS = ("accuracy", "loss", "brier", "ece", "gap")
"""Metrics at an endpoint. loss is the negative log-likelihood; gap is accuracy on train, measured
after the epoch, minus accuracy: over-fitting in K's sense (C22)."""

POINTS = {
    "blog": {
        "final": "the last epoch, on the test set",
        "best": "one epoch for all seeds of a variant, the best on average on the test set",
    },
    "holdout": {
        "chosen": "the epoch chosen on held-out train data; the test set was touched once",
        "final": "the last epoch, on held-out train data",
    },
}
"""Description of each endpoint, by protocol and name; the one that decides comes first."""
