"""Weights at the start: Keras's rules, and a random stream for each parameter."""

import hashlib

import torch
from torch import nn

from attnexp.model import seams

SEAMS = (
    *(seams.Embedding, seams.JoinedPosition, seams.Rotation, seams.ScoreBias),
    *(seams.Mixer, seams.Pooling, seams.Score, seams.Layers),
)


def init_weights(model: nn.Module, seed: int) -> None:
    """Initialise every parameter, by its name and shape, as Keras does.

    Embeddings and learned positions uniform in ±0.05; matrices Glorot uniform; recurrent matrices
    orthogonal; biases 0, an LSTM's forget gate 1; LayerNorm's gain 1.

    Each parameter draws from a generator of its own, seeded by `seed` and the parameter's name.
    So two variants with the same seed start from the same weights wherever they share a piece,
    and a comparison between them is paired.

    A piece that is not ours keeps what its constructor made.
    """
    theirs = {
        parameter
        for module in model.modules()
        if isinstance(module, SEAMS) and not is_ours(type(module))
        for parameter in module.parameters()
    }
    for name, parameter in model.named_parameters():
        if parameter in theirs:
            continue
        # Words have the same vectors at the start with n-grams beside them and without.
        name = name.replace("embedding.word.", "embedding.")
        generator = torch.Generator().manual_seed(named_seed(seed, name))
        if name.startswith(("embedding.", "position.", "cls")):
            nn.init.uniform_(parameter, -0.05, 0.05, generator=generator)
        elif "norms." in name and name.endswith("weight"):
            nn.init.ones_(parameter)
        elif parameter.ndim == 1 or ".bias.weight" in name:  # the latter: relative positions
            nn.init.zeros_(parameter)
        elif "weight_hh" in name:
            nn.init.orthogonal_(parameter, generator=generator)
        elif "score." in name and parameter.ndim == 3:  # a matrix for each head
            for matrix in parameter:
                nn.init.xavier_uniform_(matrix, generator=generator)
        else:
            nn.init.xavier_uniform_(parameter, generator=generator)
    for module in model.modules():
        if isinstance(module, nn.LSTM):
            for name, parameter in module.named_parameters():
                if name.startswith("bias_ih"):  # gates stand as input, forget, cell, output
                    _, forget, _, _ = parameter.detach().chunk(4)
                    forget.fill_(1.0)


def is_ours(piece: type) -> bool:
    """Whether a class is part of attnexp."""
    return piece.__module__.startswith("attnexp.")


def named_seed(seed: int, name: str) -> int:
    """A seed for one random stream of a run, independent of every other stream's."""
    digest = hashlib.sha256(f"{seed}/{name}".encode()).digest()
    return int.from_bytes(digest[:7])
