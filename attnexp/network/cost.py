"""Parameters and floating-point operations of a model."""

import copy
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def count_parameters(model: nn.Module) -> int:
    """Number of trainable parameters."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def count_flops(compute: Callable[[], object]) -> int:
    """Floating-point operations of what a function computes."""
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        compute()
    return int(counter.get_total_flops())


def cost_of(model: nn.Module, num_tokens: int) -> dict[str, Any]:
    """Trainable parameters, and FLOPs (2 for a multiply and an add) of a text's reference path."""
    flops = 0
    # On "meta" torch counts within an LSTM; an operation that needs values fails there: then "cpu".
    for device in ("meta", "cpu"):
        ids = torch.ones(1, num_tokens, dtype=torch.int32, device=device)
        with torch.random.fork_rng(devices=[]), suppress(NotImplementedError):
            reference = copy.deepcopy(model).eval().to(device)
            flops = count_flops(partial(reference, ids))
            break
    return {"parameters": count_parameters(model), "flops_per_example": flops}
