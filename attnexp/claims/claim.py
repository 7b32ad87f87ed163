"""What a claim is, and what checking it gives."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path


class Conclusion(StrEnum):
    """Exact claims hold or are refuted; experiments support a claim, do not, or leave it open."""

    holds = "holds"
    refuted = "refuted"
    supported = "supported"
    not_supported = "not supported"
    inconclusive = "inconclusive"
    not_run = "not run"


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """What was measured, and what follows."""

    measured: str
    """In a line: the number, what it was held against, and the tolerance."""
    conclusion: Conclusion
    n: int | None = None
    """Experiments: how many seeds a variant."""

    @classmethod
    def exact(cls, holds: bool, measured: str) -> "Finding":
        """Of a claim that is true or false."""
        return cls(measured=measured, conclusion=Conclusion.holds if holds else Conclusion.refuted)


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of a source, and the check of it."""

    id: str
    source: str
    """K, M, N, P, D as in docs/claims.md, or several."""
    text: str
    """The claim in a line."""
    check: Callable[[Path], Finding]
    """Given the root of all results (`out`), which only claims about sweeps look at."""
    reads_sweeps: bool = False
    """Left out unless asked for by id or with `--all`: it needs runs that take an hour."""
