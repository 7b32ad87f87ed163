"""C27: how far a token's influence reaches.

Shapes: T tokens.
"""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.autograd.functional import jacobian

from attnexp.claims.claim import Claim, Finding
from attnexp.claims.layers import D_MODEL, k_attention, made
from attnexp.claims.measure import EXACT, normal
from attnexp.model.mixers import Convolution, Recurrent


def c27(_results: Path) -> Finding:
    """C27: attention reaches any token in a layer, an RNN in n steps; L width-3 CNN layers ±L.

    A token reaches an output where the output's gradient in it is not zero. That an LSTM takes n
    steps to reach back n: cut between any two tokens, it is the same function as long as its state
    is handed on, and reaches nothing beyond the cut when the state's gradient is not.
    """
    num_tokens = 16
    every = num_tokens * num_tokens
    attention = reach(k_attention().double(), num_tokens)
    lstm, crossing = lstm_reach(num_tokens)
    layers = {depth: cnn_reach(depth, num_tokens) for depth in (1, 2, 3)}
    apart = _apart(num_tokens)
    holds = (
        bool(attention.all())
        and bool((lstm == (apart <= 0)).all())
        and crossing == 0
        and all(bool((seen == (apart.abs() <= depth)).all()) for depth, seen in layers.items())
    )
    widest = ", ".join(f"±{int(apart[seen].abs().max())}" for seen in layers.values())
    return Finding.exact(
        holds,
        f"attention {int(attention.sum())} of {every} pairs; LSTM {int(lstm.sum())} "
        f"({int(lstm.triu(1).sum())} ahead, {crossing} past a cut); 1, 2, 3 CNN layers {widest}",
    )


def reach(layer: Callable[[Tensor], Tensor], num_tokens: int) -> Tensor:
    """Which tokens each output depends on at a random input: (T outputs, T inputs), boolean."""
    gradient = jacobian(layer, normal(1, num_tokens, D_MODEL))  # (1, T, D_out, 1, T, D)
    assert isinstance(gradient, Tensor)
    return (gradient != 0).any(dim=-1).any(dim=2)[0, :, 0]


def lstm_reach(num_tokens: int) -> tuple[Tensor, int]:
    """What an LSTM reaches, and how many pairs of cut and token reach beyond the cut."""
    recurrent = made(lambda: Recurrent(D_MODEL, 8, cell="lstm")).double()
    padding = torch.zeros(1, num_tokens, dtype=torch.bool)
    x = normal(1, num_tokens, D_MODEL).requires_grad_()
    whole = recurrent(x, padding)
    crossing = 0
    for cut in range(1, num_tokens):
        _, (h, c) = recurrent.rnn(x[:, :cut])
        rest = recurrent.rnn(x[:, cut:], (h.detach(), c.detach()))[0]
        same = torch.allclose(rest, whole[:, cut:], rtol=0, atol=EXACT)
        (gradient,) = torch.autograd.grad(rest.sum(), x)
        reached = int((gradient[0, :cut] != 0).any(dim=-1).sum())
        crossing += reached if same else cut
    return reach(lambda tokens: recurrent(tokens, padding), num_tokens), crossing


def cnn_reach(depth: int, num_tokens: int) -> Tensor:
    """What `depth` convolutions of width 3, one upon the other, reach."""
    padding = torch.zeros(1, num_tokens, dtype=torch.bool)

    def stack() -> nn.ModuleList:
        widths = [D_MODEL] + [16] * depth
        return nn.ModuleList(Convolution(*pair, kernel=3) for pair in pairwise(widths))

    layers = made(stack).double()

    def forward(x: Tensor) -> Tensor:
        for layer in layers:
            x = layer(x, padding)
        return x

    return reach(forward, num_tokens)


def _apart(num_tokens: int) -> Tensor:
    """How far each input stands behind each output: (T, T)."""
    position = torch.arange(num_tokens)
    return position[None, :] - position[:, None]


CLAIMS = [
    Claim("C27", "K", "attention reaches any distance; an RNN in n steps, L CNN layers ±L", c27),
]
