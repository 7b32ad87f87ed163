"""Values out of range, and values that exclude each other: told before any data is loaded."""

import math
from typing import Any

from attnexp.config.schema import (
    DataName,
    MaskConfig,
    MaskMode,
    ModelConfig,
    ModelKind,
    Pattern,
    Pooling,
    PositionConfig,
    PositionKind,
    Protocol,
    RunConfig,
    Score,
    SweepConfig,
)
from attnexp.errors import UserError


def check(config: RunConfig) -> None:
    """Raise `UserError` for a value out of range or two values that exclude each other."""
    data, model, position, mask, train = (
        config.data,
        config.model,
        config.position,
        config.mask,
        config.train,
    )
    _at_least(config, 0, "seed", "seeds.init", "seeds.order", "seeds.split")
    _at_least(
        config,
        1,
        *("data.max_len", "data.limit_train", "data.limit_test", "train.batch_size"),
        *("model.d_model", "model.heads", "model.d_head", "model.layers", "model.d_query"),
        *("model.d_key", "model.d_value", "model.feed_forward", "model.kernel", "model.buckets"),
        *("model.hidden", "position.max_distance", "mask.dilation", "mask.block"),
        *("train.epochs", "train.threads"),
    )
    _at_least(config, 4, "data.vocab_size")  # ids 0, 1 and 2 are pad, start, unknown
    _at_least(config, 0, "mask.radius")
    _share(config, "data.holdout", "data.order_fraction", "model.dropout", "model.layer_dropout")
    for key in ("data.holdout", "model.dropout", "model.layer_dropout"):
        if _value(config, key) == 1.0:
            raise UserError(f"{key}=1.0 leaves nothing. Give a number below 1, such as 0.5.")
    for key in ("train.lr", "train.eps"):
        if not 0 < (value := _value(config, key)) < math.inf:
            raise UserError(f"{key} must be a number above 0; got {value}.")

    _check_model(model, position, mask)
    if (train.protocol is Protocol.holdout) != (data.holdout > 0):
        raise UserError(
            f"train.protocol=holdout and data.holdout go together; got "
            f"train.protocol={train.protocol}, data.holdout={data.holdout}. `train=holdout` sets "
            f"both (a tenth of train)."
        )
    if (data.name is DataName.contrast) != (data.order_fraction is not None):
        raise UserError(
            f"data.order_fraction belongs to data=contrast; got data.name={data.name}, "
            f"data.order_fraction={data.order_fraction}. `data=contrast` sets both."
        )
    if data.name is DataName.contrast and data.path is not None:
        raise UserError(
            f"data=contrast is generated and reads no file; got data.path={data.path}. Drop "
            f"data.path, or use data=files."
        )
    if data.name in (DataName.files, DataName.hub) and data.path is None:
        wanted = "a folder or file" if data.name is DataName.files else "a data set's name"
        raise UserError(f"data={data.name} needs data.path: {wanted}. None was given.")


def check_executor(config: SweepConfig) -> None:
    """Likewise for where runs take place."""
    whole = ("workers", "threads", "timeout_min", "mem_gb")
    _at_least(config, 1, *(f"executor.{key}" for key in whole))
    gpu = config.executor.gpu
    if not 0 < gpu <= 1:
        raise UserError(f"executor.gpu must be a share above 0 and at most 1; got {gpu}.")


