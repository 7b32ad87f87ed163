"""The optimizer: Adam as Keras has it, and the usual schedules of the learning rate."""

import math
from typing import Any

import torch
from torch import nn

from attnexp.config.schema import Optimizer, Schedule, TrainConfig


class KerasAdam(torch.optim.Adam):
    """Adam with epsilon where Keras puts it: beside the second moment before its correction.

    torch computes m' / (sqrt(v / c) + eps) and Keras m' / ((sqrt(v) + eps) / sqrt(c)), with
    c = 1 - beta2^t. Early in training the gradients of queries and of rare words are so small
    (1e-8) that epsilon decides the length of their steps. Dividing epsilon by sqrt(c) makes the
    two equal.
    """

    def step(self, closure: Any = None) -> Any:
        """Update the parameters, as `torch.optim.Adam.step`."""
        for group in self.param_groups:
            group["num_steps"] = group.get("num_steps", 0) + 1
            correction = 1 - group["betas"][1] ** group["num_steps"]
            group["eps"] = self.defaults["eps"] / math.sqrt(correction)
        return super().step(closure)


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Adam or AdamW with Keras's decay rates; every step updates every row of the embedding."""
    common: Any = {"lr": config.lr, "betas": (0.9, 0.999), "eps": config.eps, "fused": True}
    if config.optimizer is Optimizer.adamw:
        return torch.optim.AdamW(model.parameters(), weight_decay=config.weight_decay, **common)
    return KerasAdam(model.parameters(), **common)


def learning_rate(config: TrainConfig, step: int, num_steps: int) -> float:
    """Rate of a step, counted from 1: linear warm-up over `train.warmup` steps, then
    `train.schedule` until `num_steps`.

    Step s of the warm-up has s / warmup of `train.lr`. After it, linear falls in a straight line to
    0, cosine as half a cosine (Loshchilov and Hutter 2017, equation 5).
    """
    if step <= config.warmup:
        return config.lr * (step / config.warmup)
    progress = (step - 1 - config.warmup) / max(num_steps - config.warmup, 1)
    if config.schedule is Schedule.linear:
        return config.lr * (1 - progress)
    if config.schedule is Schedule.cosine:
        return config.lr * ((1 + math.cos(math.pi * progress)) / 2)
    return config.lr
