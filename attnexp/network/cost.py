"""Parameters and floating-point operations of a model."""

import copy

import torch
from torch.utils.flop_counter import FlopCounterMode

from attnexp.config.schema import RunConfig
from attnexp.network.build import build_model


def cost_of(config: RunConfig, num_classes: int = 2) -> dict[str, int]:
    """Trainable parameters, and FLOPs (2 for a multiply and an add) of a forward pass over one text
    on the reference path. Leaves the random state as it is."""
    ids = torch.ones(1, config.data.max_len, dtype=torch.int32)
    counter = FlopCounterMode(display=False)
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        model = build_model(config, num_classes).eval()
        try:  # without values, where torch looks into an LSTM
            with counter:
                copy.deepcopy(model).to("meta")(ids.to("meta"))
        except (NotImplementedError, RuntimeError):  # some operation needs them
            with counter:
                model(ids)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {"parameters": trained, "flops_per_example": int(counter.get_total_flops())}
