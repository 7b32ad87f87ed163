"""The fast path: the same function as the reference, computed with less work.

Results change by rounding alone. Three identities, each used where it holds and nowhere else:

- window: under `scores.Window`, blocks of queries meet only the keys they can reach, in O(T radius)
  instead of O(T²): `window.window_attention`.
- pooled: where the last layer is bare attention, and the pooling sums positions with weights that
  do not depend on them, half of its attention products and a third of its projections need not be
  computed: `attention.Block.pooled`.
- fused: scaled dot-product scores go through torch's fused attention, which never writes the
  (T, T) map to memory (Dao et al. 2022): `attention.MultiHeadSelfAttention.forward`.
"""

from typing import Any

from torch import nn

from attnexp.model.attention import Attention, Block, MultiHeadSelfAttention
from attnexp.model.mixers import Last, MaskedMean, Mean, SummaryToken
from attnexp.model.scores import DotProduct, Window
from attnexp.model.window import saves_work

REFERENCE = "reference"
"""Name of the path of a model that computes as its code reads."""


def take_fast_path(model: nn.Module) -> str:
    """Tell a model to compute the same with less work; return the name of the path it then takes.

    `window` where it is narrow enough to save work, else `pooled` for the last layer and `fused`
    for the others, else `reference`. Subclasses of our pieces, which may compute something else,
    take no part.
    """
    layers: Any = getattr(model, "layers", None)
    if type(layers) is not Attention:
        return REFERENCE
    attentions = [block.attention for block in layers]
    if {*map(type, layers), *map(type, attentions)} != {Block, MultiHeadSelfAttention}:
        return REFERENCE
    can_fuse = all(
        type(one.score) is DotProduct
        and one.bias is None
        and one.mask_mode == "add"
        and one.dropout.p == 0
        for one in attentions
    )
    classifier: Any = model
    pattern, last = classifier.pattern, layers[-1]
    if can_fuse and type(pattern) is Window and saves_work(pattern.radius, layers.num_tokens):
        classifier.pattern = None
        for attention in attentions:
            attention.window = pattern.radius
        return "window"
    classifier.pools_early = (
        type(classifier.pool) in (Mean, MaskedMean, Last, SummaryToken)
        and last.feed_forward is None
        and not last.residual
        and last.norm == "none"
        and last.dropout.p == 0
    )
    for attention in attentions:
        attention.fused = can_fuse
    return "pooled" if classifier.pools_early else "fused" if can_fuse else REFERENCE
