"""What tells runs apart: the id of a run, its label, its seed."""

import hashlib
import json
from typing import Any

from attnexp.config.schema import RunConfig, to_dict
from attnexp.runs.result import SCHEMA


def run_id(config: RunConfig, fingerprint: str) -> str:
    """Twelve hex digits that change with anything that can change the result.

    Left out: where results go and where data came from (its fingerprint stands for it), and
    device and threads, which move a result by rounding alone.
    """
    tree = to_dict(config)
    del tree["out"], tree["seed"], tree["train"]["device"], tree["train"]["threads"]
    tree["data"].pop("path", None)
    tree["seeds"] = {source: config.seed_of(source) for source in ("init", "order", "split")}
    text = json.dumps([SCHEMA, fingerprint, tree], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def default_label(config: RunConfig) -> str:
    """What a run is called that is no variant of a sweep."""
    return f"{config.data.name} {config.model.name} {config.position.name}"


def replicate(config: dict[str, Any]) -> str:
    """What tells a run from the other runs of its variant: `0`, or `0-init3` with seeds apart."""
    seed, seeds = config["seed"], config["seeds"]
    apart = {name: own for name, own in seeds.items() if own not in (None, seed)}
    return "-".join([str(seed), *(f"{name}{own}" for name, own in apart.items())])
