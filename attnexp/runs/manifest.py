"""What a study's folder says of its runs: which variants there are, and how they belong together.

A sweep of a study writes it as `OUT/STUDY/study.json` before the first run starts.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from attnexp.errors import UserError
from attnexp.files import atomic_write
from attnexp.runs.store import writing

FILE = "study.json"

SCHEMA = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Manifest:
    """Everything that `study.json` holds, besides its schema."""

    name: str
    variants: dict[str, dict[str, str]]
    """By label, the baseline first: its level of each of two crossed factors, or nothing."""

    def crossings(self) -> Iterator[tuple[str, str, str, str]]:
        """Every four variants that make a difference of differences, (1 − 2) − (3 − 4).

        1 has a level of its own of both factors, 2 and 3 have the baseline's of the first and of
        the second, 4 is the baseline.
        """
        (baseline, baselines), *others = self.variants.items()
        labels = {tuple(levels.values()): label for label, levels in self.variants.items()}
        for label, levels in others:
            if len(baselines) == 2 and not set(levels.items()) & set(baselines.items()):
                (one, other), (base, other_base) = levels.values(), baselines.values()
                yield label, labels[base, other], labels[one, other_base], baseline


def save(folder: Path, manifest: Manifest) -> None:
    """Write it, whole or not at all. Raises `UserError` without a place."""
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        with atomic_write(folder / FILE) as file:
            file.write(json.dumps({"schema": SCHEMA, **asdict(manifest)}, indent=1).encode())


def load(folder: Path) -> Manifest | None:
    """What `save` wrote, None where it wrote nothing. `UserError` for what cannot be read."""
    file = folder / FILE
    try:
        tree = json.loads(file.read_text())
        if tree.pop("schema") != SCHEMA:
            raise ValueError(f"this attnexp reads schema {SCHEMA}")
        return Manifest(**tree)
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UserError(
            f"{file} cannot be used ({error}). Delete it; a sweep of the study writes it again."
        ) from error
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from error
