"""Variants: the settings that make one, its label, and the seed that tells its runs apart."""

import functools
import json
from typing import Any

from attnexp.config.options import Tree, flatten, name_of
from attnexp.config.pieces import is_ours
from attnexp.config.schema import DataConfig, DataName, foreign_code, is_seed, to_dict

NOT_COMPARED = "out train.device train.threads train.fast".split()
"""Settings that change no result beyond rounding, so variants and plans are without them."""
SOURCE_OF_DATA = """data.path data.hub data.config data.header data.quotes data.text data.label
data.train_split data.test_split data.val_split data.test_share""".split()
"""Settings of no variant, either: the fingerprint of the data says what they have led to."""


def settings(config: Tree) -> Tree:
    """Settings that make a variant, by key, of a config as `to_dict` gives it."""
    left_out = NOT_COMPARED + SOURCE_OF_DATA
    flat = flatten(config)
    return {key: flat[key] for key in flat if key not in left_out and not is_seed(key)}


def replicate(config: Tree) -> str:
    """Name of a run among those of its variant: its seed, and the seeds of sources that do not
    follow it, as in `0`, `0-init3` or `0-resample0`."""
    seed = config["seed"]
    parts = [str(seed)]
    for source, number in config["seeds"].items():
        follows_seed = number == seed and source != "resample"
        if number is not None and not follows_seed:
            parts.append(f"{source}{number}")
    return "-".join(parts)


def draw_of(seed: str) -> str:
    """The seed that drew the texts of a run, from its name; empty for the splits as they are."""
    return seed.partition("resample")[2]  # `SeedsConfig` has it last.


def default_label(config: Tree) -> str:
    """Label of a run that belongs to no study, such as `imdb attention none mask=causal`: data,
    model and position, then every other piece, and every setting, that is not the default one."""
    values = settings(config)
    named = [key for key in ("model.kind", "position.kind") if key in values]
    words = [data_of(config).title, *(name_of(values[key]) for key in named)]
    words += [as_word(key, values[key]) for key in departures(config) if key not in named]
    return " ".join(words)


def departures(config: Tree) -> list[str]:
    """Keys that differ from the defaults: choices (pieces, protocol) that differ from those of
    `attnexp train data=NAME`, and settings that differ from the defaults under these choices. All
    settings of a user's piece count."""
    data = data_of(config)
    values = settings(config)
    words = [f"data={data.name}"]
    if data.path:
        words.append("data.path=any")  # Defaults depend on whether there is a path, not on which.
    usual = default_settings(*words)
    choices = [key for key in values if key.endswith(".kind") or key == "train.protocol"]
    chosen = [key for key in choices if values[key] != usual.get(key)]
    foreign = foreign_code(config)  # `compose` must not import it, and knows no piece within it.
    for key in chosen:
        if key in usual and values[key] not in foreign:
            words.append(as_word(key, values[key]))
    defaults = default_settings(*words)
    return [key for key in values if key in chosen or (key, values[key]) not in defaults.items()]


def data_of(config: Tree) -> DataConfig:
    """Name and path of the data set of a config as `to_dict` gives it."""
    return DataConfig(name=DataName(config["data"]["name"]), path=config["data"].get("path"))


@functools.cache
def default_settings(*words: str) -> Tree:
    """Settings that make the variant of the run with these words."""
    from attnexp.config.compose import compose

    return settings(to_dict(compose(words)))


def as_word(key: str, value: Any) -> str:
    """A setting as a user writes it: `position=rotary` instead of its class, if that is ours."""
    if key.endswith(".kind"):
        is_foreign = value and not is_ours(value)
        option = value if is_foreign else name_of(value)
        return f"{key.removesuffix('.kind')}={option}"
    if key == "train.protocol":
        return f"train={value}"
    if not isinstance(value, str):
        value = json.dumps(value)
    return f"{key}={value}"
