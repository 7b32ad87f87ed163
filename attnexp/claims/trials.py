"""Claims about training: one that is trained on the spot, and one that attnexp cannot test."""

from contextlib import redirect_stderr
from io import StringIO
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from attnexp.claims.finding import Finding, claim, join_verdicts, judge_above
from attnexp.config.compose import compose
from attnexp.statistics.intervals import t_interval
from attnexp.training.run import train_run

SEEDS = range(6)
EQUAL_WITHIN = 0.02  # Accuracies that differ by less count as equal.


@claim("C25", "K", "Attention is poor at sequence labelling; PE only eases it")
def attention_is_poor_at_sequence_labelling() -> Finding:
    """Attention that labels tokens of real texts as well as a CNN does."""
    return Finding("not tested", "attnexp classifies texts and labels no tokens")


@claim("C29", "K", "Shown train accuracy is a running mean, at first too low")
def running_accuracy_is_too_low_at_first() -> Finding:
    """In epoch 2, in which this model learns, without dropout: a running accuracy on train that is
    not below validation's, or one measured after the epoch that is 0.02 below it."""
    words = """data=contrast position=sinusoidal model.dropout=0 train.device=cpu train.epochs=2
        train.measure_train=true data.limit_train=2000"""
    rows: list[Any] = []
    with TemporaryDirectory() as out, redirect_stderr(StringIO()):
        for seed in SEEDS:
            overrides = f"{words} out={out} seed={seed}".split()
            _, result = train_run(compose(overrides))
            epoch = result.epochs[1]
            rows.append((epoch.train_accuracy, epoch.train_accuracy_after, epoch.val_accuracy))
    running, after, validation = np.transpose(rows)
    rises = t_interval(validation - running)
    distances = t_interval(after - validation)
    verdict = join_verdicts([judge_above(rises), judge_above(distances, -EQUAL_WITHIN)])
    shown = []
    names = ("running", "after", "validation")
    for name, percents in zip(names, 100 * np.transpose(rows), strict=True):
        shown.append(f"{name} {percents.mean():.1f} ± {percents.std(ddof=1):.1f}")
    return Finding(verdict, f"{', '.join(shown)} %", len(SEEDS))
