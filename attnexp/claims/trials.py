"""Small experiments, trained on the spot: tagging (C25) and the shown train accuracy (C29)."""

import math
from contextlib import redirect_stderr
from io import StringIO
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F

from attnexp.claims.exact import Finding, beyond, joint
from attnexp.config.compose import compose
from attnexp.network.build import build_model
from attnexp.statistics.intervals import t_interval
from attnexp.training.optimizer import make_optimizer
from attnexp.training.run import train_run

SEEDS, BUDGETS = range(6), (75, 150, 300)
"""Seeds of both experiments; numbers of batches after which taggers are compared."""

TAGGERS = ("position=none model.heads=4", "position=sinusoidal model.heads=4", "model=cnn")

CLOSE = 0.02
"""Largest difference of accuracy that counts as none; 11,500 tags have standard errors of 0.005."""


def c25() -> Finding:
    """A token's tag is 1 where the id of the token before it is odd; the first of 24 has none.

    At every budget attention must be within 0.02 of what a model blind to positions can know (the
    more frequent parity of the other 23), PE above attention by more, the convolution above PE.
    """
    found = np.array([[tagging(words, seed) for seed in SEEDS] for words in TAGGERS])
    blind = sum(math.comb(23, k) * max(k, 23 - k) for k in range(24)) / (23 * 2**23)
    parts = list[str]()
    for none, pe, cnn in found.transpose(2, 0, 1):
        said = [above(blind - none, -CLOSE), above(pe - none, CLOSE), above(cnn - pe, CLOSE)]
        parts += said if cnn.min() >= 0.95 else ["undecided"]
    means = [", ".join(f"{100 * mean:.1f}" for mean in one) for one in found.mean(axis=1)]
    shown = f"none {means[0]}; PE {means[1]}; CNN {means[2]} % after 75, 150, 300 batches"
    return Finding(joint(parts), f"{shown}; blind to positions {100 * blind:.1f} at best", 6)


def tagging(words: str, seed: int) -> list[float]:
    """Accuracy of a tagger after each budget of batches of 32, by K's optimizer; tokens of 20."""
    words += f" data.vocab_size=20 data.max_len=24 model.d_model=64 model.dropout=0 seed={seed}"
    config, stream = compose(words.split()), torch.Generator().manual_seed(seed)
    tagger: Any = build_model(config)
    tagger.pool.forward = lambda x, _: x  # a logit for each token
    ids = torch.randint(20, (500 + 32 * BUDGETS[-1], 24), generator=stream)
    tags, fresh = (ids[:, :-1] % 2).float(), slice(500)
    optimizer, accuracies = make_optimizer(tagger, config.train), list[float]()
    for step, rows in enumerate(torch.arange(500, len(ids)).split(32), start=1):
        optimizer.zero_grad()
        F.binary_cross_entropy_with_logits(tagger(ids[rows])[:, 1:], tags[rows]).backward()
        optimizer.step()
        if step in BUDGETS:
            right = (tagger(ids[fresh])[:, 1:] > 0) == (tags[fresh] > 0)
            accuracies.append(right.double().mean().item())
    return accuracies


def c29() -> Finding:
    """In epoch 2, in which this model learns: the running accuracy on train is below validation's,
    and that measured after the epoch at most 0.02 below it. No dropout could be the reason."""
    words = """data=contrast position=sinusoidal model.dropout=0 train.device=cpu train.epochs=2
        train.measure_train=true data.limit_train=2000"""
    with TemporaryDirectory() as out, redirect_stderr(StringIO()):
        runs = [train_run(compose(f"{words} out={out} seed={s}".split()))[1] for s in SEEDS]
    rows = [run.epochs[1] for run in runs]
    found = np.array([(r.train_accuracy, r.train_accuracy_after, r.val_accuracy) for r in rows]).T
    running, after, validation = found
    parts = [above(validation - running), above(after - validation, -CLOSE)]
    shown = (f"{100 * one.mean():.1f} ± {100 * one.std(ddof=1):.1f}" for one in found)
    return Finding(joint(parts), "running {}, after {}, validation {} %".format(*shown), len(runs))


def above(values: Any, bound: float = 0.0) -> str:
    """Whether the 95 % interval of the mean lies above a bound, below, or around it."""
    interval = t_interval(values)
    return beyond(interval.low, interval.high, bound)
