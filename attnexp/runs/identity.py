"""Identity of runs: the id under which a run is stored, and the code that it counts.

An id counts the settings that affect the result, the seeds, the data's fingerprint, and the syntax
tree, as this Python has it, of all files of model/, network/, training/ and data/. The user's code
is among the files that a run has read: see `base.reads`. `ADAM_BETAS` and `most_probable` lie
elsewhere: who changes them raises `SCHEMA`."""

import functools
import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from attnexp.base import digests
from attnexp.config.schema import RunConfig, to_dict
from attnexp.runs.labels import variant_settings
from attnexp.runs.result import SCHEMA


@dataclass(frozen=True, kw_only=True, slots=True)
class Identity:
    """The two parts of a run's id."""

    settings_digest: str  # 12 hex digits, which change with the data and any setting that acts
    code: dict[str, str]  # digests of the files that compute a run, such as `model/positions.py`

    @property
    def run_id(self) -> str:
        """The id, such as `3f2a9c01b7de-5c1e88a0`: settings and data, then the code."""
        return f"{self.settings_digest}-{_digest(self.code)[:8]}"


def identify(config: RunConfig, fingerprint: str) -> Identity:
    """The identity of a run. fingerprint: of the content of all that it reads."""
    tree = to_dict(config)
    variant = variant_settings(tree)
    if config.vectors:
        variant["model.vectors"] = "given"  # the fingerprint says which
    seeds: dict[str, int | None] = {"resample": config.seeds.resample}  # It follows no `seed`.
    seeds |= {source: config.seed_of(source) for source in ("init", "order", "split")}
    digits = _digest([SCHEMA, fingerprint, variant, seeds])[:12]
    return Identity(settings_digest=digits, code=_code_of_attnexp())


@functools.cache
def _code_of_attnexp() -> dict[str, str]:
    """Digests of the code that this process runs, which change with its syntax and docstrings."""
    package = Path(__file__).parents[1]
    modules = ("model", "network", "training", "data")
    paths = [path for module in modules for path in package.glob(f"{module}/**/*.py")]
    names = sorted(path.relative_to(package).as_posix() for path in paths)
    return {name: digests.digest(name, (package / name).read_bytes()) for name in names}


def _digest(tree: Any) -> str:
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()
