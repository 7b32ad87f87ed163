"""What `attnexp probe` found, as tables of text."""

from collections.abc import Sequence

from attnexp.analysis.probed import Probed
from attnexp.report.cells import Table, format_mean
from attnexp.statistics.verdict import POINTS

SCHEMA = 1
"""Version of what `--json` prints."""


def tables(found: Sequence[Probed]) -> list[Table]:
    """For each variant what interventions change, and what is measured of its attention."""
    made = list[Table]()
    for one in found:
        made += [_effects(one)] if one.effects or one.impossible else []
        made += [_measures(one)] if one.measures else []
    return made


def _effects(one: Probed) -> Table:
    texts = sorted({f"{effect.num_texts:,} " for effect in one.effects.values()})
    rows = [
        [
            name,
            str(effect.accuracy.difference.n),
            POINTS.signed(effect.accuracy.difference.mean),
            *(
                (found and POINTS.interval(found.low, found.high).strip()) or "–"
                for found in (effect.accuracy, effect.texts)
            ),
            f"{100 * effect.flips:.2f}",
        ]
        for name, effect in one.effects.items()
    ]
    return Table(
        title=f"{one.variant} under interventions, {'or '.join(texts)}texts of {one.data}",
        columns=["intervention", "n", "points", "95 %, seeds", "seeds and texts", "flips, %"],
        rows=rows,
        notes=[
            "points: accuracy under the intervention minus accuracy of the same model without it.",
            "95 % intervals for other seeds on these texts, and for other seeds and texts.",
            "flips: answers that change, right or wrong.",
            *(f"{name} cannot be done: {reason}." for name, reason in one.impossible.items()),
        ],
        records=[
            {
                "data": one.data,
                "variant": one.variant,
                "intervention": name,
                "texts": effect.num_texts,
                "seed": seed,
                "difference": value,
            }
            for name, effect in one.effects.items()
            for seed, value in effect.accuracy.by_seed.items()
        ],
    )


def _measures(one: Probed) -> Table:
    return Table(
        title=f"Attention of {one.variant}, texts of {one.data}",
        columns=["measure", "mean", "n"],
        rows=[
            [name, format_mean(mean, "{:.2f}".format), str(mean.n)]
            for name, mean in one.measures.items()
        ],
        notes=[
            "Mean ± standard deviation over seeds. entropy: over its maximum, so 1 is uniform. "
            "distance: in tokens. The others: Kendall's tau of how much each token counts."
        ],
    )
