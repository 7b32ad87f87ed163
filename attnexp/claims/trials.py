"""Small experiments on generated data: tagging (C25) and the displayed training accuracy (C29).

Shapes: B batch, T tokens, D width.
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnexp.claims.claim import Conclusion, Finding, claim, concluded
from attnexp.claims.evidence import above
from attnexp.config.compose import compose
from attnexp.config.schema import TrainConfig
from attnexp.data import encode
from attnexp.model.attention import Block, MultiHeadSelfAttention
from attnexp.model.classifier import build_model
from attnexp.model.init import Stream, init_layers, init_table, init_weights, named_seed
from attnexp.model.mixers import LSTM, Convolution
from attnexp.model.positions import SinusoidalPosition
from attnexp.runs.result import EpochRow
from attnexp.statistics.paired import paired
from attnexp.training.evaluate import examples_of
from attnexp.training.loop import start
from attnexp.training.optimizer import make_optimizer
from attnexp.training.run import fit

SEEDS = range(6)

NUM_TOKENS, NUM_WORDS, WIDTH = 24, 20, 64
BATCH_SIZE, NUM_FRESH = 32, 500

BUDGETS = (75, 150, 300)
"""C25: numbers of batches after which taggers are compared."""

MARGIN = 0.02
"""C25: largest difference of accuracy that counts as none. An accuracy on fresh sequences (11,500
tags) has a standard error of at most 0.005."""
LEARNED = 0.95
"""C25: accuracy that the convolution, which sees the neighbour, must reach for any conclusion."""


class Tagger(nn.Module):
    """ids -> a logit for each token: embedding, position where given, mixer, linear."""

    def __init__(self, mixer: nn.Module, *, position: nn.Module | None = None) -> None:
        super().__init__()
        self.embedding = nn.Embedding(NUM_WORDS, WIDTH)
        self.position = position
        self.mixer = mixer
        self.output = nn.Linear(WIDTH, 1)

    def init_parameters(self, stream: Stream) -> None:
        """As in `Classifier`."""
        init_table(self.embedding.weight, stream("embedding.weight"))
        init_layers(self, stream, "output")

    def forward(self, ids: Tensor) -> Tensor:
        """(B, T) -> (B, T)."""
        x = self.embedding(ids)
        if self.position is not None:
            x = self.position(x)
        logits: Tensor = self.output(self.mixer(x, torch.zeros_like(ids, dtype=torch.bool)))
        return logits.squeeze(-1)


def _attention() -> Block:
    """Attention layer of source K, without residual, normalisation or feed-forward."""
    return Block(MultiHeadSelfAttention(WIDTH, num_heads=4, d_head=WIDTH // 4), d_input=WIDTH)


TAGGERS: dict[str, Callable[[], Tagger]] = {
    "none": lambda: Tagger(_attention()),
    "PE": lambda: Tagger(_attention(), position=SinusoidalPosition(NUM_TOKENS, WIDTH)),
    "CNN": lambda: Tagger(Convolution(WIDTH, WIDTH, kernel=3)),
    "LSTM": lambda: Tagger(LSTM(WIDTH, WIDTH)),
}


@claim("C25", "K")
def c25() -> Finding:
    """Pure attention is poor at sequence labelling; PE only mitigates it.

    The task: 24 tokens, each drawn uniformly from 20; the tag of a token is 1 where the id of the
    token before it is odd, else 0. The first token has no tag. Every tagger gets the same batches
    of 32 new sequences and K's optimizer; accuracy is that on 500 fresh sequences, after 75, 150
    and 300 batches.

    Supported if, at every budget, by the 95 % intervals over six seeds, attention without position
    stays within 0.02 of what a position-blind model can know (`position_blind_ceiling`), attention
    with PE is above it by more than 0.02, and the convolution above that by more than 0.02. Not
    supported if an interval contradicts one of the three at some budget. Inconclusive otherwise,
    and when the convolution gets less than 0.95 in any seed. The LSTM is shown beside them.
    """
    runs = {name: [tagging(name, seed) for seed in SEEDS] for name in TAGGERS}
    return judge_tagging(
        {
            budget: {name: [accuracies[i] for accuracies in each] for name, each in runs.items()}
            for i, budget in enumerate(BUDGETS)
        }
    )


def tagging(name: str, seed: int, *, budgets: Sequence[int] = BUDGETS) -> list[float]:
    """The accuracy of one tagger after each of these numbers of batches, ascending (C25)."""
    with torch.random.fork_rng(devices=[]):
        tagger = TAGGERS[name]()
    init_weights(tagger, seed)
    optimizer = make_optimizer(tagger, TrainConfig())
    generator = torch.Generator().manual_seed(named_seed(seed, "tagging/train"))
    accuracies = []
    for step in range(1, budgets[-1] + 1):
        ids, tags = sequences(BATCH_SIZE, generator)
        loss = F.binary_cross_entropy_with_logits(tagger(ids)[:, 1:], tags)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step in budgets:
            accuracies.append(_fresh_accuracy(tagger, seed))
    return accuracies


def _fresh_accuracy(tagger: Tagger, seed: int) -> float:
    generator = torch.Generator().manual_seed(named_seed(seed, "tagging/fresh"))
    ids, tags = sequences(NUM_FRESH, generator)
    with torch.inference_mode():
        right = (tagger(ids)[:, 1:] > 0) == (tags > 0)
    return float(right.double().mean())


def sequences(number: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Random ids (number, T), and the tags of all tokens but the first (number, T - 1)."""
    ids = torch.randint(NUM_WORDS, (number, NUM_TOKENS), generator=generator)
    return ids, (ids[:, :-1] % 2).float()


