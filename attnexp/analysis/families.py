"""Families: which contrasts of variants a study judges together.

A contrast weighs variants: a difference +1 and -1, an interaction +1, -1, -1, +1. Seed by seed,
values @ weights is one number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Weights of variants, and the names that tables give to what is compared."""

    weights: dict[str, float]  # by variant
    variant: str  # `pe_raw`; of an interaction `pe_raw − none_raw`
    baseline: str
    within: str = ""  # level of a second factor at which the first is compared
    variant_level: str  # `pe`: what differs from the baseline
    baseline_level: str
    suffix: str = ""  # of two factors: ` within raw`; of an interaction `, scaled − raw`

    @property
    def name(self) -> str:
        """`pe − none`, `pe − none within raw`; of an interaction `pe − none, scaled − raw`."""
        return f"{self.variant_level} − {self.baseline_level}{self.suffix}"


Family = list[Contrast]
"""Contrasts that are judged together: each interval allows for all of them."""


def difference(variant: str, baseline: str) -> Contrast:
    """A variant minus the baseline."""
    return Contrast(
        weights={variant: 1.0, baseline: -1.0},
        variant=variant,
        baseline=baseline,
        variant_level=variant,
        baseline_level=baseline,
    )


def differences_from(baseline: str, variants: Sequence[str]) -> Family:
    """Every variant minus the baseline."""
    return [difference(variant, baseline) for variant in variants if variant != baseline]


def family_of_study(variants: Mapping[str, Mapping[str, str]]) -> Family:
    """The contrasts of a study: simple effects and interactions where two factors are crossed, else
    every variant minus the baseline. variants: levels by factor, by name; the baseline first."""
    first, *_ = variants
    variant_at = {tuple(levels.values()): name for name, levels in variants.items()}
    has_two_factors = all(len(levels) == 2 for levels in variant_at)
    crossed: Family = []
    if has_two_factors and len(variant_at) == len(variants):  # No two have the same levels.
        crossed = _cross_factors(variant_at, list(variants[first]))
    return crossed or differences_from(first, list(variants))


def _cross_factors(variants: Mapping[tuple[str, ...], str], factors: Sequence[str]) -> Family:
    """Levels of the first factor minus its baseline level, at each level of the second; then what
    they add there, beyond what they add at the baseline level of the second. variants: by levels of
    both; the first has the baseline levels."""
    (base_first, base_second), origin = next(iter(variants.items()))
    # Beside `data.limit_train=3000` the other level is `10000`.
    base_second_in_short = base_second.removeprefix(f"{factors[1]}=")
    effects = []
    interactions = []
    for (first, second), variant in variants.items():
        at_base_first = variants.get((base_first, second))
        if first == base_first or at_base_first is None:
            continue
        effect = replace(
            difference(variant, at_base_first),
            within=second,
            variant_level=first,
            baseline_level=base_first,
            suffix=f" within {second}",
        )
        effects.append(effect)
        at_base_second = variants.get((first, base_second))
        if second == base_second or at_base_second is None:
            continue
        interaction = replace(
            effect,
            weights={variant: 1.0, at_base_first: -1.0, at_base_second: -1.0, origin: 1.0},
            variant=f"{variant} − {at_base_first}",
            baseline=f"{at_base_second} − {origin}",
            within="",
            suffix=f", {second} − {base_second_in_short}",
        )
        interactions.append(interaction)
    return effects + interactions
