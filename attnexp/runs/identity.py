"""Identity of runs: the id under which a run is stored, and the code that it counts.

An id counts the settings that affect the result, the seeds, the data's fingerprint, and the syntax,
with docstrings, of every file of model/, network/, training/ and data/ and of the user's code: see
`user_code`.
"""

import functools
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from attnexp.base.errors import UserError, join_names
from attnexp.config import pieces
from attnexp.config.options import Tree
from attnexp.config.schema import PIECES, RunConfig, flatten, foreign_code, to_dict
from attnexp.config.user_code import PREFIX, digest_files
from attnexp.runs.labels import settings
from attnexp.runs.result import SCHEMA, Run


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
    if config.vectors:
        variant["model.vectors"] = "given"  # the fingerprint says which
    seeds = asdict(config.seeds)
    for source, number in seeds.items():
        if number is None and source != "resample":  # which does not follow `seed`
            seeds[source] = config.seed
    code = _code_of_attnexp() | _users_code(tree)
    return Identity(settings=_digest([SCHEMA, fingerprint, variant, seeds])[:12], code=code)


def _users_code(tree: Tree) -> dict[str, str]:
    """Digests of the user's code in a config, and of files that settings of its pieces name."""
    names = foreign_code(tree)
    users = pieces.sources_of(*names)
    files: dict[str, Path] = {}
    for key, value in flatten(tree).items():
        section, _, _ = key.partition(".")
        is_of_piece = section in PIECES and key != "model.vectors"
        if names and is_of_piece and os.path.isfile(str(value)):
            file = Path(value)
            files[f"{PREFIX}{file.name}"] = file
    return users.code | digest_files(files)


def load_config(
    run: Run, words: Sequence[str] = (), *, trust_code: bool, any_code: bool
) -> RunConfig:
    """The config of a finished run, with some settings set anew, and as many words as it had.

    Raises `UserError` where its model is not attnexp's, without `trust_code`, and where the user's
    code has changed since, without `any_code`.
    """
    from attnexp.config.compose import overlay

    config = overlay(run.result.config, words, trust_code=trust_code)
    code = _users_code(run.result.config)
    differences = run.result.code.items() ^ code.items()
    names = {name for name, _ in differences if name.startswith(PREFIX)}
    changed = sorted(name.removeprefix(PREFIX) for name in names)
    if changed and not any_code:
        raise UserError(
            f"{join_names(changed)} changed since {run.path} was trained, which kept its code in "
            f"{run.path / PREFIX}. Train again, or add --any-code to take the code of today."
        )
    return config.sized(run.result.data.get("vocab_size", config.data.vocab_size))


@functools.cache
def _code_of_attnexp() -> dict[str, str]:
    """Digests of the code that this process runs: an edit counts in the next process."""
    package = Path(__file__).parents[1]
    files = {}
    for room in ("model", "network", "training", "data"):
        for path in package.glob(f"{room}/**/*.py"):
            name = path.relative_to(package).as_posix()
            files[name] = path
    return digest_files(files)


def _digest(tree: Any) -> str:
    return hashlib.sha256(json.dumps(tree, sort_keys=True).encode()).hexdigest()
