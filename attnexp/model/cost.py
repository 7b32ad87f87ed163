"""What a model costs: parameters, floating-point operations, memory of training.

Most of it is found on torch's meta device, where tensors have shapes and take no memory.
"""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from attnexp.config.schema import Precision, RunConfig
from attnexp.model.classifier import (
    FLOAT_BYTES,
    build_model,
    build_on_meta,
    num_values,
    take_fast_path,
)

COPIES = 4
"""Copies of a parameter in training: itself, its gradient, and Adam's two means."""


def of_config(config: RunConfig, num_classes: int = 2) -> dict[str, int]:
    """As `of_model`, for the model that a config asks for."""
    model = build_on_meta(config, num_classes) if config.is_network else None
    return of_model(model or build_model(config, num_classes), config.data.max_len)


def of_model(model: nn.Module, num_tokens: int) -> dict[str, int]:
    """Trainable parameters, and FLOPs of a forward pass over one text, on the reference path.

    Leaves the model and the random state as they are.
    """
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return {"parameters": trained, "flops_per_example": count_flops(model, num_tokens)}


def count_flops(model: nn.Module, num_tokens: int) -> int:
    """FLOPs of one text: 2 for a multiply and an add, as torch counts its matrix products."""
    tensors = [*model.parameters(), *model.buffers()]
    try:
        shapes = copy.deepcopy(model, {id(t): t.detach().to("meta") for t in tensors})
        return _count_flops(shapes, torch.ones(1, num_tokens, dtype=torch.int32, device="meta"))
    except Exception:  # some operation needs values
        values = copy.deepcopy(model, {id(t): t.detach().cpu() for t in tensors})
        # On the CPU torch does not look into an LSTM: the gates of every token.
        recurrent = sum(
            2 * p.numel() * num_tokens
            for module in model.modules()
            if isinstance(module, nn.LSTM)
            for name, p in module.named_parameters()
            if name.startswith("weight")
        )
        return recurrent + _count_flops(values, torch.ones(1, num_tokens, dtype=torch.int32))


def _count_flops(model: nn.Module, ids: Tensor) -> int:
    """Changes the model, which is a copy, to the reference path."""
    for module in model.modules():
        module.__class__ = getattr(type(module), "reference", type(module))
    with (
        torch.random.fork_rng(devices=[]),
        FlopCounterMode(display=False) as counter,
        torch.inference_mode(),
    ):
        model.eval()(ids)
    return int(counter.get_total_flops())


def training_bytes(config: RunConfig, num_texts: int) -> int:
    """A lower bound of the memory that training a network takes.

    It counts parameters, gradients and Adam's means, and what the forward pass over a batch keeps
    for the backward pass. num_texts: in train; no batch is larger. A model that cannot be built or
    run on the meta device counts as nothing, in full or but for its parameters.
    """
    model = build_on_meta(config)
    if model is None:
        return 0
    held = num_values(model)
    trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
    kept = _bytes_kept(model, config, min(config.train.batch_size, num_texts))
    return FLOAT_BYTES * (held + (COPIES - 1) * trained) + kept


def _bytes_kept(model: nn.Module, config: RunConfig, batch_size: int) -> int:
    """Bytes of what a forward pass keeps for the backward pass, besides the weights."""
    num_tokens = config.data.max_len
    is_fused = config.train.fast and take_fast_path(model) == "fused"
    weights = {t.untyped_storage()._cdata for t in [*model.parameters(), *model.buffers()]}
    kept: dict[int, Any] = {}

    def keep(tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        # torch's fused attention keeps no (T, T) map, but on the meta device it does.
        is_map = is_fused and tensor.shape[-1:] == tensor.shape[-2:-1] and tensor.ndim > 2
        if storage._cdata not in weights and not is_map:
            kept[storage._cdata] = storage

    ids = torch.ones(batch_size, num_tokens, dtype=torch.int32, device="meta")
    try:
        with (
            torch.random.fork_rng(devices=[]),
            torch.autograd.graph.saved_tensors_hooks(keep, lambda _: ids),  # nothing goes backward
        ):
            model.train()(ids)
    except Exception:
        return 0
    total = sum(int(storage.nbytes()) for storage in kept.values())
    return total // (2 if config.train.precision is Precision.bf16 else 1)
