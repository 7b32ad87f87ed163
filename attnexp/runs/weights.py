"""Weights on disk, in a format that holds numbers and nothing that runs."""

from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor, nn

from attnexp.errors import UserError
from attnexp.files import atomic_write

WEIGHTS = "model.safetensors"


def save_weights(run_dir: Path, weights: Mapping[str, Tensor]) -> None:
    """Write a model's `state_dict()`, whole or not at all."""
    tensors = {name: tensor.contiguous() for name, tensor in weights.items()}
    with atomic_write(run_dir / WEIGHTS) as file:
        file.write(save(tensors))


def load_weights(run_dir: Path, model: nn.Module) -> None:
    """Fill the model from a run's folder. Raises `UserError` when that cannot be done."""
    path = run_dir / WEIGHTS
    try:
        model.load_state_dict(load_file(path))
    except FileNotFoundError:
        raise UserError(f"{path} is missing, so there is no model to load.") from None
    except (SafetensorError, RuntimeError, OSError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{path} does not hold this run's weights ({reason}).") from error
