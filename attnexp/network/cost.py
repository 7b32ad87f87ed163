"""Parameters and floating-point operations of a model."""

import copy
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def cost_of(model: nn.Module, num_tokens: int) -> dict[str, Any]:
    """Trainable parameters, and FLOPs (2 for a multiply and an add) of one text's forward pass;
    None where a user's model cannot be counted. Leaves the model, which is on the reference path,
    and the random state as they are."""
    num_trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    # Without values torch looks into an LSTM; some operation may need them.
    flops = _count_flops(model, num_tokens, "meta") or _count_flops(model, num_tokens, "cpu")
    return {"parameters": num_trained, "flops_per_example": flops}


def _count_flops(model: nn.Module, num_tokens: int, device: str) -> int | None:
    """FLOPs of one text's forward pass on a device; None where it fails there."""
    ids = torch.ones(1, num_tokens, dtype=torch.int32, device=device)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            # torch's parametrizations cannot be copied in inference mode.
            reference = copy.deepcopy(model).eval().to(device)
            with FlopCounterMode(display=False) as counter:
                reference(ids)
        except Exception:  # whatever anyone's code may do; a cost ends no run
            return None
    return int(counter.get_total_flops())
