"""Families: which contrasts of variants a study judges together.

A contrast weighs variants: a difference +1 and -1, an interaction +1, -1, -1, +1. Seed by seed,
values @ weights is one number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Levels = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """Weights of variants, and the names that tables give to what is compared."""

    weights: dict[str, float]  # by variant
    variant: str  # `pe_raw`; of an interaction `pe_raw − none_raw`
    baseline: str
    within: str = ""  # level of a second factor at which the first is compared
    variant_level: str  # `pe`: what differs from the baseline
    baseline_level: str
    levels: str = ""  # two levels of the second factor, of an interaction: `scaled − raw`

    @property
    def name(self) -> str:
        """`pe − none`, `pe − none within raw`; of an interaction `pe − none, scaled − raw`."""
        return f"{self.variant_level} − {self.baseline_level}{self._suffix}"

    @property
    def short_name(self) -> str:
        """The name without the baseline, which stands elsewhere."""
        return f"{self.variant_level}{self._suffix}"

    @property
    def is_crossed(self) -> bool:
        """Whether a second factor has a part in it."""
        return bool(self.within or self.levels)

    @property
    def _suffix(self) -> str:
        if self.within:
            return f" within {self.within}"
        return f", {self.levels}" if self.levels else ""


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
    every variant minus the baseline. variants: levels by factor, the baseline first."""
    levels = {name: tuple(by_factor.values()) for name, by_factor in variants.items()}
    is_crossed = all(len(pair) == 2 for pair in levels.values())
    if is_crossed and len(set(levels.values())) == len(levels):
        factors = next((tuple(by_factor) for by_factor in variants.values()), ())
        design = CrossedDesign({pair: name for name, pair in levels.items()}, factors)
        contrasts = [*design.simple_effects(), *design.interactions()]
        if contrasts:
            return contrasts
    names = list(variants)
    return differences_from(names[0], names[1:]) if names else []


@dataclass(frozen=True)
class CrossedDesign:
    """Variants by their levels of two factors; the first has the baseline level of both."""

    variants: dict[Levels, str]
    factors: Levels

    def simple_effects(self) -> Family:
        """Levels of the first factor minus its baseline level, at each level of the second."""
        base_first, _ = next(iter(self.variants))
        contrasts = []
        for (first, second), variant in self.variants.items():
            baseline = self.variants.get((base_first, second))
            if first == base_first or baseline is None:
                continue
            contrast = Contrast(
                weights={variant: 1.0, baseline: -1.0},
                variant=variant,
                baseline=baseline,
                within=second,
                variant_level=first,
                baseline_level=_without_key(base_first, self.factors[0]),
            )
            contrasts.append(contrast)
        return contrasts

    def interactions(self) -> Family:
        """What a level of the first factor adds at a level of the second, beyond what it adds at
        the baseline level of the second."""
        base_first, base_second = next(iter(self.variants))
        contrasts = []
        for first, second in self.variants:
            corners = [
                self.variants.get(corner)
                for corner in (
                    (first, second),
                    (base_first, second),
                    (first, base_second),
                    (base_first, base_second),
                )
            ]
            names = [name for name in corners if name is not None]
            if first == base_first or second == base_second or len(names) < 4:
                continue
            contrast = Contrast(
                weights=dict(zip(names, (1.0, -1.0, -1.0, 1.0), strict=True)),
                variant=f"{names[0]} − {names[1]}",
                baseline=f"{names[2]} − {names[3]}",
                variant_level=first,
                baseline_level=_without_key(base_first, self.factors[0]),
                levels=f"{second} − {_without_key(base_second, self.factors[1])}",
            )
            contrasts.append(contrast)
        return contrasts


def _without_key(level: str, factor: str) -> str:
    """`3000` of the level `data.limit_train=3000`, beside which the key stands already."""
    return level.removeprefix(f"{factor}=")
