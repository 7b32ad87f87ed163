"""What a model costs before it is trained."""

import copy

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from attnexp.config.schema import RunConfig
from attnexp.model.classifier import build_model


def of_model(config: RunConfig, num_classes: int = 2) -> dict[str, int]:
    """Trainable parameters, and FLOPs of one example, of the model a config asks for."""
    model = build_model(config, num_classes)
    example = torch.ones(1, config.data.max_len, dtype=torch.int32)
    return {"parameters": count_parameters(model), "flops_per_example": count_flops(model, example)}


def count_parameters(model: nn.Module) -> int:
    """Those that training moves."""
    return sum(p.numel() for p in model.parameters() if p.requires_grad)


def count_flops(model: nn.Module, ids: torch.Tensor) -> int:
    """Of one forward pass: 2 for a multiply and an add, as torch counts its matrix products.

    torch does not look into an LSTM, so it is counted here: the gates of every token.
    """
    # On CUDA torch looks into no recurrent layer; and it stumbles over a parameter's own gradient.
    model = copy.deepcopy(model).cpu().eval().requires_grad_(False)
    with FlopCounterMode(display=False) as counter, torch.inference_mode():
        model(ids.cpu())
    recurrent = sum(
        2 * p.numel() * ids.numel()
        for module in model.modules()
        if isinstance(module, nn.LSTM)
        for name, p in module.named_parameters()
        if name.startswith("weight")
    )
    return int(counter.get_total_flops()) + recurrent
