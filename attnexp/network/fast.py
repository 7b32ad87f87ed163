"""Paths of a network that compute the same with less work."""

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
from attnexp.network.classifier import Classifier

REFERENCE = "reference"  # the path of a model that computes as its pieces are written


def take_fast_path(model: nn.Module, precision: Precision = Precision.fp32) -> str:
    """Let a model compute the same with less work; return the name of the path that it then takes.
    Results change by rounding alone. Subclasses of ours, which may compute otherwise, are left out.

    - `window`: attention within a window (`window_attention`), where that saves work.
    - `fused`: torch's attention, which never writes the (T, T) map (Dao et al. 2022).
    - `pooled`: a last layer that is attention alone computes what the pooling keeps (`pool_layer`).
    - `words`: the pooled model by hand (`pool_words`), on the CPU in fp32, for one layer that sees
      only words and an added table of positions."""
    if not isinstance(model, Classifier) or type(model.layers) is not Attention:
        return REFERENCE
    classifier: Any = model
    path = find_fast_path(classifier, precision)
    classifier.fast_path = path
    fast_attention: Any = None
    if path == "window":
        fast_attention = partial(window_attention, radius=classifier.pattern.radius)
    elif is_dot_product(classifier):
        fast_attention = F.scaled_dot_product_attention
    for block in classifier.layers:
        block.attention.fast_attention = fast_attention
    return path


def find_fast_path(classifier: Any, precision: Precision) -> str:
    """Name of the path with the least work that a classifier of our pieces can take."""
    can_fuse = is_dot_product(classifier)
    if can_fuse and has_narrow_window(classifier):
        return "window"
    if not can_pool_early(classifier):
        return "fused" if can_fuse else REFERENCE
    if can_fuse and precision is Precision.fp32 and can_pool_words(classifier):
        return "words"
    return "pooled"


def is_dot_product(classifier: Any) -> bool:
    """Whether weights are softmax(q kᵀ) of the keys that a query sees, without bias and dropout."""
    attention = classifier.layers[-1].attention  # the other layers differ from it in width alone
    has_scores = type(attention.score) is DotProduct and attention.bias is None
    return has_scores and attention.mask_mode == "add" and attention.dropout.p == 0


def has_narrow_window(classifier: Any) -> bool:
    """Whether a block of queries has fewer keys in its window than a text has tokens."""
    if type(classifier.pattern) is not Window:
        return False
    radius = classifier.pattern.radius
    num_keys = max(radius, SMALLEST_BLOCK) + 2 * radius  # of a block: see `window_attention`
    return bool(num_keys < classifier.layers.num_tokens)


def can_pool_early(classifier: Any) -> bool:
    """Whether the last layer is attention alone, and the pooling a weighted sum."""
    last = classifier.layers[-1]
    if type(classifier.pool) not in (Mean, MaskedMean, Last, SummaryToken):
        return False
    is_bare = not last.residual and last.norm == "none" and last.feed_forward is None
    return is_bare and last.dropout.p == 0


def can_pool_words(classifier: Any) -> bool:
    """Whether a single layer on the CPU sees words, and nothing else but an added table."""
    if len(classifier.layers) > 1 or len(classifier.mixers) > 0 or classifier.cls is not None:
        return False
    if classifier.layers[0].attention.rotary is not None or classifier.shuffle_positions:
        return False
    position = classifier.position
    if position is not None:
        is_table = type(position) in (SinusoidalPosition, LearnedPosition)
        if not is_table or position.combine != "add" or classifier.position_dropout.p > 0:
            return False
    embedding = classifier.embedding
    return type(embedding) is WordEmbedding and embedding.weight.device.type == "cpu"
