"""The fast path of a network, which computes the same with less work.

A path is two attributes, set here: `Classifier.fast_path` and `fast_attention` of its heads."""

from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import nn

from attnexp.config.schema import Precision
from attnexp.model.attention import Attention
from attnexp.model.mixers import Last, MaskedMean, Mean, SummaryToken, WordEmbedding
from attnexp.model.positions import LearnedPosition, SinusoidalPosition
from attnexp.model.scores import DotProduct, Window
from attnexp.model.window import SMALLEST_BLOCK, window_attention
from attnexp.network.classifier import Classifier, FastPath


def take_fast_path(model: nn.Module, precision: Precision = Precision.fp32) -> FastPath:
    """Set the path with the least work and return it. It skips our own pieces, not subclasses."""
    if not isinstance(model, Classifier) or type(model.layers) is not Attention:
        return FastPath.reference
    classifier: Any = model  # since mypy takes whatever a module holds for a Tensor or a Module
    path = _choose_path(classifier, precision)
    classifier.fast_path = path
    fast_attention: Any = None
    if path is FastPath.window:
        fast_attention = partial(window_attention, radius=classifier.mask.radius)
    elif _is_dot_product(classifier):
        fast_attention = F.scaled_dot_product_attention
    for block in classifier.layers:
        block.attention.fast_attention = fast_attention
    return path


def _choose_path(classifier: Any, precision: Precision) -> FastPath:
    """The path with the least work."""
    is_dot = _is_dot_product(classifier)
    if is_dot and _has_narrow_window(classifier):
        return FastPath.window
    if _can_pool_early(classifier):
        by_hand = is_dot and precision is Precision.fp32 and _can_pool_words(classifier)
        return FastPath.words if by_hand else FastPath.pooled
    return FastPath.fused if is_dot else FastPath.reference


def _is_dot_product(classifier: Any) -> bool:
    """Whether weights are softmax(q kᵀ) of the keys that a query sees, without bias and dropout."""
    attention = classifier.layers[-1].attention  # the other layers differ from it in width alone
    if type(attention.score) is not DotProduct or attention.bias is not None:
        return False
    return bool(attention.mask_mode == "add" and attention.dropout.p == 0)


def _has_narrow_window(classifier: Any) -> bool:
    """Whether a block of queries has fewer keys in its window than a text has tokens."""
    if type(classifier.mask) is not Window:
        return False
    radius = classifier.mask.radius
    num_keys = max(radius, SMALLEST_BLOCK) + 2 * radius  # of a block: see `window_attention`
    return bool(num_keys < classifier.layers.num_tokens)


def _can_pool_early(classifier: Any) -> bool:
    """Whether the last layer is attention alone, and the pooling a weighted sum."""
    if type(classifier.pool) not in (Mean, MaskedMean, Last, SummaryToken):
        return False
    last = classifier.layers[-1]
    if last.residual or last.feed_forward is not None:
        return False
    return bool(last.norm == "none" and last.dropout.p == 0)


def _can_pool_words(classifier: Any) -> bool:
    """Whether a single layer on the CPU sees words, and nothing else but an added table."""
    embedding = classifier.embedding
    if type(embedding) is not WordEmbedding or not embedding.weight.is_cpu:
        return False
    if len(classifier.layers) > 1 or len(classifier.mixers) > 0 or classifier.cls is not None:
        return False
    if classifier.layers[0].attention.rotary is not None or classifier.shuffle_positions:
        return False
    position = classifier.position
    if position is None:
        return True
    is_table = type(position) in (SinusoidalPosition, LearnedPosition)
    return is_table and position.combine == "add" and classifier.position_dropout.p == 0
