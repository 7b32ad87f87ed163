"""Adam as Keras has it, and of an embedding of which a batch reads few rows."""

import math
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from inspect import unwrap
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.config.schema import ADAM_BETAS, Optimizer, TrainConfig
from attnexp.network.classifier import Classifier, FastPath
from attnexp.training.touched_rows import Rows, TouchedRows


class EagerAdam(torch.optim.Adam):
    """`torch.optim.Adam` without decorators that import `torch._dynamo`, which takes a second."""

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    zero_grad = unwrap(torch.optim.Adam.zero_grad)
    state_dict = unwrap(torch.optim.Adam.state_dict)
    load_state_dict = unwrap(torch.optim.Adam.load_state_dict)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))

    def taking_steps(self) -> AbstractContextManager[None]:
        """The context in which it takes the steps of an epoch."""
        return nullcontext()

    def to_clip(self) -> list[Tensor]:
        """All that the next step changes, whose gradient may be clipped."""
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
    Within `taking_steps` the embedding gives its rows as they are now, and a step takes their
    gradient. Outside of it every row is up to date, and the state is that of `KerasAdam`."""

    rows: TouchedRows  # of the epoch that is under way

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
    def taking_steps(self) -> Iterator[None]:
        """Steps of an epoch; at its end, however it ends, every row is up to date."""
        weight = self.embedding.weight
        state = self.state[weight]
        tables = Rows(weight.detach(), state["exp_avg"], state["exp_avg_sq"])
        self.rows = TouchedRows(tables, self.defaults["betas"], self.defaults["eps"])

        def read_rows(_embedding: nn.Module, words: tuple[Tensor], _stale_rows: Tensor) -> Tensor:
            return self.rows.read(*words)  # takes the place of the output

        hook = self.embedding.register_forward_hook(read_rows)
        try:
            yield
        finally:
            hook.remove()
            self.rows.catch_up()

    def to_clip(self) -> list[Tensor]:
        """All that the next step changes, the rows of a batch among it."""
        return [*super().to_clip(), self.rows.batch.weight]

    def step(self, closure: Any = None) -> Any:
        """Update the parameters, as `torch.optim.Adam.step`."""
        t = self.state[self.embedding.weight]["step"].add_(1)
        self.rows.update(int(t), self.param_groups[0]["lr"])
        return super().step(closure)  # The table, which has no gradient, is left alone.


def make_optimizer(model: nn.Module, config: TrainConfig) -> EagerAdam:
    """Adam or AdamW with Keras's decay rates: `SparseAdam` where `pool_words` reads the words."""
    common: Any = {"lr": config.lr, "betas": ADAM_BETAS, "eps": config.eps, "fused": True}
    if config.optimizer is Optimizer.adamw:
        common |= {"weight_decay": config.weight_decay, "decoupled_weight_decay": True}
        return EagerAdam(model.parameters(), **common)
    if isinstance(model, Classifier) and model.fast_path is FastPath.words:
        embedding: Any = model.embedding
        if embedding.weight.requires_grad:
            return SparseAdam(model, embedding, **common)
    return KerasAdam(model.parameters(), **common)
