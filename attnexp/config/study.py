"""Studies: variants that are compared, from `conf/study/` or a file of the user."""

import itertools
from dataclasses import dataclass
from typing import Any

from attnexp.base.errors import UserError, check_name
from attnexp.config.options import is_file, read
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


def load_study(given: str) -> Study:
    """A study of `conf/study/` by its name, or one of the user's by its file.

    Raises `UserError` for an unknown name, or a file that is no study.
    """
    if not is_file(given):
        check_option("study", given)
    tree = read("study", given)
    wrong = (
        f"study={given} must hold baseline: NAME and variants: {{NAME: [WORDS]}}, or two crossed "
        f"factors: {{FACTOR: {{LEVEL: [WORDS]}}}}, and, if there are words for all of them, "
        f"overrides: [WORDS]; "
    )
    if not isinstance(tree, dict) or not tree:
        raise UserError(f"{wrong}got {tree if tree else 'nothing'}.")
    if tree.keys() - {"overrides"} not in ({"baseline", "variants"}, {"factors"}):
        raise UserError(f"{wrong}got {', '.join(map(str, tree))}.")
    overrides = tree.get("overrides") or []
    if "factors" in tree:
        variants, levels = _cross(tree["factors"], wrong)
    elif isinstance(tree["variants"], dict):
        variants, levels = {str(k): words for k, words in tree["variants"].items()}, {}
        if (baseline := str(tree["baseline"])) not in variants:
            raise UserError(f"{wrong}baseline {tree['baseline']!r} is not among the variants.")
        variants = {baseline: variants[baseline], **variants}
    else:
        raise UserError(f"{wrong}got variants: {tree['variants']!r}.")
    for words in (overrides, *variants.values()):
        _check_words(words, wrong)
    for label in variants:
        check_name(label, f"study={given}: a variant")
    return Study(variants=variants, levels=levels, overrides=overrides)


def _cross(factors: Any, wrong: str) -> tuple[dict[str, list[str]], dict[str, dict[str, str]]]:
    """Every pair of levels as a variant `LEVEL_LEVEL`, each factor's first level the baseline's."""
    if not isinstance(factors, dict) or len(factors) != 2:
        raise UserError(f"{wrong}got factors: {factors!r}.")
    for factor, levels in factors.items():
        if not isinstance(levels, dict) or len(levels) < 2:
            raise UserError(f"{wrong}factor {factor} needs two levels or more; got {levels!r}.")
        for words in levels.values():
            _check_words(words, wrong)
    (one, levels_of_one), (other, levels_of_other) = factors.items()
    variants, levels = {}, {}
    for (a, words), (b, more) in itertools.product(levels_of_one.items(), levels_of_other.items()):
        label = f"{a}_{b}"
        if label in variants:
            raise UserError(f"{wrong}two pairs of levels are named {label}.")
        variants[label] = [*words, *more]
        levels[label] = {str(one): str(a), str(other): str(b)}
    return variants, levels


def _check_words(words: Any, wrong: str) -> None:
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise UserError(f"{wrong}{words!r} is no list of words such as position=none.")
