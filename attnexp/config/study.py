"""Studies: variants that are compared, from `conf/study/` or a file of the user."""

import itertools
from typing import Self

from pydantic import BaseModel, ValidationError, model_validator

from attnexp.base.errors import UserError
from attnexp.config.options import read

Words = list[str]  # of the command line, such as position=rotary


class Study(BaseModel, extra="forbid", coerce_numbers_to_str=True):
    """Variants that are compared with a baseline, each a list of words. Of two crossed factors each
    pair of levels is a variant `LEVEL_LEVEL`, the first the baseline."""

    baseline: str = ""  # empty with factors
    variants: dict[str, Words] = {}  # the baseline first
    factors: dict[str, dict[str, Words]] = {}  # the levels of each factor
    overrides: Words = []  # for all of them

    @property
    def levels(self) -> dict[str, dict[str, str]]:
        """Levels of the two factors, keyed by variant; empty without factors."""
        pairs = itertools.product(*self.factors.values()) if self.factors else []
        return {"_".join(pair): dict(zip(self.factors, pair, strict=True)) for pair in pairs}

    @model_validator(mode="after")
    def _cross(self) -> Self:
        if self.factors:
            sizes = [len(levels) for levels in self.factors.values()]
            if self.variants or self.baseline or len(sizes) != 2 or min(sizes) < 2:
                raise ValueError("give two factors of two levels or more, no variants, no baseline")
            pairs = self.levels
            if len(pairs) < sizes[0] * sizes[1]:
                raise ValueError("two pairs of levels have one name; rename a level")
            for label, levels in pairs.items():
                words = [self.factors[factor][level] for factor, level in levels.items()]
                self.variants[label] = list(itertools.chain(*words))
        elif self.baseline not in self.variants:
            raise ValueError(f"baseline {self.baseline!r} is not among the variants")
        else:
            self.variants = {self.baseline: self.variants[self.baseline], **self.variants}
        return self


def load_study(name: str) -> Study:
    """A study of `conf/study/` by its name, or the user's by its file. Raises `UserError`."""
    form = "baseline: NAME and variants: {NAME: [WORDS]}, or factors: {FACTOR: {LEVEL: [WORDS]}}"
    try:
        return Study.model_validate(read("study", name))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))  # empty where `_cross` has raised
        message = first["msg"].removeprefix("Value error, ").removesuffix(".")
        reason = f"{key} {message}".strip()
        raise UserError(f"study={name}: {reason}. It has {form}.") from error
