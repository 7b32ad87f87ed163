"""A claim of the sources, the result of checking it, and the list of all claims."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from attnexp.base.errors import UserError


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
    """Result of checking a claim."""

    measured: str
    """One line: the measured number, its reference and the tolerance."""
    conclusion: Conclusion
    n: int | None = None
    """Number of seeds per variant; None for exact claims."""

    @classmethod
    def exact(cls, holds: bool, measured: str) -> "Finding":
        """Finding on a claim that is either true or false."""
        return cls(measured=measured, conclusion=Conclusion.holds if holds else Conclusion.refuted)


class NotRun(Exception):
    """Raised by a check whose runs are missing; says which, and the command that makes them."""


def concluded(parts: Sequence[Conclusion]) -> Conclusion:
    """Supported when all parts are, not supported when any part is not, else inconclusive."""
    if all(part is Conclusion.supported for part in parts):
        return Conclusion.supported
    return (
        Conclusion.not_supported if Conclusion.not_supported in parts else Conclusion.inconclusive
    )


@dataclass(frozen=True, slots=True)
class Claim:
    """A statement of a source, and its check."""

    id: str
    source: str
    """K, M, N, P, D as in docs/claims.md, or several of them."""
    text: str
    """The claim in one line: the first line of the check's docstring."""
    check: Callable[..., Finding]
    """Check of the claim. Takes the root of all results (`out`) if it reads sweeps."""
    reads_sweeps: bool = False
    """Whether the check needs finished sweeps on IMDB; such claims run by id or with `--all`."""

    def run(self, results: Path) -> Finding:
        """Check the claim. results: root of all results."""
        try:
            return self.check(results) if self.reads_sweeps else self.check()
        except (NotRun, UserError) as error:
            return Finding(measured=str(error), conclusion=Conclusion.not_run)


REGISTRY: dict[str, Claim] = {}
"""Claims of the modules imported so far, by id."""

Check = TypeVar("Check", bound=Callable[..., Finding])


def claim(id: str, source: str, *, reads_sweeps: bool = False) -> Callable[[Check], Check]:
    """Decorate a check, whose docstring begins with the claim, to add it to `REGISTRY`."""

    def add(check: Check) -> Check:
        text = (check.__doc__ or "").partition("\n")[0].removesuffix(".")
        REGISTRY[id] = Claim(id, source, text, check, reads_sweeps)
        return check

    return add
