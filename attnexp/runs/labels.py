"""Variants: the settings that make one, its label, and the seed that tells its runs apart."""

import functools
import json
from typing import Any

from attnexp.config.options import name_of
from attnexp.config.pieces import is_ours
from attnexp.config.schema import DataConfig, DataName, foreign_code, is_seed, to_dict
from attnexp.config.settings import Flat, Tree, flatten

NOT_COMPARED = "out train.device train.threads train.fast".split()
"""Settings that change no result beyond rounding, so variants and plans are without them."""
SOURCE_OF_DATA = """data.path data.hub data.config data.header data.quotes data.text data.label
data.train_split data.test_split data.val_split data.test_share""".split()
"""Settings of no variant, either: the fingerprint of the data says what they have led to."""


def variant_settings(config: Tree) -> Flat:
    """Settings that make a variant, by key, of a config as `to_dict` gives it."""
    left_out = NOT_COMPARED + SOURCE_OF_DATA
    flat = flatten(config)
    return {key: flat[key] for key in flat if key not in left_out and not is_seed(key)}


def seed_name(config: Tree) -> str:
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
    values = variant_settings(config)
    named = [key for key in ("model.kind", "position.kind") if key in values]
    words = [data_of(config).title, *(name_of(values[key]) for key in named)]
    words += [as_word(key, values[key]) for key in departures(config) if key not in named]
    return " ".join(words)


def departures(config: Tree) -> list[str]:
    """Keys that differ from the defaults. Choices (pieces, protocol) are compared with those of
    `attnexp train data=NAME`, then all settings with the defaults under these choices. Code of the
    user's is not imported for this, so that all settings of such a piece count."""
    data = data_of(config)
    values = variant_settings(config)
    words = [f"data={data.name}"]
    if data.path:
        words.append("data.path=any")  # Defaults depend on whether there is a path, not on which.
    of_data = default_settings(*words)
    changed = [key for key in values if _is_choice(key) and values[key] != of_data.get(key)]
    foreign = foreign_code(config)
    for key in changed:
        if key in of_data and values[key] not in foreign:
            words.append(as_word(key, values[key]))
    # These have the changed choices, and no setting of a user's piece.
    defaults = default_settings(*words)
    others = [key for key in values if key not in defaults or values[key] != defaults[key]]
    return [key for key in values if key in changed or key in others]


def _is_choice(key: str) -> bool:
    return key.endswith(".kind") or key == "train.protocol"


def data_of(config: Tree) -> DataConfig:
    """Name and path of the data set of a config as `to_dict` gives it."""
    return DataConfig(name=DataName(config["data"]["name"]), path=config["data"].get("path"))


@functools.cache
def default_settings(*words: str) -> Flat:
    """Settings that make the variant of the run with these words."""
    from attnexp.config.compose import compose  # Readers of results need not wait for Hydra.

    return variant_settings(to_dict(compose(words)))


def as_word(key: str, value: Any) -> str:
    """A setting as a user writes it: `position=rotary` instead of its class, if that is ours."""
    if key.endswith(".kind"):
        option = name_of(value) if not value or is_ours(value) else value
        return f"{key.removesuffix('.kind')}={option}"
    if key == "train.protocol":
        return f"train={value}"
    if not isinstance(value, str):
        value = json.dumps(value)
    return f"{key}={value}"
