"""Adam of an embedding, dense in effect and sparse in work: a step touches a batch's rows alone.

Adam moves a row in every step, with or without a gradient. Without one, i steps leave m β1^i and
v β2^i of its moments, and the i-th subtracts from its weight (α_t is the rate of Keras's step t)

    α_t β1^i m / (ρ^i s + ε),  s = √v, ρ = √β2.

With δ_i = 1 − ρ^i and u = s / (s + ε), which is 0 to 1, ρ^i s + ε = (s + ε)(1 − δ_i u). A geometric
series therefore gives the sum over the steps that a row has missed as

    m / (s + ε) · (A + B u + C u²),  A = Σ α_t β1^i, B = Σ α_t β1^i δ_i, C = Σ α_t β1^i δ_i²,

where A, B, C depend on the step alone to which the row has come: one table holds them for all rows.
The next term is at most 1e-6 of the sum, or 3e-6 in a warm-up (β1 = 0.9, β2 = 0.999).

Shapes: V rows of the embedding, U different words of a batch, D width.
"""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.config.schema import ADAM_BETAS, Optimizer, TrainConfig

MOST_STEPS = 1023  # After so many steps, all rows are brought up to date.


class EagerAdam(torch.optim.Adam):
    """`torch.optim.Adam` without decorators that import `torch._dynamo`, which takes a second."""

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    zero_grad = unwrap(torch.optim.Adam.zero_grad)
    state_dict = unwrap(torch.optim.Adam.state_dict)
    load_state_dict = unwrap(torch.optim.Adam.load_state_dict)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))

    def epoch(self) -> AbstractContextManager[None]:
        """The context in which it takes the steps of an epoch."""
        return nullcontext()

    def weights(self) -> list[Tensor]:
        """All that the next step changes."""
        (group,) = self.param_groups
        return [*group["params"]]


class KerasAdam(EagerAdam):
    """Adam with epsilon where Keras puts it: beside the second moment before its correction.
    torch computes m' / (sqrt(v / c) + eps) and Keras m' / ((sqrt(v) + eps) / sqrt(c)), with
    c = 1 - beta2^t: equal, once epsilon is divided by sqrt(c). Early in training the gradients of
    queries and rare words are so small (1e-8) that epsilon decides the length of their steps."""

    def step(self, closure: Any = None) -> Any:
        """Update the parameters, as `torch.optim.Adam.step`."""
        (group,) = self.param_groups
        num_steps = group.get("num_steps", 0) + 1
        group["num_steps"] = num_steps
        _, beta2 = group["betas"]
        correction = 1 - beta2**num_steps
        group["eps"] = self.defaults["eps"] / math.sqrt(correction)
        return super().step(closure)


class SparseAdam(KerasAdam):
    """`KerasAdam` of a model that asks its embedding for each word of a batch once (`pool_words`).
    Within `epoch` the embedding gives its rows as they are now, and a step takes their gradient.
    Outside of it every row is up to date, and the state is that of `KerasAdam`."""

    rows: "TouchedRows"  # of the epoch that is under way

    def __init__(self, model: nn.Module, embedding: nn.Embedding, **options: Any) -> None:
        super().__init__(model.parameters(), **options)
        self.embedding = embedding
        weight = embedding.weight
        # torch would make this state at the first gradient of the table, which has none.
        state = self.state[weight]
        state["step"] = torch.zeros(())
        state["exp_avg"] = torch.zeros_like(weight)
        state["exp_avg_sq"] = torch.zeros_like(weight)

    @contextmanager
    def epoch(self) -> Iterator[None]:
        """Steps of an epoch; at its end, however it ends, every row is up to date."""
        weight = self.embedding.weight
        state = self.state[weight]
        tables = [weight.detach(), state["exp_avg"], state["exp_avg_sq"]]
        self.rows = TouchedRows(tables, self.defaults["betas"], self.defaults["eps"])
        hook = self.embedding.register_forward_hook(lambda _, args, stale: self.rows.read(*args))
        try:
            yield
        finally:
            hook.remove()
            self.rows.catch_up()

    def weights(self) -> list[Tensor]:
        """All that the next step changes, the rows of a batch among it."""
        return [*super().weights(), self.rows.batch[0]]

    def step(self, closure: Any = None) -> Any:
        """Update the parameters, as `torch.optim.Adam.step`."""
        t = self.state[self.embedding.weight]["step"].add_(1)
        self.rows.update(int(t), self.param_groups[0]["lr"])
        return super().step(closure)  # The table, which has no gradient, is left alone.


