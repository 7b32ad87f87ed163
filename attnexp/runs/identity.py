"""Identity of runs: the id, the settings of a variant, its label, its seed.

An id counts the settings that affect the result, the seeds, the data's fingerprint, and the syntax,
with docstrings, of every file of model/, network/, training/ and data/ and of own pieces (or their
package).
"""

import functools
import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attnexp.base.errors import UserError
from attnexp.config import pieces
from attnexp.config.compose import compose, foreign_code
from attnexp.config.options import name_of
from attnexp.config.schema import DataConfig, DataName, RunConfig, flatten, to_dict
from attnexp.runs.result import SCHEMA

NOT_OF_A_VARIANT = """out train.device train.threads train.fast data.path data.hub data.config
data.text data.label data.train_split data.test_split data.val_split data.test_share""".split()
"""Settings that, like seeds, define no variant: the output, the machine, the fast path (rounding
alone), and the source of the data, whose fingerprint is in the id."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """The two parts of a run's id."""

    settings: str
    """Twelve hex digits that change with any setting that acts, and with the data."""
    code: dict[str, str]
    """Digests of the files that compute the run, by name, such as `model/positions.py`."""

    @property
    def run_id(self) -> str:
        """The id, such as `3f2a9c01b7de-5c1e88a0`: settings and data, then the code."""
        return f"{self.settings}-{_digest(self.code)[:8]}"


def identify(config: RunConfig, fingerprint: str) -> Identity:
    """The identity of a run. fingerprint: of the content of all that it reads."""
    tree = to_dict(config)
    variant = settings(tree)
    if variant.get("model.vectors"):
        variant["model.vectors"] = "given"  # the fingerprint says which
    seeds = asdict(config.seeds)
    seeds |= {s: config.seed for s, own in seeds.items() if own is None and s != "resample"}
    code = dict(_code_of_attnexp())
    for kind in foreign_code(tree):
        code |= pieces.code_of(kind)
    return Identity(settings=_digest([SCHEMA, fingerprint, variant, seeds])[:12], code=code)


@functools.cache
def _code_of_attnexp() -> dict[str, str]:
    """Digests of the code that this process runs: an edit counts in the next process."""
    package = Path(__file__).parents[1]
    rooms = [package / room for room in ("model", "network", "training", "data")]
    return pieces.syntax(package, [path for room in rooms for path in room.rglob("*.py")])


def _digest(tree: Any) -> str:
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()


def settings(config: dict[str, Any]) -> dict[str, Any]:
    """Settings that make a variant, by key, of a config as `to_dict` gives it."""
    return {
        key: value
        for key, value in flatten(config).items()
        if key not in NOT_OF_A_VARIANT and key.partition(".")[0] not in ("seed", "seeds")
    }


def replicate(config: dict[str, Any]) -> str:
    """Name of a run among those of its variant: its seed, and the seeds of sources that do not
    follow it, as in `0`, `0-init3` or `0-resample0`."""
    seed = config["seed"]
    own = {name: one for name, one in config["seeds"].items() if one is not None}
    other = [f"{s}{one}" for s, one in own.items() if one != seed or s == "resample"]
    return "-".join([str(seed), *other])


def default_label(config: dict[str, Any]) -> str:
    """Label of a run that belongs to no study, such as `imdb attention none mask=causal`: data,
    model and position, then every other piece, and every setting, that is not the default one."""
    own = settings(config)
    named = [f"{key}.kind" for key in ("model", "position") if key in config]
    others = [as_word(key, own[key]) for key in departures(config) if key not in named]
    return " ".join([data_of(config).title, *(name_of(own[key]) for key in named), *others])


def departures(config: dict[str, Any]) -> list[str]:
    """Keys of the choices that are not the default ones, and of the settings that differ from the
    defaults of what is chosen. A user's piece is not imported for this: all its settings count."""
    data, own, foreign = data_of(config), settings(config), foreign_code(config)
    words = [f"data={data.name}", *(["data.path=any"] if data.path else [])]
    default, chosen = default_settings(*words), list[str]()
    for key in [key for key in own if key.endswith((".kind", "train.protocol"))]:
        if key not in default or default[key] != own[key]:  # a choice brings settings of its own
            chosen.append(key)
            words += [as_word(key, own[key])] if own[key] not in foreign else []
            default = default_settings(*words)
    return [key for key in own if key in chosen or key not in default or default[key] != own[key]]


def data_of(config: dict[str, Any]) -> DataConfig:
    """Name and path of the data set of a config as `to_dict` gives it."""
    return DataConfig(name=DataName(config["data"]["name"]), path=config["data"].get("path"))


@functools.cache
def default_settings(*words: str) -> dict[str, Any]:
    """Settings of a run of these words, or of as many of the first as compose."""
    try:
        return settings(to_dict(compose(words)))
    except UserError:
        return default_settings(*words[:-1])


def as_word(key: str, value: Any) -> str:
    """A setting as a user writes it: `position=rotary` instead of its class."""
    section, _, last = key.rpartition(".")
    if last == "kind":
        return f"{section}={name_of(value)}"
    if key == "train.protocol":
        return f"train={value}"
    return f"{key}={value if isinstance(value, str) else json.dumps(value)}"
