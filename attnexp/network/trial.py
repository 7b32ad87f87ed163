"""A trial of a model with user code, before a training that would fail or could not be repeated.

Shapes: B batch, T tokens.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attnexp.base.errors import UserError
from attnexp.config.schema import RunConfig
from attnexp.model.seams import Baseline
from attnexp.network.build import build_model
from attnexp.network.check import PIECES, check_logits, check_pieces, differ
from attnexp.network.fast import take_fast_path
from attnexp.network.guard import name_piece
from attnexp.network.pieces import seeded_draws

Loss = Callable[[Tensor, Tensor], Tensor]


def try_training(
    config: RunConfig, num_classes: int, ids: Tensor, labels: Tensor, compute_loss: Loss
) -> None:
    """Build the model of a config twice, take a step of training but for its end, by ids (B, T) and
    labels (B,), and store it. Raises `UserError` where the two differ, where what is trained are
    not parameters, or weights cannot be stored. Leaves random streams as they are."""
    with seeded_draws(0):
        model = build_model(config, num_classes).to(ids.device)
        twin = build_model(config, num_classes).to(ids.device)
        _compare_weights(model, twin)
        names = {*model.state_dict()}
        if not isinstance(model, Baseline):  # which learns by itself
            parameters = {*model.parameters()}
            if config.train.fast:
                take_fast_path(model, config.train.precision)
                take_fast_path(twin, config.train.precision)
            check_pieces(model, ids)
            check_logits(model, ids, num_classes)
            logits = _forward(model, ids)
            before = logits.detach().clone()  # a loss may change them in place
            loss = compute_loss(logits, labels)
            loss.backward()
            _refuse_other_leaves(model, parameters, loss)
            if differ(before, _forward(twin, ids)):
                raise UserError(
                    "The model draws at random in training by something else than torch, "
                    "numpy.random and random, whose draws follow the seed. Use one of these."
                )
        weights = weights_of(model)
        arrays = {name: np.asarray(array, order="C") for name, array in weights.items()}
        for name in sorted(arrays.keys() - names):
            raise UserError(f"{_owner(model, name)} makes {name} in forward. Make it in __init__.")
        stored = safetensors.torch.load(safetensors.numpy.save(arrays))
        anew = build_model(config, num_classes)
        anew.load_state_dict(stored)


def _forward(model: nn.Module, ids: Tensor) -> Tensor:
    """Logits in training, whose draws follow a seed."""
    with seeded_draws(0):
        logits: Tensor = model.train()(ids)
    return logits.float()


def _compare_weights(model: nn.Module, twin: nn.Module) -> None:
    """Raise `UserError` where two models of one seed do not start alike."""
    twins = twin.state_dict()
    for name, weight in model.state_dict().items():
        if not isinstance(weight, Tensor):  # which cannot be stored either
            continue
        twin_weight = twins.get(name, torch.empty(0))
        if not torch.equal(weight.nan_to_num(), twin_weight.nan_to_num()):
            raise UserError(
                f"{_owner(model, name)} does not start from its seed: built twice, its {name} "
                f"differs. Draw by torch, numpy.random or random, which are seeded, and keep "
                f"nothing from one model to the next."
            )


def _refuse_other_leaves(model: nn.Module, parameters: set[nn.Parameter], loss: Tensor) -> None:
    """Raise `UserError` where the gradient of a loss reaches what was no parameter at the start."""
    waiting = [loss.grad_fn]
    seen = set[Any]()
    while waiting:
        node = waiting.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        waiting += [function for function, _ in node.next_functions]
        leaf = getattr(node, "variable", None)  # in which the gradient is summed
        if leaf is not None and leaf not in parameters:
            raise UserError(
                f"{_owner_of_leaf(model, leaf)} computes with a tensor of shape "
                f"{tuple(leaf.shape)} that has a gradient and was no parameter when the model was "
                f"built, so it is not trained. Make it in __init__, as an nn.Parameter or a layer "
                f"of torch."
            )


def weights_of(model: nn.Module) -> dict[str, NDArray[Any]]:
    """Weights and buffers on the host, by name. Raises `UserError` for what no file can hold."""
    arrays = {}
    for name, value in model.state_dict().items():
        try:
            arrays[name] = value.cpu().numpy()
        except (AttributeError, TypeError) as error:  # of an extra state; of bfloat16
            kind = str(getattr(value, "dtype", type(value).__name__))
            raise UserError(
                f"{_owner(model, name)}: its {name} is {kind}, which the files of weights cannot "
                f"hold. Keep tensors of torch.float32 or of whole numbers."
            ) from error
    return arrays


def _owner(model: nn.Module, name: str) -> str:
    """The piece that a weight belongs to."""
    owner = model
    module = model
    for part in name.split(".")[:-1]:
        module = getattr(module, part)
        if isinstance(module, PIECES):
            owner = module
    return name_piece(owner)


def _owner_of_leaf(model: nn.Module, leaf: Tensor) -> str:
    """The piece that has a tensor as a parameter or another attribute, or else the model."""
    for path, module in model.named_modules():
        tensors = [*module.parameters(recurse=False), *vars(module).values()]
        if any(tensor is leaf for tensor in tensors):
            return _owner(model, f"{path}.leaf".lstrip("."))
    return "The model"
