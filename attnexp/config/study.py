"""Studies: variants that are compared, from `conf/study/` or a file of the user."""

import itertools
from dataclasses import dataclass

from pydantic import BaseModel, ValidationError

from attnexp.base.errors import UserError, check_name
from attnexp.config.options import read
from attnexp.config.words import check_option


@dataclass(frozen=True, kw_only=True, slots=True)
class Study:
    """Variants that are compared with a baseline, each a list of words."""

    variants: dict[str, list[str]]
    """Words of each variant; the baseline comes first."""
    levels: dict[str, dict[str, str]]
    """Levels of two crossed factors, keyed by variant; empty without factors."""
    overrides: list[str]
    """Words for all of them."""


class _File(BaseModel, extra="forbid", coerce_numbers_to_str=True):
    """A study as it is written: a baseline and variants, or two factors to cross."""

    baseline: str = ""
    variants: dict[str, list[str]] = {}
    factors: dict[str, dict[str, list[str]]] = {}
    overrides: list[str] | None = None


def load_study(given: str) -> Study:
    """A study of `conf/study/` by its name, or one of the user's by its file.

    Of two crossed factors each pair of levels is a variant `LEVEL_LEVEL`, the first levels the
    baseline. Raises `UserError` for an unknown name, or a file that is no study.
    """
    check_option("study", given)
    tree = read("study", given)
    wrong = (
        f"study={given} must hold baseline: NAME and variants: {{NAME: [WORDS]}}, or two crossed "
        f"factors: {{FACTOR: {{LEVEL: [WORDS]}}}}, and, if there are words for all of them, "
        f"overrides: [WORDS]"
    )
    try:
        study = _File.model_validate(tree)
    except ValidationError as error:
        (first, *_) = error.errors()
        said = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        raise UserError(f"{wrong}; {said}.") from error
    variants, levels = study.variants, dict[str, dict[str, str]]()
    if study.factors and not variants:
        sizes = [len(own) for own in study.factors.values()]
        if len(sizes) != 2 or min(sizes) < 2:
            raise UserError(f"{wrong}; got {len(sizes)} factors of {sizes} levels.")
        one, other = study.factors
        for a, b in itertools.product(study.factors[one], study.factors[other]):
            if f"{a}_{b}" in variants:
                raise UserError(f"{wrong}; two pairs of levels are named {a}_{b}.")
            variants[f"{a}_{b}"] = [*study.factors[one][a], *study.factors[other][b]]
            levels[f"{a}_{b}"] = {one: a, other: b}
    elif study.baseline not in variants or study.factors:
        raise UserError(f"{wrong}; baseline {study.baseline!r} is not among the variants.")
    else:
        variants = {study.baseline: variants[study.baseline], **variants}
    for label in variants:
        check_name(label, f"study={given}: a variant")
    return Study(variants=variants, levels=levels, overrides=study.overrides or [])
