"""The fast path of a network, which computes the same with less work.

A path is two attributes, `Classifier.fast_path` and `MultiHeadSelfAttention.fast_attention`, which
are set here and read there.
"""

from functools import partial
from typing import Any

import torch.nn.functional as F
from torch import nn

from attnexp.config.schema import Precision, TrainConfig
from attnexp.model.attention import Attention
from attnexp.model.mixers import Last, MaskedMean, Mean, SummaryToken, WordEmbedding
from attnexp.model.positions import LearnedPosition, SinusoidalPosition
from attnexp.model.scores import DotProduct, Window
from attnexp.model.window import SMALLEST_BLOCK, window_attention
from attnexp.network.classifier import Classifier, FastPath


def choose_path(model: nn.Module, config: TrainConfig) -> str:
    """Let a model take its fast path, if `train.fast`; return the name of the path."""
    return str(take_fast_path(model, config.precision) if config.fast else FastPath.reference)


def take_fast_path(model: nn.Module, precision: Precision = Precision.fp32) -> FastPath:
    """Set the path of a model to the one with least work, if all its pieces that this skips are our
    own, and no subclasses of them; return it."""
    if not isinstance(model, Classifier) or type(model.layers) is not Attention:
        return FastPath.reference
    classifier: Any = model  # since mypy takes whatever a module holds for a Tensor or a Module
    is_dot = is_dot_product(classifier)
    fast_attention: Any = F.scaled_dot_product_attention if is_dot else None
    if is_dot and has_narrow_window(classifier):
        path = FastPath.window
        fast_attention = partial(window_attention, radius=classifier.mask.radius)
    elif can_pool_early(classifier):
        by_hand = is_dot and precision is Precision.fp32 and can_pool_words(classifier)
        path = FastPath.words if by_hand else FastPath.pooled
    else:
        path = FastPath.fused if is_dot else FastPath.reference
    classifier.fast_path = path
    for block in classifier.layers:
        block.attention.fast_attention = fast_attention
    return path


def is_dot_product(classifier: Any) -> bool:
    """Whether weights are softmax(q kᵀ) of the keys that a query sees, without bias and dropout."""
    attention = classifier.layers[-1].attention  # the other layers differ from it in width alone
    if type(attention.score) is not DotProduct or attention.bias is not None:
        return False
    return bool(attention.mask_mode == "add" and attention.dropout.p == 0)


def has_narrow_window(classifier: Any) -> bool:
    """Whether a block of queries has fewer keys in its window than a text has tokens."""
    if type(classifier.mask) is not Window:
        return False
    radius = classifier.mask.radius
    num_keys = max(radius, SMALLEST_BLOCK) + 2 * radius  # of a block: see `window_attention`
    return bool(num_keys < classifier.layers.num_tokens)


def can_pool_early(classifier: Any) -> bool:
    """Whether the last layer is attention alone, and the pooling a weighted sum."""
    if type(classifier.pool) not in (Mean, MaskedMean, Last, SummaryToken):
        return False
    last = classifier.layers[-1]
    if last.residual or last.feed_forward is not None:
        return False
    return bool(last.norm == "none" and last.dropout.p == 0)


def can_pool_words(classifier: Any) -> bool:
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
