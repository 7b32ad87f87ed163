"""How much memory a model takes, from its settings alone: before it is built.

Both figures are lower bounds, near where the numbers are large: what is refused for them cannot
fit. A piece of one's own counts as nothing.
"""

from attnexp.config.schema import ModelConfig, Precision, RunConfig

FLOAT = 4
"""Bytes of a number; half of it in bf16."""
COPIES = 4
"""Of a parameter in training: itself, its gradient, and Adam's two means."""


def num_parameters(config: RunConfig) -> int:
    """Numbers that a model holds, trained or not."""
    model, d_model = config.model, config.model.d_model
    assert isinstance(model, ModelConfig)
    rows = config.data.vocab_size
    if model.fills("NgramEmbedding"):
        rows += model.buckets
    if config.position.fills("SinusoidalPosition", "LearnedPosition"):
        rows += config.data.max_len
    mixers = [piece for piece in (model, model.before) if piece.fills("Convolution", "Recurrent")]
    mixed = sum(getattr(mixer, "kernel", 1) * d_model**2 for mixer in mixers)
    layers = 0
    if model.fills("Attention"):
        per_layer = config.position.fills("RelativeBias") and 2 * config.position.max_distance
        per_layer = model.heads * int(per_layer)
        d_input = d_model
        d_output = d_model if model.output_projection else model.heads * _widths(model)[-1]
        per_layer += 2 * d_output * (model.feed_forward or 0)
        projected = model.heads * sum(_widths(model))
        layers = model.layers * per_layer + projected * (d_input + (model.layers - 1) * d_output)
    return int(rows * d_model + mixed + layers + (model.hidden or 0))


def training_bytes(config: RunConfig, num_reviews: int) -> int:
    """Of parameters, gradients and Adam, and of what a batch keeps for its gradients.

    num_reviews: in train; no batch is larger.
    """
    model, num_tokens = config.model, config.data.max_len
    assert isinstance(model, ModelConfig)
    token = model.d_model
    if model.fills("Attention"):
        per_key = model.d_head if model.score.fills("Additive") else 1
        maps = 0 if config.mask.fills("RestrictedWindow") else num_tokens * per_key
        token += model.layers * model.heads * (sum(_widths(model)) + maps)
    batch = min(config.train.batch_size, num_reviews)
    frozen = config.data.vocab_size * model.d_model if model.freeze else 0
    kept = batch * num_tokens * token // (2 if config.train.precision is Precision.bf16 else 1)
    return FLOAT * int(COPIES * (num_parameters(config) - frozen) + frozen + kept)


def _widths(model: ModelConfig) -> list[int]:
    """Columns of a head's projections, the values' last; uniform scores need no others."""
    given = [model.d_value] if model.score.fills("Uniform") else [
        model.d_query, model.d_key, model.d_value
    ]  # fmt: skip
    return [width or model.d_head for width in given]