class TouchedRows:
    """Rows of an embedding and their moments, (V, D) each, of which few are up to date."""

    words: Tensor  # (U,), last read
    batch: list[Tensor]  # their weights, m and v, (U, D) each

    def __init__(self, tables: list[Tensor], betas: tuple[float, float], eps: float) -> None:
        """All rows are up to date. tables: weight, m and v."""
        self.tables = tables
        self.beta1, self.beta2 = betas
        self.eps = eps
        self.num_steps = 0  # since all rows were up to date
        num_rows = len(tables[0])
        self.row_steps = torch.zeros(num_rows, dtype=torch.int64)  # the step each row has come to
        # Column j of `sums` is A, B, C of the rows that have come to step j. A step adds the last
        # columns of `terms` to them: the third step those of i = 3, 2, 1 to columns 0, 1, 2.
        i = torch.arange(MOST_STEPS, 0, -1, dtype=torch.float64)
        decay = self.beta1**i
        delta = 1 - self.beta2 ** (i / 2)
        self.terms = torch.stack([decay, decay * delta, decay * delta**2]).float()
        self.sums = self.terms.new_zeros(3, MOST_STEPS + 1)

    @torch.no_grad()
    def read(self, words: Tensor) -> Tensor:
        """Rows of different words, (U, D), as they are now. `update` takes their gradient."""
        self.words = words
        self.batch = self._bring_to_date(words)
        weight, _, _ = self.batch
        return weight.requires_grad_()

    @torch.no_grad()
    def update(self, t: int, lr: float) -> None:
        """Take Adam's step t, from 1, with the rows last read; note it for all others."""
        weight, m, v = self.batch
        gradient = weight.grad
        assert gradient is not None
        m.lerp_(gradient, 1 - self.beta1)
        v.mul_(self.beta2).addcmul_(gradient, gradient, value=1 - self.beta2)
        correction_of_m = 1 - self.beta1**t
        correction_of_v = 1 - self.beta2**t
        rate = lr * math.sqrt(correction_of_v) / correction_of_m  # α_t
        denominator = v.sqrt().add_(self.eps)
        weight.addcdiv_(m, denominator, value=-rate)
        self.num_steps += 1
        self._write(self.words, self.batch)
        terms = self.terms[:, -self.num_steps :]
        self.sums[:, : self.num_steps].add_(terms, alpha=rate)
        if self.num_steps == MOST_STEPS:
            self.catch_up()

    @torch.no_grad()
    def catch_up(self) -> None:
        """Bring all rows up to date."""
        _, _, v = self.tables
        moving = v.amax(dim=1).nonzero().squeeze(-1)  # A row stays until its first gradient.
        for words in moving.split(1024):  # So many rows fit the cache.
            self._write(words, self._bring_to_date(words))
        self.num_steps = 0
        self.row_steps.zero_()
        self.sums.zero_()

    def _bring_to_date(self, words: Tensor) -> list[Tensor]:
        """Weights and moments of some rows, (U, D) each, after the steps that they have missed."""
        weight, m, v = (table.index_select(0, words) for table in self.tables)
        row_steps = self.row_steps[words]
        a, b, c = self.sums[:, row_steps, None]  # (U, 1) each
        s = v.sqrt()
        denominator = s + self.eps
        u = s / denominator
        inner = torch.addcmul(b, c, u)
        bracket = torch.addcmul(a, inner, u)  # A + (B + C u) u
        ratio = m / denominator
        weight.addcmul_(bracket, ratio, value=-1)
        num_missed = (self.num_steps - row_steps)[:, None].float()
        m.mul_(self.beta1**num_missed)
        v.mul_(self.beta2**num_missed)
        return [weight, m, v]

    def _write(self, words: Tensor, rows: list[Tensor]) -> None:
        """Put rows that are up to date into the tables."""
        for table, part in zip(self.tables, rows, strict=True):
            table.index_copy_(0, words, part)
        self.row_steps[words] = self.num_steps


def make_optimizer(model: nn.Module, config: TrainConfig) -> EagerAdam:
    """Adam or AdamW with Keras's decay rates: `SparseAdam` where `pool_words` reads the words."""
    common: Any = {"lr": config.lr, "betas": ADAM_BETAS, "eps": config.eps, "fused": True}
    if config.optimizer is Optimizer.adamw:
        common |= {"weight_decay": config.weight_decay, "decoupled_weight_decay": True}
        return EagerAdam(model.parameters(), **common)
    embedding: Any = getattr(model, "embedding", None)
    if getattr(model, "pools_words", False) and embedding.weight.requires_grad:
        return SparseAdam(model, embedding, **common)
    return KerasAdam(model.parameters(), **common)
