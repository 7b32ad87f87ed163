"""Identity of runs: the id of a run, the settings of its variant, its seed.

An id counts the code that computes the figures of a run: what imports lead to from the training
loop, from the modules of the chosen pieces and from that of the tokenizer. Imports are followed
only within packages that compute results and the user's own code; what other packages do to a run
is in its settings and in the fingerprint of its data.
"""

import functools
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from attnexp.base.code import digests, expect
from attnexp.base.errors import RunFailed, UserError
from attnexp.config.compose import compose
from attnexp.config.options import name_of
from attnexp.config.pieces import Piece
from attnexp.config.schema import (
    TOKENIZERS,
    DataConfig,
    DataName,
    RunConfig,
    flatten,
    to_dict,
    walk,
)
from attnexp.config.words import quoted
from attnexp.runs.result import SCHEMA

LOOP = "attnexp.training.loop"
TEXT = "attnexp.data.text"

ROOMS = ("attnexp.model.", "attnexp.training.", "attnexp.data.")
"""Packages that compute results, in which imports are followed."""

NOT_OF_A_VARIANT = (
    *("out", "train.device", "train.threads", "train.fast"),
    *("data.path", "data.hub", "data.config", "data.text", "data.label"),
    *("data.train_split", "data.test_split", "data.test_share"),
)
"""Settings that, like seeds, do not define a variant: the output folder, the source of the data
(their fingerprint is in the id), the machine, and the fast path, which changes results by rounding
alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """The two parts of a run's id."""

    settings: str
    """Twelve hex digits that change with any setting that acts, and with the data."""
    code: dict[str, str]
    """Digests of the modules that compute the run, by name."""

    @property
    def run_id(self) -> str:
        """The id, such as `3f2a9c01b7de-5c1e88a0`: settings and data, then the code."""
        return f"{self.settings}-{_digest_of_code(tuple(self.code.items()))}"

    def expect(self, planned: "Identity") -> None:
        """Raise `RunFailed` where this is not the run that was planned."""
        expect(self.code, planned.code)
        if self.settings != planned.settings:
            raise RunFailed(
                "The data changed after this run had been planned. The same command, given again, "
                "plans anew."
            )


def identify_variant(config: RunConfig, fingerprint: str) -> Callable[[RunConfig], Identity]:
    """A function from runs to their identities, for the runs of a variant: they differ in seeds
    alone, and what they share is computed once.

    config: any of them. fingerprint: of the content of all that they read.
    """
    variant = settings(to_dict(config))
    if variant.get("model.vectors"):
        variant["model.vectors"] = "given"  # the fingerprint says which
    given = f"{SCHEMA}, {_json(fingerprint)}, {_json(variant)}"
    code = _digests(modules_of(config))

    def with_seeds(config: RunConfig) -> Identity:
        seeds = seeds_in_use(config.seed, asdict(config.seeds))
        return Identity(settings=_digest(f"[{given}, {_json(seeds)}]")[:12], code=code)

    return with_seeds


def identify(config: RunConfig, fingerprint: str) -> Identity:
    """The identity of a run. fingerprint: of the content of all that it reads.

    The code is that on disk when it was first asked for, or first after `read_again`. Raises
    `RunFailed` where attnexp itself was edited since this process imported it.
    """
    return identify_variant(config, fingerprint)(config)


def modules_of(config: RunConfig) -> frozenset[str]:
    """Modules from which the code of a run is reached by imports."""
    found = {
        piece.kind.partition(":")[0]
        for _, piece, field in walk(config)
        if isinstance(piece, Piece) and field.name == "kind" and piece.kind
    }
    tokenizer = TOKENIZERS.get(config.data.tokenizer, config.data.tokenizer)
    return frozenset({LOOP, TEXT, tokenizer.partition(":")[0], *found})


def read_again() -> None:
    """Have the next identities read the code on disk anew."""
    _digests.cache_clear()


@functools.cache
def _digests(modules: frozenset[str]) -> dict[str, str]:
    return digests(modules, lambda name, importer: f"{name}.".startswith(ROOMS))


def settings(config: dict[str, Any]) -> dict[str, Any]:
    """Settings that make a variant, by key, of a config as `to_dict` gives it: all but seeds and
    `NOT_OF_A_VARIANT`."""
    return {
        key: value
        for key, value in flatten(config).items()
        if key not in NOT_OF_A_VARIANT and key.partition(".")[0] not in ("seed", "seeds")
    }


def default_label(config: dict[str, Any]) -> str:
    """Label of a run that belongs to no study, such as `imdb attention none mask=causal`: data,
    model and position, then every other piece, and every setting, that is not the default one."""
    own = settings(config)
    named = [f"{key}.kind" for key in ("model", "position") if key in config]
    names = [name_of(own[key]) for key in named]
    others = [as_word(key, own[key]) for key in departures(config) if key not in named]
    return " ".join([data_of(config).title, *names, *others])


def departures(config: dict[str, Any]) -> list[str]:
    """Keys of the choices that are not the default ones, and of the settings that differ from the
    defaults of what is chosen."""
    data = data_of(config)
    words = [f"data={data.name}", *([quoted("data.path", data.path)] if data.path else [])]
    own, default, chosen = settings(config), default_settings(*words), list[str]()
    for key in [key for key in own if key.endswith((".kind", "train.protocol"))]:
        if default.get(key, ...) != own[key]:  # a choice brings settings of its own
            chosen.append(key)
            words.append(_as_choice(key, own[key]))
            default = default_settings(*words)
    return [key for key in own if key in chosen or default.get(key, ...) != own[key]]


def data_of(config: dict[str, Any]) -> DataConfig:
    """Name and path of the data set of a config as `to_dict` gives it."""
    return DataConfig(name=DataName(config["data"]["name"]), path=config["data"].get("path"))


@functools.cache
def default_settings(*words: str) -> dict[str, Any]:
    """Settings of a run of these words; where they do not compose, as for a class that is not on
    this machine, those of a run without the last of them."""
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


def _as_choice(key: str, value: Any) -> str:
    """The override that chooses a piece or protocol; a user's own piece is named by its class."""
    ours = value is None or ":" not in value or value.startswith("attnexp.")
    return as_word(key, value) if ours else f"{key.removesuffix('.kind')}={value}"


def seeds_in_use(seed: int, own: Mapping[str, int | None]) -> dict[str, int | None]:
    """Seed of each source of chance: its own, else `seed`, which `resample` does not follow."""
    return {
        source: seed if value is None and source != "resample" else value
        for source, value in own.items()
    }


def replicate(config: dict[str, Any]) -> str:
    """Name of a run among those of its variant: its seed, and the seeds of sources that do not
    follow it, as in `0`, `0-init3` or `0-resample0`."""
    seed, seeds = config["seed"], config["seeds"]
    follow = {name: seed for name in seeds if name != "resample"}
    own = {name: own for name, own in seeds.items() if own not in (None, follow.get(name))}
    return "-".join([str(seed), *(f"{name}{own}" for name, own in own.items())])


@functools.lru_cache(maxsize=16)
def _digest_of_code(digests: tuple[tuple[str, str], ...]) -> str:
    return _digest(_json(dict(digests)))[:8]


def _json(tree: Any) -> str:
    return json.dumps(tree, sort_keys=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
