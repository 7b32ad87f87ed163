"""Checks of a config: bounds of each value, and values that exclude each other."""

import math
import operator
import re
from pathlib import Path
from typing import Any

from attnexp.base import modules
from attnexp.base.errors import UserError
from attnexp.config.pieces import Piece
from attnexp.config.schema import TOKENIZERS, DataName, ModelConfig, RunConfig, did_you_mean, walk

WIDTHS = (
    *("heads", "d_head", "d_query", "d_key", "d_value"),
    *("score", "residual", "output_projection"),
)
"""Settings of `block.Attention` that must fit each other. Other layers may lack them."""


def check_bounds(config: Any) -> None:
    """Raise `UserError` for a value that its own field does not allow."""
    for key, section, f in walk(config):
        value = getattr(section, f.name)
        bounds = f.metadata.get("bounds", ())
        bits = 31 if key.startswith("mask.") else 63  # a mask multiplies two of them
        if isinstance(value, int) and abs(value) >= 2**bits:
            raise UserError(f"{key} must be below 2^{bits} ({2**bits:.1e}); got {value}.")
        endless = isinstance(value, float) and not math.isfinite(value)
        if endless or any(violated(value, bound) for bound in bounds):
            wanted = "a finite number" if endless else format_bounds(bounds)
            raise UserError(f"{key} must be {wanted}; got {value}.")


def check(config: RunConfig) -> None:
    """Raise `UserError` for two values that exclude each other."""
    data = config.data
    if data.name is DataName.contrast and data.path is not None:
        raise UserError(
            f"data=contrast is generated and reads no file; got data.path={data.path}. Drop "
            f"data.path, or use data=files."
        )
    if data.name in (DataName.files, DataName.hub) and data.path is None:
        wanted = "a folder or file" if data.name is DataName.files else "a data set's name"
        raise UserError(f"data={data.name} needs data.path: {wanted}. None was given.")
    if data.tokenizer not in TOKENIZERS:
        _check_own_tokenizer(data.tokenizer)
    if not config.is_network:
        if config.position.kind or config.mask.kind:
            raise UserError(
                f"model={config.model.name} is fitted in one go and knows neither position nor "
                f"mask; got position={config.position.name}, mask={config.mask.name}. Use none of "
                f"them."
            )
        return
    assert isinstance(config.model, ModelConfig)
    _check_surroundings(config, config.model)
    if config.model.fills("Layers"):
        _check_attention(config)
    else:
        _check_without_attention(config)


def _check_own_tokenizer(name: str) -> None:
    """Raise `UserError` unless it reads `module:function`, and that module is there."""
    if not re.fullmatch(r"[\w.]+:\w+", name):
        raise UserError(
            f"data.tokenizer={name}: there is no such tokenizer.{did_you_mean(name, TOKENIZERS)} "
            f"Choose one of: {', '.join(TOKENIZERS)}; or give a function from a text to the list "
            f"of its tokens, as module:function."
        )
    module = name.partition(":")[0]
    try:
        found = modules.find(module)
    except (ImportError, ValueError):
        found = None
    if found is None or not found.has_location:
        raise UserError(
            f"data.tokenizer={name}: there is no file of module '{module}' in {Path.cwd()} or on "
            f"Python's path. Call attnexp from the folder that holds it, or set PYTHONPATH."
        )


def _check_surroundings(config: RunConfig, model: ModelConfig) -> None:
    """Raise `UserError` for a width that breaks a bound of a piece's positional arguments."""
    widths: dict[str, tuple[str, Any]] = {"d_model": ("model.d_model", model.d_model)}
    if _has_widths(model):
        key = "model.d_query" if model.d_query else "model.d_head"
        widths["d_head"] = key, model.d_query or model.d_head
    for place, piece in {
        "model": model,
        "model.before": model.before,
        "position": config.position,
    }.items():
        for name, bounds in piece.given.items():
            key, value = widths.get(name, ("", None))
            if any(violated(value, bound) for bound in bounds):
                raise UserError(
                    f"{place}={piece.name} needs {key} to be {format_bounds(bounds)}; got "
                    f"{key}={value}. Use {value + 1}, or another {place}."
                )


