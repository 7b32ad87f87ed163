"""Small experiments, trained on the spot: tagging and the shown train accuracy."""

import math
from contextlib import redirect_stderr
from io import StringIO
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike
from torch import Tensor

from attnexp.claims.finding import Finding, claim, join_verdicts, judge_above
from attnexp.config.compose import compose
from attnexp.model.seams import Pooling
from attnexp.network.build import build_model
from attnexp.statistics.intervals import t_interval
from attnexp.training.optimizer import make_optimizer
from attnexp.training.run import train_run

SEEDS = range(6)
BUDGETS = (75, 150, 300)  # numbers of batches after which taggers are compared
TAGGERS = {
    "none": "position=none model.heads=4",
    "PE": "position=sinusoidal model.heads=4",
    "CNN": "model=cnn",
}
CLOSE = 0.02  # accuracies so near count as equal; 11,500 tags have standard errors of 0.005
NUM_TOKENS = 24
NUM_TEST_TEXTS = 500
# Best accuracy of a tagger that sees which tokens a text has, but not where: of the other 23 tokens
# it can but give the more frequent parity, which 1/2 + C(22, 11) / 2^23 of them have on average.
BLIND = 0.5 + math.comb(22, 11) / 2**23


@claim("C25", "K", "Attention is poor at sequence labelling; PE only eases it")
def attention_is_poor_at_tagging() -> Finding:
    """Nothing here: a toy, tags of neighbours, does not test what K says of real tasks."""
    texts = []
    for name, words in TAGGERS.items():
        rows = [train_tagger(words, seed) for seed in SEEDS]
        means = 100 * np.mean(rows, axis=0)  # by budget
        by_budget = ", ".join(f"{mean:.1f}" for mean in means)
        texts.append(f"{name} {by_budget}")
    measured = (
        f"a toy: {'; '.join(texts)} % after 75, 150, 300 batches; "
        f"blind to positions {100 * BLIND:.1f} at best"
    )
    return Finding("not tested", measured, len(SEEDS))


def train_tagger(words: str, seed: int) -> list[float]:
    """Accuracy of a tagger after each budget of batches, trained with K's optimizer."""
    words += f" data.vocab_size=20 data.max_len={NUM_TOKENS} model.d_model=64 model.dropout=0"
    words += f" seed={seed}"
    config = compose(words.split())
    tagger: Any = build_model(config)
    tagger.pool = EveryToken(tagger.output.in_features)
    optimizer = make_optimizer(tagger, config.train)
    num_texts = NUM_TEST_TEXTS + 32 * BUDGETS[-1]
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(20, (num_texts, NUM_TOKENS), generator=generator)
    test_ids = ids[:NUM_TEST_TEXTS]
    train_ids = ids[NUM_TEST_TEXTS:]
    test_tags = tag_tokens(test_ids)
    accuracies = []
    for step, batch in enumerate(train_ids.split(32), start=1):
        optimizer.zero_grad()
        logits = tagger(batch)[:, 1:]
        loss = F.binary_cross_entropy_with_logits(logits, tag_tokens(batch))
        loss.backward()
        optimizer.step()
        if step in BUDGETS:
            answers = tagger(test_ids)[:, 1:] > 0
            is_right = answers == test_tags
            accuracies.append(is_right.double().mean().item())
    return accuracies


def tag_tokens(ids: Tensor) -> Tensor:
    """Tags of all tokens but the first: (n, T) -> (n, T - 1), 1 where the id before is odd."""
    ids_before = ids[:, :-1]
    return (ids_before % 2).float()


class EveryToken(Pooling):
    """No pooling, so that a classifier gives a logit for each token."""

    def forward(self, x: Tensor, key_padding_mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, D)."""
        return x


@claim("C29", "K", "Shown train accuracy is a running mean, at first too low")
def running_accuracy_is_too_low_at_first() -> Finding:
    """In epoch 2, in which this model learns, without dropout: a running accuracy on train that is
    not below validation's, or one measured after the epoch that is 0.02 below it."""
    words = """data=contrast position=sinusoidal model.dropout=0 train.device=cpu train.epochs=2
        train.measure_train=true data.limit_train=2000"""
    running = []
    after: list[Any] = []
    validation = []
    with TemporaryDirectory() as out, redirect_stderr(StringIO()):
        for seed in SEEDS:
            overrides = f"{words} out={out} seed={seed}".split()
            _, result = train_run(compose(overrides))
            epoch = result.epochs[1]
            running.append(epoch.train_accuracy)
            after.append(epoch.train_accuracy_after)
            validation.append(epoch.val_accuracy)
    verdicts = [
        judge_mean(np.subtract(validation, running)),
        judge_mean(np.subtract(after, validation), -CLOSE),
    ]
    texts = []
    accuracies = {"running": running, "after": after, "validation": validation}
    for name, shares in accuracies.items():
        percents = 100 * np.array(shares)
        mean = percents.mean()
        sd = percents.std(ddof=1)
        texts.append(f"{name} {mean:.1f} ± {sd:.1f}")
    verdict = join_verdicts(verdicts)
    listed = ", ".join(texts)
    return Finding(verdict, f"{listed} %", len(SEEDS))


def judge_mean(values: ArrayLike, bound: float = 0.0) -> str:
    """Whether the 95 % interval of the mean lies above a bound, below, or around it."""
    return judge_above(t_interval(values), bound)
