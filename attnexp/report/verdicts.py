"""Sentences on a comparison: its verdicts, its endpoints, and what is missing."""

from collections.abc import Iterator

from attnexp.analysis.across import Across
from attnexp.analysis.comparison import Comparison
from attnexp.analysis.crossings import Interaction
from attnexp.analysis.differences import Difference
from attnexp.statistics.anytime import Decision
from attnexp.statistics.verdict import Verdict

VERDICT_STYLES = {
    Verdict.helps: "bold green",
    Verdict.hurts: "bold red",
    Verdict.equivalent: "bold cyan",
    Verdict.inconclusive: "bold yellow",
}
"""Styles of verdicts in a terminal."""

SPLITS = {"holdout": {"chosen": "chosen (test)", "final": "final (held out)"}}
"""Headings of endpoints that are not all measured on the same texts, by protocol."""


def verdicts(comparison: Comparison) -> Iterator[tuple[str, Verdict | None, str]]:
    """What was compared, its verdict, and one line of text, whose grounds follow a colon.

    For every judged metric, variant, interaction and point; then for every study whose seeds are
    added until it is decided, if it declared something else. A verdict on such a study is None
    while it is open.
    """
    baseline = comparison.variants[0].label
    for metric in comparison.judged:
        for label, found in comparison.differences.items():
            for point, difference in found.items():
                where = f"{label} against {baseline}, {place(comparison, metric, label, point)}"
                found_here = difference.verdict(metric)
                alone = without_a_pair(comparison, label)
                yield where, found_here.verdict, found_here.line + alone
    for interaction in comparison.interactions:
        for point, difference in interaction.points.items():
            verdict = difference.verdict("accuracy").verdict
            where = f"interaction, {heading(comparison, 'accuracy', point)}"
            yield where, verdict, format_interaction(interaction, difference)
    for where, decision in declared(comparison):
        yield where, decision.verdict, decision.line


def declared(comparison: Comparison) -> Iterator[tuple[str, Decision]]:
    """What was declared of studies whose seeds are added until they are decided, and the decision,
    unless the comparison itself says the same."""
    for study in comparison.declared:
        point = study.declaration.metric
        for label, decision in study.decisions.items():
            at = f"{heading(comparison, 'accuracy', point)}, declared"
            if place(comparison, "accuracy", label, point) != at:
                yield f"{label} against {study.baseline}, {at}", decision


def place(comparison: Comparison, metric: str, label: str, point: str) -> str:
    """The heading of a variant's verdict, which says whether it is the declared one."""
    at = heading(comparison, metric, point)
    difference = comparison.differences.get(label, {}).get(point)  # none of a baseline
    decisions = [
        study.decisions[label]
        for study in comparison.declared
        if (study.declaration.metric, study.baseline) == (point, comparison.variants[0].label)
        and label in study.decisions
    ]
    same = difference and difference.sequential and difference.anytime.get(metric) in decisions
    return f"{at}, declared" if same and metric == "accuracy" else at


def without_a_pair(comparison: Comparison, label: str) -> str:
    """What a verdict leaves out, such as "; without a pair: seed 3 of pe, seed 4 of none"."""
    seeds = {variant.label: variant.seeds for variant in comparison.variants}
    paired = {
        seed
        for difference in comparison.differences[label].values()
        for pair in difference.metrics.values()
        for seed in pair.by_seed
    }
    both = (label, comparison.variants[0].label)
    alone = [
        f"seed {seed} of {one}"
        for one, other in (both, both[::-1])
        for seed in seeds[one]
        if seed not in seeds[other] and seed not in paired
    ]
    shown = [*alone[:5], *([f"{len(alone) - 5:,} more"] if alone[5:] else [])]
    return f"; without a pair: {', '.join(shown)}" if alone else ""


def heading(comparison: Comparison | Across, metric: str, point: str) -> str:
    """Name of a metric at a point: our points are named, other trainers' results are not."""
    if not comparison.protocol:
        return metric
    at = SPLITS.get(comparison.protocol, {}).get(point, point)
    return at if metric == "accuracy" else f"{at} {metric}"


def endpoints(comparison: Comparison) -> list[str]:
    """A line for each endpoint that says what it is, and which epoch `best` is of each variant."""
    best = [f"{variant.label} {variant.best_epoch}" for variant in comparison.variants]
    epochs = {"best": f": {', '.join(best)}"}
    return [
        f"{heading(comparison, 'accuracy', name)}: {about}{epochs.get(name, '')}"
        for name, about in comparison.points.items()
    ]


def format_interaction(interaction: Interaction, difference: Difference) -> str:
    """One sentence, such as "pe gives more with unscaled than with scaled: +1.40 points ..."."""
    (level, under), (_, baseline) = interaction.levels.values(), interaction.baselines.values()
    found = difference.verdict("accuracy")
    _, _, grounds = found.line.partition(":")
    sentence = {
        Verdict.helps: f"{level} gives more with {under} than with {baseline}",
        Verdict.hurts: f"{level} gives less with {under} than with {baseline}",
        Verdict.equivalent: f"{level} gives as much with {under} as with {baseline}",
        Verdict.inconclusive: f"{level} may give more or less with {under} than with {baseline}",
    }
    return f"{sentence[found.verdict or Verdict.inconclusive]}:{grounds}"


def without_pairs(comparison: Comparison) -> list[str]:
    """A line for every variant that cannot be compared with the baseline."""
    base = comparison.variants[0]
    seeds = {variant.label: variant.seeds for variant in comparison.variants}
    shared = "are the same runs in every seed that they share"
    return [
        f"{label} and {base.label} {shared if {*base.seeds} & {*seeds[label]} else 'share no seed'}"
        f", so they are not compared."
        for label, found in comparison.differences.items()
        if not found
    ]


def missing_seeds(comparison: Comparison) -> list[str]:
    """A line for every variant of which not all planned seeds have finished."""
    num_finished = {variant.label: len(variant.seeds) for variant in comparison.variants}
    return [
        f"{label}: {finished} of {finished + len(seeds)} planned seeds finished; missing: "
        f"{', '.join(seeds)}."
        for label, seeds in comparison.missing.items()
        for finished in [num_finished.get(label, 0)]
    ]


def where_measured(comparison: Comparison) -> str:
    """The data set, and what validation was done on."""
    validated = {"blog": ", validated on test", "": ""}
    return comparison.title + validated.get(comparison.protocol, ", validated on held-out")
