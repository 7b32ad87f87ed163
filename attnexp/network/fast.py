"""Paths of a network that compute the same with less work."""

from typing import Any

from torch import nn

from attnexp.config.schema import Precision
from attnexp.model.attention import Attention
from attnexp.model.mixers import Last, MaskedMean, Mean, SummaryToken, WordEmbedding
from attnexp.model.positions import LearnedPosition, SinusoidalPosition
from attnexp.model.scores import DotProduct, Window
from attnexp.model.window import SMALLEST_BLOCK

REFERENCE = "reference"
"""Name of the path of a model that computes as its code reads: see `take_fast_path`."""


def take_fast_path(model: nn.Module, precision: Precision = Precision.fp32) -> str:
    """Tell a model to compute the same with less work; return the name of the path it then takes.

    Results change by rounding alone. Subclasses of ours, which may compute otherwise, take no part.
    `window` (`window_attention`) where it saves work; else `pooled` (`Block.pooled`) where the last
    layer is bare attention and the pooling linear, and `fused` (torch's attention, which never
    writes the (T, T) map; Dao et al. 2022) for the other layers. `words` (`pool_words`) is `pooled`
    by hand, on the CPU in fp32, of one layer that reads nothing but words and a table of positions.
    """
    if type(getattr(model, "layers", None)) is not Attention:
        return REFERENCE
    classifier: Any = model
    layers, last, pattern = classifier.layers, classifier.layers[-1], classifier.pattern
    attention = last.attention  # the other layers differ from it in width alone
    plain = type(attention.score) is DotProduct and attention.bias is None
    can_fuse = plain and attention.mask_mode == "add" and attention.dropout.p == 0
    radius = pattern.radius if type(pattern) is Window else layers.num_tokens
    if can_fuse and max(radius, SMALLEST_BLOCK) + 2 * radius < layers.num_tokens:
        classifier.pattern = None
        for block in layers:
            block.attention.window = radius
        return "window"
    bare = last.feed_forward is None and not last.residual and last.norm == "none"
    is_linear = type(classifier.pool) in (Mean, MaskedMean, Last, SummaryToken)
    classifier.pools_early = is_linear and bare and last.dropout.p == 0
    for block in layers:
        block.attention.fused = can_fuse
    is_fp32 = precision is Precision.fp32
    by_hand = classifier.pools_early and can_fuse and is_fp32 and reads_words(classifier)
    classifier.pools_words = by_hand
    if by_hand:
        return "words"
    return "pooled" if classifier.pools_early else "fused" if can_fuse else REFERENCE


def reads_words(classifier: Any) -> bool:
    """Whether the only layer reads vectors of words, plus a table of positions if anything."""
    position = classifier.position
    has_table = type(position) in (SinusoidalPosition, LearnedPosition)
    adds_table = has_table and position.combine == "add" and classifier.position_dropout.p == 0
    return (
        len(classifier.layers) == 1
        and type(classifier.embedding) is WordEmbedding
        and classifier.embedding.weight.device.type == "cpu"
        and (position is None or (adds_table and not classifier.shuffle_positions))
        and not classifier.mixers
        and classifier.cls is None
        and classifier.layers[0].attention.rotary is None
    )
