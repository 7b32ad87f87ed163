"""Adam of an embedding, dense in effect and sparse in work: a step touches a batch's rows alone.

Adam moves a row in every step, with or without a gradient. Without one, i steps leave m β1^i and
v β2^i of its moments, and the i-th subtracts from its weight (α_t is the rate of Keras's step t)

    α_t β1^i m / (ρ^i s + ε),  s = √v, ρ = √β2.

With δ_i = 1 − ρ^i and u = s / (s + ε), which is 0 to 1, ρ^i s + ε = (s + ε)(1 − δ_i u). A geometric
series therefore gives the sum over the steps that a row has missed as

    m / (s + ε) · (A + B u + C u²),  A = Σ α_t β1^i, B = Σ α_t β1^i δ_i, C = Σ α_t β1^i δ_i²,

where A, B, C depend on the step alone to which the row has come: one table holds them for all rows.
The next term is at most 1e-6 of the sum, or 3e-6 in a warm-up (β1 = 0.9, β2 = 0.999).
Shapes: V rows of the embedding, U different words of a batch, D width."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

MOST_STEPS = 1023  # After so many steps, all rows are brought up to date.


class Rows(NamedTuple):
    """Rows of an embedding and their moments, one shape."""

    weight: Tensor
    m: Tensor
    v: Tensor


class TouchedRows:
    """All rows of an embedding, which are up to date at first, and later only where `read`."""

    def __init__(self, tables: Rows, betas: tuple[float, float], eps: float) -> None:
        self.tables = tables  # (V, D) each
        self.beta1, self.beta2 = betas
        self.eps = eps
        self.num_steps = 0  # since all rows were up to date
        self.row_steps = torch.zeros(len(tables.weight), dtype=torch.int64)  # of each row
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
        self.words = words  # (U,)
        self.batch = self._bring_to_date(words)
        return self.batch.weight.requires_grad_()

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
        moving = self.tables.v.amax(dim=1).nonzero().squeeze(-1)  # Others have had no gradient.
        for words in moving.split(1024):  # So many rows fit the cache.
            self._write(words, self._bring_to_date(words))
        self.num_steps = 0
        self.row_steps.zero_()
        self.sums.zero_()

    def _bring_to_date(self, words: Tensor) -> Rows:
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
        return Rows(weight, m, v)

    def _write(self, words: Tensor, rows: Rows) -> None:
        for table, part in zip(self.tables, rows, strict=True):
            table.index_copy_(0, words, part)
        self.row_steps[words] = self.num_steps
