"""Weights at the start: Keras's rules, and a random stream for each parameter."""

import hashlib
from collections.abc import Callable
from functools import partial

import torch
from torch import nn

Stream = Callable[[str], torch.Generator]
"""From the name of a parameter within its module to the generator that draws its first values."""


def init_weights(model: nn.Module, seed: int) -> None:
    """Initialise every module that says how by `init_parameters(stream)`; others are left alone.
    `stream(name)` is a generator for each parameter, seeded by `seed` and the parameter's full name
    in the model: variants start alike in the pieces that they share at one place."""
    for path, module in model.named_modules():
        if hasattr(module, "init_parameters"):
            module.init_parameters(partial(_generator, seed, path))


def _generator(seed: int, path: str, name: str) -> torch.Generator:
    """The generator of a parameter of the module at a path of the model."""
    full_name = f"{path}.{name}" if path else name
    return torch.Generator().manual_seed(named_seed(seed, full_name))


class KerasInit(nn.Module):
    """A module whose own layers of torch start as Keras starts them: see `init_layer`."""

    def init_parameters(self, stream: Stream) -> None:
        """Each parameter from a stream of its own."""
        for name, child in self.named_children():
            if isinstance(child, nn.Linear | nn.Conv1d | nn.LSTM):
                init_layer(child, stream, name)


def init_layer(layer: nn.Module, stream: Stream, path: str) -> None:
    """Initialise a layer of torch as Keras does, at its path in the module whose stream it is.
    Matrices Glorot uniform, recurrent ones orthogonal; biases 0, an LSTM's forget gate 1."""
    for name, parameter in layer.named_parameters():
        if parameter.ndim == 1:
            nn.init.zeros_(parameter)
        elif name.startswith("weight_hh"):
            nn.init.orthogonal_(parameter, generator=stream(f"{path}.{name}"))
        else:
            nn.init.xavier_uniform_(parameter, generator=stream(f"{path}.{name}"))
        if name.startswith("bias_ih"):
            # The four gates of an LSTM stand as input, forget, cell, output.
            _, forget, _, _ = parameter.detach().chunk(4)
            forget.fill_(1.0)


def init_table(table: torch.Tensor, generator: torch.Generator) -> None:
    """Initialise embeddings, or vectors that join them, uniformly in ±0.05, as Keras does."""
    nn.init.uniform_(table, -0.05, 0.05, generator=generator)


def named_seed(seed: int, name: str) -> int:
    """A seed for one random stream of a run, independent of every other stream's."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:7])
