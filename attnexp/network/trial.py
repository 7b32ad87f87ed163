"""A trial of a model with user code, before a training that would fail or could not be repeated.

Shapes: B batch, T tokens.
"""

import copy
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from attnexp.base.errors import UserError, join_names
from attnexp.base.progress import note
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
) -> dict[str, Tensor]:
    """The weights from which a model of a config starts. It is built twice, takes a step of
    training but for its end, by ids (B, T) and labels (B,), twice, and is stored. Raises
    `UserError` where the two differ, where what is trained are not parameters, or weights cannot be
    stored. Leaves random streams as they are."""
    with seeded_draws(0):
        model = build_model(config, num_classes).to(ids.device)
        start = copy.deepcopy(model.state_dict())
        twin = build_model(config, num_classes)
        compare_weights(model, twin.state_dict())
        if not isinstance(model, Baseline):  # which learns by itself
            parameters = {*model.parameters()}
            if config.train.fast:
                take_fast_path(model, config.train.precision)
            check_pieces(model, ids)
            check_logits(model, ids, num_classes)
            loss, numbers = _take_step(model, ids, labels, compute_loss)
            _refuse_other_leaves(model, parameters, loss)
            _note_untrained(model)
            model.load_state_dict(start, strict=False)  # what it makes in forward is told below
            _, repeated = _take_step(model, ids, labels, compute_loss)
            differences = map(differ, numbers, repeated)
            if any(differences):
                raise UserError(
                    "A step of training, done again from the same weights, gives other numbers. "
                    "The model or its loss draws at random in training by something else than "
                    "torch, numpy.random and random, whose draws follow the seed, or keeps state, "
                    "such as a count of steps, outside its parameters and buffers."
                )
        weights = weights_of(model)
        arrays = {name: np.asarray(array, order="C") for name, array in weights.items()}
        made_later = arrays.keys() - start.keys()
        for name in sorted(made_later):
            raise UserError(f"{_owner(model, name)} makes {name} in forward. Make it in __init__.")
        content = safetensors.numpy.save(arrays)
        stored = safetensors.torch.load(content)
        anew = build_model(config, num_classes)
        anew.load_state_dict(stored)
    tensors = {name: value for name, value in start.items() if isinstance(value, Tensor)}
    return {name: tensor.cpu() for name, tensor in tensors.items()}


def _take_step(
    model: nn.Module, ids: Tensor, labels: Tensor, compute_loss: Loss
) -> tuple[Tensor, list[Tensor]]:
    """The loss of a step; logits, loss and all gradients in one. Draws follow a seed."""
    with seeded_draws(0):
        model.zero_grad()
        logits: Tensor = model.train()(ids).float()
        before = logits.detach().clone()  # a loss may change them in place
        loss = compute_loss(logits, labels.clone())
        loss.backward()
    gradients: list[Tensor] = []
    for parameter in model.parameters():
        if parameter.grad is not None:
            gradient = parameter.grad.to_dense()
            numbers = gradient.flatten()
            gradients.append(numbers)
    all_gradients = torch.cat(gradients)
    return loss, [before, loss.detach(), all_gradients]


def _note_untrained(model: nn.Module) -> None:
    """Warn of parameters that no gradient of a step has reached, as behind a `detach`."""
    untrained: list[str] = []
    for name, weight in model.named_parameters():
        if weight.requires_grad and weight.grad is None:
            untrained.append(name)
    if untrained:
        note(
            f"Warning: no gradient reaches {join_names(untrained)}, so training leaves it as it is."
        )


def compare_weights(model: nn.Module, start: Mapping[str, Tensor]) -> None:
    """Raise `UserError` where a model has not these weights, which it got by the same seed, built
    or fitted another time."""
    for name, weight in model.state_dict().items():
        if not isinstance(weight, Tensor) or not weight.numel():  # others cannot be stored
            continue
        first = start.get(name, torch.empty(0)).to(weight.device)
        if weight.shape != first.shape or differ(weight.float(), first.float()):
            raise UserError(
                f"{_owner(model, name)} does not start from its seed: built or fitted twice, its "
                f"{name} differs. Draw in the constructor or in fit, by torch, numpy.random or "
                f"random, which are seeded; not when a module is imported, nor by hash(), which "
                f"differs between processes, and keep nothing from one model to the next."
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
