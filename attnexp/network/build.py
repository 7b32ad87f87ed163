"""The model of a config, built."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from attnexp.config.schema import RunConfig, SeedsConfig
from attnexp.model.init import init_weights
from attnexp.model.seams import Baseline, Network
from attnexp.network.build_piece import Args, build_piece
from attnexp.network.check import check_model, check_start
from attnexp.network.classifier import Classifier
from attnexp.network.guard import guard, kept_streams

_tried = set[str]()  # configs, without their seeds, whose models could be built


def build_model(config: RunConfig, num_classes: int = 2) -> nn.Module:
    """The model of a config, a network or a baseline: ids (B, T) -> logits, (B,) or (B, C). Weights
    depend on the seed of `init` alone. Raises `UserError` for a piece that cannot be built."""
    piece = config.model
    seed = config.seed_of("init")
    vocab_size = config.data.vocab_size
    model: nn.Module
    if piece.fills(Baseline):
        sizes = (vocab_size,) if num_classes == 2 else (vocab_size, num_classes)
        model = build_piece(piece, *sizes, seed=seed)
    elif piece.fills(Network):
        model = build_piece(piece, vocab_size, config.data.max_len, num_classes, seed=seed)
        if num_classes == 2:
            model.register_forward_hook(_as_log_odds)
    else:
        model = Classifier(config, num_classes)
    init_weights(model, seed)
    return model


def _as_log_odds(_module: nn.Module, _inputs: Args, logits: Any) -> Any:
    """Logits of two classes, (B, 2), as log-odds of the second, (B,); others as they are."""
    is_pair = isinstance(logits, Tensor) and logits.shape[1:] == (2,)
    return logits[:, 1] - logits[:, 0] if is_pair else logits


def try_to_build(config: RunConfig) -> None:
    """Build the model of a config with few words, once a process, so that what is wrong with it
    shows before a run; with user code twice, for the checks. Raises `UserError` if that fails."""
    vocab_size = min(config.data.vocab_size, 1000)
    small = replace(config.sized(vocab_size), seed=0, seeds=SeedsConfig())
    tried = repr(small)
    if tried in _tried:
        return
    with kept_streams(), guard(config.user_code):
        # A table that a module of the user draws once, here, is the same in every process.
        torch.manual_seed(0)
        model = build_model(small)
        if config.user_code:
            fresh = build_model(small)
            check_start(model, fresh)
            if config.is_network:  # A baseline has no logits before it is fitted.
                ids = torch.randint(vocab_size, (3, config.data.max_len), dtype=torch.int32)
                check_model(model, fresh, ids, 2)
    _tried.add(tried)
