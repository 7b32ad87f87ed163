"""Code from outside attnexp that a stored run names: found without running it, run only if trusted.

A run's folder may come from anyone. Whoever trains names the classes; whoever loads a stored run
has not read them.
"""

from typing import Any

from attnexp.base import modules
from attnexp.base.errors import UserError
from attnexp.config.pieces import CLASS
from attnexp.config.schema import PLACES, TOKENIZERS, flatten


class NotTrusted(UserError):
    """A stored run names code from outside attnexp, and the user has not allowed it."""


def foreign_code(config: dict[str, Any]) -> list[str]:
    """Classes of pieces, and the tokenizer, that are not attnexp's, as `module:name`.

    config: of a stored run; a piece stands in it as text or as a mapping with its `kind`.
    """
    named = {
        key: value
        for key, value in flatten(config).items()
        if isinstance(value, str) and CLASS.fullmatch(value)
    }
    tokenizer = named.get("data.tokenizer")
    found = [tokenizer] if tokenizer and tokenizer not in TOKENIZERS.values() else []
    return found + [
        value
        for key, value in named.items()
        if key.partition(".")[0] in PLACES and not value.startswith("attnexp.")
    ]


def require_trust(config: dict[str, Any], trust_code: bool) -> None:
    """Raise `NotTrusted` where a model or tokenizer of this stored config is not attnexp's, unless
    the user gave `--trust-code`."""
    found = [] if trust_code else foreign_code(config)
    if found:
        specs = {kind: modules.find(kind.partition(":")[0]) for kind in found}
        code = ", ".join(f"{kind} in {spec and spec.origin}" for kind, spec in specs.items())
        raise NotTrusted(
            f"This run's model is not attnexp's alone. Loading it would run {code}. If you trust "
            f"this code, add --trust-code. Tables and verdicts need no model."
        )
