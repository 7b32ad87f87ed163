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
    model = config.model
    seed = config.seed_of("init")
    vocab_size = config.data.vocab_size
    network: nn.Module
    if model.fills(Baseline):
        sizes = (vocab_size,) if num_classes == 2 else (vocab_size, num_classes)
        network = build_piece(model, *sizes, seed=seed)
    elif model.fills(Network):
        num_tokens = config.data.max_len
        network = build_piece(model, vocab_size, num_tokens, num_classes, seed=seed)
        if num_classes == 2:
            network.register_forward_hook(_as_log_odds)
    else:
        network = Classifier(config, num_classes)
    init_weights(network, seed)
    return network


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
