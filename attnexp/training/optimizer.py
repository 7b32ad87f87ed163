"""The optimizer: Adam as Keras has it, and the usual schedules of the learning rate."""

import math
from typing import Any

import torch
from torch import nn

from attnexp.config.schema import ADAM_BETAS, Optimizer, Schedule, TrainConfig
from attnexp.training.adam import EagerAdam, KerasAdam, SparseAdam


def make_optimizer(model: nn.Module, config: TrainConfig) -> torch.optim.Optimizer:
    """Adam or AdamW with Keras's decay rates: `SparseAdam` where `pool_words` reads the words."""
    common: Any = {"lr": config.lr, "betas": ADAM_BETAS, "eps": config.eps, "fused": True}
    if config.optimizer is Optimizer.adamw:
        common |= {"weight_decay": config.weight_decay, "decoupled_weight_decay": True}
        return EagerAdam(model.parameters(), **common)
    embedding: Any = getattr(model, "embedding", None)
    if getattr(model, "pools_words", False) and embedding.weight.requires_grad:
        return SparseAdam(model, embedding, **common)
    return KerasAdam(model.parameters(), **common)


def learning_rate(config: TrainConfig, step: int, num_steps: int) -> float:
    """Rate of a step, counted from 1. Step s of the first `train.warmup` has s / warmup of
    `train.lr`. Then `train.schedule` follows until `num_steps`: linear falls in a straight line to
    0, cosine as half a cosine (Loshchilov and Hutter 2017, equation 5)."""
    if step <= config.warmup:
        return config.lr * (step / config.warmup)
    progress = (step - 1 - config.warmup) / max(num_steps - config.warmup, 1)
    if config.schedule is Schedule.linear:
        return config.lr * (1 - progress)
    if config.schedule is Schedule.cosine:
        share = (1 + math.cos(math.pi * progress)) / 2
        return config.lr * share
    return config.lr
