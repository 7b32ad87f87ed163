"""What a model costs: parameters, and floating-point operations as torch counts them."""

import copy

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from attnexp.config.schema import RunConfig
from attnexp.model.classifier import build_model


def of_config(config: RunConfig, num_classes: int = 2) -> dict[str, int]:
    """Trainable parameters, and FLOPs of a forward pass over one text, on the reference path.

    2 for a multiply and an add. Leaves the random state as it is.
    """
    ids = torch.ones(1, config.data.max_len, dtype=torch.int32)
    with torch.random.fork_rng(devices=[]), torch.inference_mode():
        model = build_model(config, num_classes).eval()
        try:  # without values, where torch looks into an LSTM
            flops = _flops(copy.deepcopy(model).to("meta"), ids.to("meta"))
        except (NotImplementedError, RuntimeError):  # some operation needs them
            flops = _flops(model, ids)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {"parameters": trained, "flops_per_example": flops}


def _flops(model: nn.Module, ids: Tensor) -> int:
    with FlopCounterMode(display=False) as counter:
        model(ids)
    return int(counter.get_total_flops())
