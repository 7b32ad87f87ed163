"""Parameters and floating-point operations of a model."""

import copy

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode


def cost_of(model: nn.Module, num_tokens: int) -> dict[str, int]:
    """Trainable parameters, and FLOPs (2 for a multiply and an add) of one text's forward pass.

    model: on the CPU, on the reference path. Leaves it and the random state as they are.
    """
    ids = torch.ones(1, num_tokens, dtype=torch.int32)
    reference = copy.deepcopy(model).eval()
    counter = FlopCounterMode(display=False)
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        try:  # without values, where torch looks into an LSTM
            with counter:
                copy.deepcopy(reference).to("meta")(ids.to("meta"))
        except (NotImplementedError, RuntimeError):  # some operation needs them
            with counter:
                reference(ids)
    num_trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {"parameters": num_trained, "flops_per_example": int(counter.get_total_flops())}
