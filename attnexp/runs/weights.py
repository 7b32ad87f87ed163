"""Weights on disk, in a format that holds numbers and nothing that runs."""

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, from_numpy, nn

from attnexp.base.errors import UserError
from attnexp.runs import arrays
from attnexp.runs.result import Run

WEIGHTS = "model.safetensors"


def save_weights(run_dir: Path, weights: Mapping[str, Tensor]) -> None:
    """Write a model's `state_dict()`, whole or not at all."""
    arrays.save(run_dir / WEIGHTS, {name: tensor.cpu().numpy() for name, tensor in weights.items()})


def load_weights(run: Run, model: nn.Module) -> None:
    """Fill the model from a finished run. Raises `UserError` when that cannot be done."""
    found = arrays.load(run.path / WEIGHTS, run.read(WEIGHTS))
    try:
        model.load_state_dict({name: from_numpy(array) for name, array in found.items()})
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"{run.path / WEIGHTS} does not hold this run's weights ({reason})."
        ) from error
