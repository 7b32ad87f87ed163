"""Interventions: what is changed about texts, or about a model, while the model is evaluated.

Each is a function of ids (n texts, T tokens) and a model; `name=NUMBER` gives a third argument. It
returns changed ids, or a context manager within which the model computes otherwise, and raises
`NotApplicable` where the model lacks what it acts on. Words are all tokens but padding and the
start of a text. Random draws are the same for every model."""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn import Module

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.data.text import PAD, START, UNKNOWN
from attnexp.model.attention import MultiHeadSelfAttention
from attnexp.model.seams import JoinedPosition, Rotation, Score, ScoreBias

NUMBER = re.compile(r"(shuffle|last|shift_positions|no_head)=[1-9]\d*|unknown=(0?\.\d*[1-9]\d*|1)")
ATTENTION = "attention"  # which changes nothing: that of the untouched model is measured
Context = AbstractContextManager[object]
Args = tuple[Any, ...]  # of a module's call


class NotApplicable(UserError):
    """The model lacks what an intervention acts on."""


def shuffle(ids: Tensor, model: Module, window: float = math.inf) -> Tensor:
    """Words in random order, within the text or within windows of so many words: Pham et al. 2021
    (arXiv 2012.15180), section 2; Sinha et al. 2021 (arXiv 2104.06644) for the windows."""
    is_word = ids > START
    index = is_word.cumsum(dim=1) - 1
    window_of_word = (index / window).floor()
    return _reorder_words(ids, window_of_word + _draw_uniform(ids))


def reverse(ids: Tensor, model: Module) -> Tensor:
    """The last word first: another order in which neighbours stay neighbours."""
    is_word = ids > START
    number = is_word.cumsum(dim=1)
    return _reorder_words(ids, -number.float())


def unknown(ids: Tensor, model: Module, share: float = 0.1) -> Tensor:
    """Each word replaced by the unknown one with this probability."""
    is_word = ids > START
    is_drawn = _draw_uniform(ids) < share
    return ids.masked_fill(is_word & is_drawn, UNKNOWN)


def last(ids: Tensor, model: Module, number: float = 20) -> Tensor:
    """The text cut to its last tokens, so many of them; padding stands for the others."""
    is_token = (ids != PAD).int()
    counts_back = is_token.flip(1).cumsum(dim=1)
    from_end = counts_back.flip(1)  # 1 for the last token
    return ids.masked_fill(from_end > number, PAD)


def no_positions(ids: Tensor, model: Module) -> Context:
    """No table is joined, q and k are not rotated, no bias is added, as `position=none` computes,
    but with weights that were trained with positions (Sinha et al. 2021, arXiv 2104.06644, train
    without them). A concatenated table becomes zeros."""

    def remove(part: Module, args: Args, output: Tensor) -> Tensor:
        if isinstance(part, ScoreBias):
            return torch.zeros_like(output)
        (x, *_) = args
        num_added = output.shape[-1] - x.shape[-1]  # columns of a concatenated table
        return F.pad(x, (num_added, 0))

    return apply_hook(remove, _position_pieces(model))


def shift_positions(ids: Tensor, model: Module, by: float = 1) -> Context:
    """Positions counted from `by` instead of 0. After the last row of a table comes its first."""

    def shift(part: Module, positions: Tensor) -> Tensor:
        shifted = positions + int(by)
        num_tokens = positions.shape[-1]
        return shifted % num_tokens if isinstance(part, JoinedPosition) else shifted

    return _with_positions(model, shift)


