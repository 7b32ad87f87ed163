"""Constants of every comparison: error rate, margin, seeds, parameter of the anytime interval.

This file imports nothing, so that the command line can show them without loading numpy."""

ALPHA = 0.05  # share of studies in which some interval misses its true difference
MARGIN = 0.0025  # smallest difference of accuracy that matters: a quarter of a percentage point
FEWEST_SEEDS = 3  # for a verdict, and for the prediction interval of one more seed
G = 0.25  # parameter of the anytime-valid interval, the same for all studies