def position_blind_ceiling(num_tokens: int = NUM_TOKENS) -> float:
    """The best accuracy possible on the tags without knowledge of positions.

    Such a model knows a token and the bag of the others, each equally likely to stand before.
    It can only guess the more frequent parity: max(k, n - k) / n correct if k of n others are odd.
    """
    n = num_tokens - 1
    return sum(math.comb(n, k) * max(k, n - k) for k in range(n + 1)) / (n * 2.0**n)


def judge_tagging(budgets: Mapping[int, Mapping[str, Sequence[float]]]) -> Finding:
    """The conclusion on C25 from the accuracies of each tagger, by budget, seed by seed."""
    ceiling = position_blind_ceiling()
    conclusions, shown = [], []
    for budget, accuracies in budgets.items():
        none, pe, cnn = accuracies["none"], accuracies["PE"], accuracies["CNN"]
        conclusion = concluded(
            [
                _above([ceiling] * len(none), none, -MARGIN),
                _above(pe, none, MARGIN),
                _above(cnn, pe, MARGIN),
            ]
        )
        if min(cnn) < LEARNED:
            conclusion = Conclusion.inconclusive
        conclusions.append(conclusion)
        means = ", ".join(f"{name} {_mean_sd(values)}" for name, values in accuracies.items())
        shown.append(f"{budget} batches: {means}, {conclusion}")
    return Finding(
        measured=f"accuracy, % (position-blind: {100 * ceiling:.1f} at best); {'; '.join(shown)}",
        conclusion=concluded(conclusions),
        n=len(none),
    )


LEARNING = """data=contrast position=sinusoidal model.dropout=0 train.device=cpu
train.measure_train=true""".split()
JUMP = 0.1
"""C29: smallest rise of validation accuracy within an epoch that counts as learning."""
TOLERANCE = 0.02
"""C29: largest allowed gap of train accuracy, measured after the epoch, below validation's."""


@claim("C29", "K")
def c29() -> Finding:
    """Shown train accuracy is a running mean: first below validation's.

    attnexp's own loop on the embedded corpus, sinusoidal PE. Dropout, another reason why accuracy
    on train is low while training, is off, so that the running mean alone can be the cause.

    The rule is about the epoch with the largest rise of validation accuracy (from 0.5 before the
    first). Supported if there, by the 95 % intervals over six seeds, the running accuracy lies
    below validation's, and the accuracy on train measured after the epoch at most 0.02 below it.
    Not supported if an interval contradicts one of the two. Inconclusive otherwise, and when a
    seed's largest rise is below 0.1.
    """
    return judge_learning([learning(seed) for seed in SEEDS])


Steepest = tuple[float, EpochRow]
"""The largest rise of validation accuracy within an epoch, and that epoch (C29)."""


def learning(seed: int, *, num_train: int = 2000, num_epochs: int = 4) -> Steepest:
    """Train one seed without writing files; return its steepest epoch (C29)."""
    config = compose(
        [*LEARNING, f"seed={seed}", f"train.epochs={num_epochs}", f"data.limit_train={num_train}"]
    )
    dataset = encode.load(config.data)
    train, val = (examples_of(part, torch.device("cpu")) for part in (dataset.train, dataset.test))
    with torch.random.fork_rng(devices=[]):
        model = build_model(config)
    shuffle = torch.Generator().manual_seed(named_seed(seed, "order"))
    state = start(model, train, config.train, shuffle)
    return steepest([row for row, _ in fit(state, train, val, config.train)])


def steepest(rows: Sequence[EpochRow]) -> Steepest:
    """The epoch with the largest rise of validation accuracy, from 0.5 before the first."""
    before = [0.5] + [row.val_accuracy for row in rows]
    rises = [row.val_accuracy - earlier for row, earlier in zip(rows, before, strict=False)]
    return max(rises), rows[rises.index(max(rises))]


def judge_learning(found: Sequence[Steepest]) -> Finding:
    """The conclusion on C29 from the steepest epoch of each seed."""
    rows = [row for _, row in found]
    running = [row.train_accuracy for row in rows]
    after = [each for row in rows if (each := row.train_accuracy_after) is not None]
    validation = [row.val_accuracy for row in rows]
    conclusion = concluded(
        [_above(validation, running, 0.0), _above(after, validation, -TOLERANCE)]
    )
    learned = min(rise for rise, _ in found) >= JUMP
    columns = {"running": running, "after": after, "validation": validation}
    epochs = "/".join(str(row.epoch) for row in rows)
    return Finding(
        measured=f"accuracy in epoch {epochs}, %: on train "
        + ", ".join(f"{name} {_mean_sd(values)}" for name, values in columns.items()),
        conclusion=conclusion if learned else Conclusion.inconclusive,
        n=len(found),
    )


def _above(one: Sequence[float], other: Sequence[float], bound: float) -> Conclusion:
    """Whether the 95 % t interval of the mean of one − other lies above a bound, below it, or on
    both sides."""
    pair = paired(
        {str(i): value for i, value in enumerate(one)},
        {str(i): value + bound for i, value in enumerate(other)},
    )
    assert pair is not None
    return Conclusion.inconclusive if pair.low is None else above(pair)


def _mean_sd(values: Sequence[float]) -> str:
    """Mean ± standard deviation in percent; the mean alone for one value."""
    mean = f"{100 * statistics.mean(values):.1f}"
    return mean if len(values) == 1 else f"{mean} ± {100 * statistics.stdev(values):.1f}"