def permute_positions(ids: Tensor, model: Module) -> Context:
    """Tokens and padding stay, and get each other's positions in one random order for all texts."""

    def permute(part: Module, positions: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(0)
        order = torch.randperm(positions.shape[-1], generator=generator)
        return positions[..., order.to(positions.device)]

    return _with_positions(model, permute)


def uniform(ids: Tensor, model: Module) -> Context:
    """The same weight for every key that a query may see. Wiegreffe and Pinter 2019 (arXiv
    1908.04626), section 3.2, train with it, as `score=uniform` does; here it comes afterwards."""
    return _with_scores(model, torch.zeros_like)


def self_only(ids: Tensor, model: Module) -> Context:
    """All weight on the token itself: attention computes its values, and mixes nothing."""

    def only_diagonal(scores: Tensor) -> Tensor:
        logs = torch.eye(scores.shape[-1]).log()  # 0 on the diagonal, -inf elsewhere
        return logs.to(scores).expand_as(scores)

    return _with_scores(model, only_diagonal)


def no_head(ids: Tensor, model: Module, number: float = 1) -> Context:
    """One head's output is zero (Michel et al. 2019, arXiv 1905.10650, section 3). Heads count from
    1 through all layers: of 8 in each, the 9th is the first of layer 2."""
    layers = find_parts(model, MultiHeadSelfAttention)
    heads = [(layer, index) for layer in layers for index in range(layer.num_heads)]
    if number > len(heads):
        raise NotApplicable(f"the model has {len(heads)} heads")
    layer, index = heads[int(number) - 1]

    def silence(part: Module, args: Args, values: Tensor) -> Tensor:
        changed = values.clone()  # (B, T, H * width)
        changed.unflatten(-1, (layer.num_heads, -1))[..., index, :] = 0
        return changed

    return apply_hook(silence, [layer.v_proj])


Intervention = Callable[..., Tensor | Context]
FUNCTIONS: list[Intervention] = [shuffle, reverse, unknown, last]  # of texts
FUNCTIONS += [no_positions, shift_positions, permute_positions, uniform, self_only, no_head]
INTERVENTIONS = {function.__name__: function for function in FUNCTIONS}
DEFAULT = """shuffle shuffle=2 shuffle=3 shuffle=5 reverse unknown=0.1 last=20 no_positions
    shift_positions=1 permute_positions uniform self_only no_head attention""".split()


def choose_interventions(words: Iterable[str], num_heads: int) -> list[str]:
    """Interventions that words ask for; `no_head` is one for each head. Raises `UserError`."""
    chosen = []
    for word in words:
        if word != ATTENTION:
            load_intervention(word)
        if word == "no_head" and num_heads:
            chosen += [f"no_head={head}" for head in range(1, num_heads + 1)]
        else:
            chosen.append(word)
    return chosen


def load_intervention(word: str) -> Intervention:
    """The function of an intervention, with its number. Raises `UserError` for a word that is
    neither one of ours nor `my_pkg.mod:function`, and for a number that ours does not take."""
    name, _, number = word.partition("=")
    if ":" in name:
        function: Intervention = pieces.load(name)
    elif name not in INTERVENTIONS:
        choice = ", ".join([*INTERVENTIONS, ATTENTION, "your own my_pkg.mod:function"])
        raise UserError(f"There is no '{word}'. There are {choice}.")
    elif number and not NUMBER.fullmatch(word):
        raise UserError(f"{word}: no such number. Write {name}, or as in last=9, unknown=0.1.")
    else:
        function = INTERVENTIONS[name]
    if not number:
        return function
    return lambda ids, model: function(ids, model, float(number))


def find_parts(model: Module, kinds: Any) -> list[Any]:
    """The parts of a model that are of a class, or of one of several."""
    return [part for part in model.modules() if isinstance(part, kinds)]


@contextmanager
def apply_hook(
    hook: Callable[..., Any], parts: Iterable[Module], *, before: bool = False
) -> Iterator[None]:
    """A hook after, or before, the `forward` of each of these parts, until the context ends."""
    with ExitStack() as stack:
        for part in parts:
            register = part.register_forward_pre_hook if before else part.register_forward_hook
            stack.enter_context(register(hook))
        yield


def _position_pieces(model: Module) -> list[Module]:
    parts = find_parts(model, JoinedPosition | Rotation | ScoreBias)
    if not parts:
        raise NotApplicable("the model has no position piece")
    return parts


def _with_positions(model: Module, change: Callable[[Module, Tensor], Tensor]) -> Context:
    """Other positions, (T,) or (B, T), in every part of the model that takes any."""

    def replace_last(part: Module, args: Args) -> Args:
        *x, positions = args
        return *x, change(part, positions)

    return apply_hook(replace_last, _position_pieces(model), before=True)


def _with_scores(model: Module, change: Callable[[Tensor], Tensor]) -> Context:
    """Other scores (B, H, T queries, T keys) in every attention, and no bias."""
    if not find_parts(model, Score):
        raise NotApplicable("the model has no attention")

    def replace_output(part: Module, args: Args, output: Tensor) -> Tensor:
        if isinstance(part, Score):
            return change(output)
        return torch.zeros_like(output)

    return apply_hook(replace_output, find_parts(model, Score | ScoreBias))


def _reorder_words(ids: Tensor, keys: Tensor) -> Tensor:
    """The words of ids in the order of their keys, (n, T); other tokens stay in place."""
    is_other = ids <= START
    indices = is_other.int().argsort(dim=1, stable=True)  # of words, then of other tokens
    keys = keys.masked_fill(is_other, math.inf)
    order = keys.argsort(dim=1, stable=True)
    in_order = ids.gather(1, order)
    return ids.scatter(1, indices, in_order)


def _draw_uniform(ids: Tensor) -> Tensor:
    """Numbers of the shape of ids, uniform in 0 to 1, the same every time."""
    generator = torch.Generator().manual_seed(0)
    return torch.rand(ids.shape, generator=generator).to(ids.device)