def _check_without_attention(config: RunConfig) -> None:
    model, position, mask = config.model, config.position, config.mask
    if mask.kind or mask.padding or mask.query:
        raise UserError(
            f"model={model.name} has no attention that a mask could act on. Use mask=none, or a "
            f"model with attention."
        )
    if position.fills("Rotation", "ScoreBias"):
        raise UserError(
            f"position={position.name} acts inside attention, and model={model.name} has none. Use "
            f"position=none, sinusoidal or learned, or a model with attention."
        )
    if model.pooling.fills("SummaryToken"):
        raise UserError(
            f"model.pooling=cls reads the first token, which must see the others; with "
            f"model={model.name} it does not. Use model.pooling=last, or attention."
        )
    mixes = model.fills("Mixer") or model.before.kind
    if position.kind and position.shuffled and not mixes and model.pooling.fills("Mean"):
        raise UserError(
            f"position.shuffled=true changes nothing with model={model.name}: a mean over all "
            f"places is the same in any order. Use another model or model.pooling."
        )


def _has_widths(model: Piece) -> bool:
    """Whether these are layers with the settings of `block.Attention`."""
    return model.fills("Attention") and all(hasattr(model, name) for name in WIDTHS)


def _check_attention(config: RunConfig) -> None:
    model, position, mask = config.model, config.position, config.mask
    if model.pooling.fills("SummaryToken") and mask.fills("Causal"):
        raise UserError(
            "model.pooling=cls reads the first token, which must see the others; with mask=causal "
            "it does not. Use model.pooling=last, or attention without a causal mask."
        )
    if not _has_widths(model):
        return
    widths = [model.d_query, model.d_key, model.d_value]
    d_query, d_key = model.d_query or model.d_head, model.d_key or model.d_head
    if all(widths) and not model.score.fills("Additive"):
        raise UserError(
            f"model.d_query, d_key and d_value are all given ({', '.join(map(str, widths))}), and "
            f"model.d_head sets nothing else. Set that, and only what differs from it."
        )
    if d_query != d_key and model.score.fills("DotProduct", "Cosine", "Uniform"):
        raise UserError(
            f"model.score={model.score.name} needs queries and keys of one width; got "
            f"model.d_query={d_query}, model.d_key={d_key}. model.score=additive joins any two."
        )
    if position.fills("Rotation") and d_query != d_key:
        raise UserError(
            f"position={position.name} turns columns of queries and keys alike, so both need the "
            f"same width; got {d_query} and {d_key}. Leave model.d_query and model.d_key out."
        )
    if position.fills("Rotation") and model.score.fills("Uniform"):
        raise UserError(
            f"model.score=uniform reads neither queries nor keys, and position={position.name} "
            f"turns nothing else. Use another of the two."
        )
    d_input = model.d_model * (2 if getattr(position, "combine", "") == "concat" else 1)
    d_output = (
        model.d_model if model.output_projection else model.heads * (model.d_value or model.d_head)
    )
    if model.residual and d_input != d_output:
        raise UserError(
            f"model.residual=true adds a layer's input to its output, but the input is {d_input} "
            f"wide and the output {d_output} (model.heads={model.heads} x "
            f"model.d_head={model.d_head}, model.d_model={model.d_model}, "
            f"position={position.name}). Make the widths equal."
        )


def violated(value: Any, bound: str) -> bool:
    """Whether a value breaks a bound such as `>= 1` or `even`. None breaks no bound."""
    if value is None:
        return False
    if bound in ("odd", "even"):
        return bool(value % 2) != (bound == "odd")
    sign, limit = bound.split()
    compare = {">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt}[sign]
    return not compare(value, float(limit))


def format_bounds(bounds: tuple[str, ...]) -> str:
    """`at least 1 and odd`."""
    words = {">=": "at least", ">": "above", "<=": "at most", "<": "below"}
    return " and ".join(
        f"{words[sign]} {limit}" if limit else sign
        for sign, _, limit in (bound.partition(" ") for bound in bounds)
    )
