"""What tells runs apart: the id of a run, the settings of its variant, its seed."""

import functools
import hashlib
import json
from dataclasses import dataclass
from typing import Any

from attnexp.base.errors import RunFailed
from attnexp.config.options import name_of
from attnexp.config.pieces import Piece
from attnexp.config.schema import DataConfig, DataName, RunConfig, flatten, to_dict, walk
from attnexp.runs import code
from attnexp.runs.result import SCHEMA

NOT_OF_A_VARIANT = (
    *("out", "train.device", "train.threads", "train.fast"),
    *("data.path", "data.config", "data.text", "data.label"),
    *("data.train_split", "data.test_split", "data.test_share"),
)
"""Besides the seeds: where results go, where data came from (their fingerprint stands for it), and
the machine and the fast path, which move a result by rounding alone."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """What a run's id is made of."""

    settings: str
    """Twelve hex digits that change with any setting that acts, and with the data."""
    code: dict[str, str]
    """Digests of the modules that compute it, by name."""

    @property
    def run_id(self) -> str:
        """The id, such as `3f2a9c01b7de-5c1e88a0`: settings and data, then the code."""
        return f"{self.settings}-{_digest_of_code(tuple(self.code.items()))}"

    def expect(self, planned: "Identity") -> None:
        """Raise `RunFailed` where this is not the run that was planned."""
        code.expect(self.code, planned.code)
        if self.settings != planned.settings:
            raise RunFailed(
                "The data changed after this run had been planned. The same command, given again, "
                "plans anew."
            )


@dataclass(frozen=True, kw_only=True, slots=True)
class VariantIdentity:
    """What runs that differ in seed alone have in common, worked out once for all of them."""

    given: str
    """Settings and data, as JSON."""
    code: dict[str, str]

    @classmethod
    def of(cls, config: RunConfig, fingerprint: str) -> "VariantIdentity":
        """By any of its runs, now. fingerprint: of everything that they read."""
        given = settings(to_dict(config))
        if given.get("model.vectors"):
            given["model.vectors"] = "given"  # the fingerprint says which
        return cls(
            given=f"{SCHEMA}, {_json(fingerprint)}, {_json(given)}",
            code=code.reached(_used(config)),
        )

    def with_seeds(self, config: RunConfig) -> Identity:
        """The identity of one of its runs."""
        seeds = {source: config.seed_of(source) for source in ("init", "order", "split")}
        return Identity(settings=_digest(f"[{self.given}, {_json(seeds)}]")[:12], code=self.code)


def identify(config: RunConfig, fingerprint: str) -> Identity:
    """The identity of a run now. fingerprint: of everything that it reads."""
    return VariantIdentity.of(config, fingerprint).with_seeds(config)


def _used(config: RunConfig) -> frozenset[str]:
    """Modules of the pieces that were chosen, and of what else only some runs use."""
    found = {
        piece.kind.partition(":")[0]
        for _, piece, field in walk(config)
        if isinstance(piece, Piece) and field.name == "kind" and piece.kind
    }
    if config.model.fills("Layers"):  # whichever path is taken: a run has one id on both
        found.add("attnexp.model.fast")
    if config.mask.padding:
        found.add("attnexp.model.masks")
    if config.position.kind and config.position.shuffled:
        found.add("attnexp.model.positions")
    if config.vectors is not None:
        found.add("attnexp.data.vectors")
    return frozenset(found)


def settings(config: dict[str, Any]) -> dict[str, Any]:
    """What makes a variant, by key: a config as `to_dict` gives it, less seeds, place, machine."""
    return {
        key: value
        for key, value in flatten(config).items()
        if key not in NOT_OF_A_VARIANT and key.partition(".")[0] not in ("seed", "seeds")
    }


def default_label(config: dict[str, Any]) -> str:
    """What a run is called that stands alone: `imdb attention none`."""
    data = DataConfig(name=DataName(config["data"]["name"]), path=config["data"].get("path"))
    pieces = (name_of(config[key]["kind"]) for key in ("model", "position") if key in config)
    return " ".join([data.title, *pieces])


def replicate(config: dict[str, Any]) -> str:
    """What tells a run from the other runs of its variant: `0`, or `0-init3` with seeds apart."""
    seed, seeds = config["seed"], config["seeds"]
    apart = {name: own for name, own in seeds.items() if own not in (None, seed)}
    return "-".join([str(seed), *(f"{name}{own}" for name, own in apart.items())])


@functools.lru_cache(maxsize=16)
def _digest_of_code(digests: tuple[tuple[str, str], ...]) -> str:
    return _digest(_json(dict(digests)))[:8]


def _json(tree: Any) -> str:
    return json.dumps(tree, sort_keys=True)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
