"""Parameters and floating-point operations of a model."""

import copy
from collections.abc import Callable

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from attnexp.config.settings import Tree


def count_parameters(model: nn.Module) -> int:
    """Number of trainable parameters."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def count_flops(compute: Callable[[], object]) -> int:
    """Floating-point operations of what a function computes."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        compute()
    return int(counter.get_total_flops())


def cost_of(model: nn.Module, num_tokens: int) -> Tree:
    """Trainable parameters, and FLOPs of a text (2 for a multiply and an add) on its path."""
    try:
        flops = _flops_on("meta", model, num_tokens)  # Only there does torch count within an LSTM.
    except Exception:  # Code that needs values, which "meta" has not, may raise any.
        flops = _flops_on("cpu", model, num_tokens)
    return {"parameters": count_parameters(model), "flops_per_example": flops}


def _flops_on(device: str, model: nn.Module, num_tokens: int) -> int:
    ids = torch.ones(1, num_tokens, dtype=torch.int32, device=device)
    with torch.random.fork_rng(devices=[]):
        copied = copy.deepcopy(model).eval().to(device)
        return count_flops(lambda: copied(ids))