def _check_model(model: ModelConfig, position: PositionConfig, mask: MaskConfig) -> None:
    d_query, d_key = model.d_query or model.d_head, model.d_key or model.d_head
    if d_query != d_key and model.score is not Score.additive:
        raise UserError(
            f"model.score={model.score} needs queries and keys of one width; got "
            f"model.d_query={d_query}, model.d_key={d_key}. model.score=additive joins any two."
        )
    if position.kind is PositionKind.sinusoidal and model.d_model % 2:
        raise UserError(
            f"position.kind=sinusoidal pairs sines with cosines, so model.d_model must be even; "
            f"got model.d_model={model.d_model}. Use {model.d_model + 1}, or position=none."
        )
    if position.kind is PositionKind.rotary and (d_query % 2 or d_query != d_key):
        raise UserError(
            f"position.kind=rotary turns pairs of columns of queries and keys alike, so both need "
            f"the same even width; got {d_query} and {d_key}. Set model.d_head to an even number."
        )
    has_attention = model.kind in (
        ModelKind.attention,
        ModelKind.cnn_attention,
        ModelKind.lstm_attention,
    )
    if not has_attention and mask != MaskConfig():
        raise UserError(
            f"model.kind={model.kind} has no attention that a mask could act on. Use mask=none, or "
            f"a model with attention."
        )
    inside = (PositionKind.rotary, PositionKind.relative, PositionKind.alibi)
    if not has_attention and position.kind in inside:
        raise UserError(
            f"position.kind={position.kind} acts inside attention, and model.kind={model.kind} has "
            f"none. Use position=none, sinusoidal or learned, or a model with attention."
        )
    if model.kind is ModelKind.tfidf and position.kind is not PositionKind.none:
        raise UserError(
            f"model.kind=tfidf counts words and knows no position; got "
            f"position.kind={position.kind}. Use position=none."
        )
    if model.pooling is Pooling.cls and (not has_attention or mask.pattern is Pattern.causal):
        raise UserError(
            f"model.pooling=cls reads the first token, which must see the others; with "
            f"model.kind={model.kind}, mask.pattern={mask.pattern} it does not. Use "
            f"model.pooling=last, or attention without a causal mask."
        )
    if model.kernel % 2 == 0:
        raise UserError(
            f"model.kernel must be odd, so that a token stands in its middle; got {model.kernel}."
        )
    if model.kind is ModelKind.bilstm and model.d_model % 2:
        raise UserError(
            f"model.kind=bilstm halves model.d_model between its directions; got {model.d_model}."
        )
    _check_widths(model, position)
    _check_mask(model, position, mask)


def _check_widths(model: ModelConfig, position: PositionConfig) -> None:
    """Residual sums need equal widths in every layer."""
    if not model.residual:
        return
    d_input = model.d_model * (2 if position.is_concatenated else 1)
    d_output = (
        model.d_model if model.output_projection else model.heads * (model.d_value or model.d_head)
    )
    if d_input != d_output:
        raise UserError(
            f"model.residual=true adds a layer's input to its output, but the input is {d_input} "
            f"wide and the output {d_output} (model.heads={model.heads} x "
            f"model.d_head={model.d_head}, model.d_model={model.d_model}, "
            f"position.combine={position.combine}). Make the widths equal."
        )


def _check_mask(model: ModelConfig, position: PositionConfig, mask: MaskConfig) -> None:
    needs = {
        "radius": (Pattern.window, Pattern.dilated),
        "dilation": (Pattern.dilated,),
        "block": (Pattern.block_sparse,),
    }
    for key, patterns in needs.items():
        value = getattr(mask, key)
        if (mask.pattern in patterns) != (value is not None):
            raise UserError(
                f"mask.{key} belongs to mask.pattern={' or '.join(patterns)}; got "
                f"mask.pattern={mask.pattern}, mask.{key}={value}. Give both, such as "
                f"mask={patterns[0]} mask.{key}=5, or neither."
            )
    if not mask.restricted:
        return
    wanted = {
        "mask.pattern": (mask.pattern, Pattern.window),
        "mask.mode": (mask.mode, MaskMode.add),
        "model.score": (model.score, Score.dot),
    }
    for key, (given, needed) in wanted.items():
        if given is not needed:
            raise UserError(f"mask.restricted=true needs {key}={needed}; got {key}={given}.")
    if position.kind in (PositionKind.relative, PositionKind.alibi):
        raise UserError(
            f"mask.restricted=true computes no map of scores that position.kind={position.kind} "
            f"could add to. Use mask.restricted=false."
        )


def _value(config: RunConfig | SweepConfig, key: str) -> Any:
    value: Any = config
    for name in key.split("."):
        value = getattr(value, name)
    return value


def _at_least(config: RunConfig | SweepConfig, minimum: int, *keys: str) -> None:
    for key in keys:
        value = _value(config, key)
        if value is not None and value < minimum:
            raise UserError(f"{key} must be at least {minimum}; got {value}.")


def _share(config: RunConfig, *keys: str) -> None:
    for key in keys:
        value = _value(config, key)
        if value is not None and not 0 <= value <= 1:
            raise UserError(f"{key} is a share and must lie between 0 and 1; got {value}.")
