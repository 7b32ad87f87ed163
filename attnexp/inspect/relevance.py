"""Where attention looks, and how much each token counts by attention, by gradient and by erasure.

Jain and Wallace 2019 (arXiv 1902.10186) ask whether these agree.

Shapes: B batch, T tokens, H heads of a layer, C classes.
"""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from attnexp.data.text import PAD
from attnexp.inspect.interventions import attentions
from attnexp.model.classifier import Classifier


@torch.no_grad()
def forward(model: nn.Module, ids: Tensor) -> tuple[Tensor, list[Tensor]]:
    """Logits, and the attention map of every layer: (B, H, T queries, T keys).

    A summary token in front counts as one of T.
    """
    seen: list[Any] = []
    with ExitStack() as hooks:
        for layer in (layers := attentions(model)):
            hook = layer.register_forward_pre_hook(lambda _, given: seen.append(given))
            hooks.enter_context(hook)
        logits = model(ids)
    return logits, [layer.weights(*given) for layer, given in zip(layers, seen, strict=True)]


def attention(model: nn.Module, ids: Tensor) -> Tensor:
    """What each token receives in the first layer, on average over heads and words: (B, T)."""
    _, maps = forward(model, ids)
    if not maps:
        raise ValueError("the model has no attention")
    real = (ids != PAD)[:, :, None]
    received = maps[0].mean(dim=1)[:, -ids.shape[1] :, -ids.shape[1] :]  # without a summary token
    return (received * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)


def gradient(model: nn.Module, ids: Tensor) -> Tensor:
    """Gradient of the answer's score times the embedding, summed over its width: (B, T)."""
    if not isinstance(model, Classifier):
        raise ValueError("a model that is no network has no gradient")
    embedded: list[Tensor] = []

    def watch(part: nn.Module, given: object, x: Tensor) -> Tensor:
        embedded.append(x.detach().requires_grad_())
        return embedded[0]

    with (
        torch.backends.cudnn.flags(enabled=False),  # its LSTM has no gradient in evaluation
        model.embedding.register_forward_hook(watch),
    ):
        scores = _by_class(model(ids)).amax(dim=-1)
        (slope,) = torch.autograd.grad(scores.sum(), embedded)
    return (slope * embedded[0]).sum(dim=-1).detach()


@torch.no_grad()
def erasure(model: nn.Module, ids: Tensor) -> Tensor:
    """How much the answer's score falls where padding stands instead of a token: (B, T)."""
    before = _by_class(model(ids))
    answer = before.argmax(dim=-1, keepdim=True)
    place = torch.arange(ids.shape[1], device=ids.device)
    after = (_by_class(model(ids.masked_fill(place == i, PAD))) for i in place)
    return torch.cat([(before - scores).gather(-1, answer) for scores in after], dim=-1)


WHY: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    function.__name__: function for function in (attention, gradient, erasure)
}


def heads(model: nn.Module, ids: Tensor) -> dict[str, list[float]]:
    """Entropy of attention over its maximum, and how many tokens away it looks, by head.

    Mean over the words that look. The maximum is the logarithm of the number of keys that get any
    weight.
    """
    entropy, distance = list[float](), list[float]()
    for weights in forward(model, ids)[1]:
        num_tokens = weights.shape[-1]
        real = F.pad(ids != PAD, (num_tokens - ids.shape[1], 0), value=True)  # (B, T)
        place = torch.arange(num_tokens, device=ids.device)
        far = (weights * (place[:, None] - place).abs()).sum(dim=-1)  # (B, H, T)
        highest = (weights > 0).sum(dim=-1).clamp(min=2).log()
        share = torch.special.entr(weights).sum(dim=-1) / highest
        entropy += share.transpose(1, 2)[real].mean(dim=0).tolist()
        distance += far.transpose(1, 2)[real].mean(dim=0).tolist()
    return {"entropy": entropy, "distance": distance}


def _by_class(logits: Tensor) -> Tensor:
    """Scores of every class, (B, C), from logits (B,) or (B, C)."""
    return torch.stack([-logits, logits], dim=-1) if logits.ndim == 1 else logits
