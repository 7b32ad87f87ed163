"""Families: which contrasts of variants a study judges together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Weights of variants, and the names that tables give to what is compared."""

    weights: dict[str, float]  # by variant: +1 and -1, or of an interaction +1, -1, -1 and +1
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


Family = list[Contrast]  # judged together: each interval allows for all of them


def difference(variant: str, baseline: str) -> Contrast:
    """A variant minus the baseline."""
    return Contrast(
        weights={variant: 1.0, baseline: -1.0},
        variant=variant,
        baseline=baseline,
        variant_level=variant,
        baseline_level=baseline,
    )


def differences_from(baseline: str, variants: Iterable[str]) -> Family:
    """Every variant minus the baseline."""
    return [difference(variant, baseline) for variant in variants if variant != baseline]


def family_of_study(variants: Mapping[str, Mapping[str, str]]) -> Family:
    """The contrasts of a study: simple effects and interactions where two factors are crossed, else
    every variant minus the baseline. variants: levels by factor, by name; the baseline first."""
    baseline, *_ = variants
    variant_at = {tuple(levels.values()): name for name, levels in variants.items()}
    has_two_factors = all(len(levels) == 2 for levels in variant_at)
    crossed: Family = []
    if has_two_factors and len(variant_at) == len(variants):  # No two have the same levels.
        _, second_factor = variants[baseline]
        crossed = _cross_factors(variant_at, second_factor)
    return crossed or differences_from(baseline, variants)


def _cross_factors(variants: Mapping[tuple[str, ...], str], second_factor: str) -> Family:
    """Simple effects: a level of the first factor minus its baseline level, at one level of the
    second. Interactions: a simple effect minus that at the baseline level of the second factor.
    variants: by levels of both factors; the first has the baseline levels."""
    base_first, base_second = next(iter(variants))
    effects: dict[tuple[str, str], Contrast] = {}
    for (first, second), variant in variants.items():
        baseline = variants.get((base_first, second))
        if first == base_first or baseline is None:
            continue
        effects[first, second] = replace(
            difference(variant, baseline),
            within=second,
            variant_level=first,
            baseline_level=base_first,
            suffix=f" within {second}",
        )
    # Beside `data.limit_train=3000` the other level is `10000`.
    base_second_in_short = base_second.removeprefix(f"{second_factor}=")
    interactions = []
    for (first, second), effect in effects.items():
        at_base = effects.get((first, base_second))
        if second == base_second or at_base is None:
            continue
        interaction = replace(
            effect,
            weights=effect.weights | {at_base.variant: -1.0, at_base.baseline: 1.0},
            variant=f"{effect.variant} − {effect.baseline}",
            baseline=f"{at_base.variant} − {at_base.baseline}",
            within="",
            suffix=f", {second} − {base_second_in_short}",
        )
        interactions.append(interaction)
    return [*effects.values(), *interactions]
