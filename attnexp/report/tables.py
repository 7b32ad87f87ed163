"""Comparisons as tables of text, before any format: `formats.py` prints them."""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from attnexp.report import kexue
from attnexp.report.comparison import (
    METRICS,
    Comparison,
    Difference,
    EpochSummary,
    Interaction,
    Sequential,
    Variant,
)
from attnexp.statistics.paired import McNemar, Mean, Paired
from attnexp.statistics.sequential import in_words as decision_in_words
from attnexp.statistics.verdict import POINTS, Judgement, Unit, Verdict, p_value

HEADINGS = {
    "train_loss": "loss",
    "train_accuracy": "acc",
    "train_accuracy_after": "acc after",
    "val_loss": "val loss",
    "val_accuracy": "val acc",
}

FIGURE_NAMES = {"loss": "NLL", "brier": "Brier", "ece": "ECE", "gap": "gap"}
"""Of a point, besides accuracy."""

SHARES = ("ece", "gap")
"""Those of them that are shown in points."""

MOST_EACH = 50
"""Seeds whose differences are listed and drawn one by one."""

TOLERATED = 0.01
"""Share by which sizes may differ without a word."""

VERDICT_STYLES = {
    Verdict.helps: "bold green",
    Verdict.hurts: "bold red",
    Verdict.equivalent: "bold cyan",
    Verdict.inconclusive: "bold yellow",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Cells as text."""

    title: str
    columns: list[str]
    rows: list[list[str]]
    notes: list[str]
    published: Collection[int] = ()
    """Rows that hold K's figures, by place."""


def tables(comparison: Comparison) -> list[Table]:
    """Every table, in the order in which they are printed."""
    return [
        *epochs(comparison),
        *agreement(comparison),
        summary(comparison),
        beside_accuracy(comparison),
        *statistics(comparison),
        *interactions(comparison),
        *sequential(comparison),
    ]


def verdicts(comparison: Comparison) -> Iterator[tuple[str, Verdict | None, str]]:
    """For every variant and interaction at every point: what was compared, how it came out, and one
    line of text, whose grounds stand after a colon. Then what was decided look by look; what is
    open has no verdict."""
    baseline = comparison.variants[0].label
    for label, found in comparison.differences.items():
        for point, difference in found.items():
            where = f"{label} against {baseline}, {point}"
            yield where, difference.judgement.verdict, difference.judgement.line
    for interaction in comparison.interactions:
        for point, difference in interaction.points.items():
            verdict = difference.judgement.verdict
            yield f"interaction, {point}", verdict, in_words(interaction, difference)
    for study in comparison.sequential:
        for label, decision in study.decisions.items():
            where = f"{label} against {study.baseline}, {study.point}, look by look"
            yield where, decision.verdict, decision_in_words(decision, study.design)


def in_words(interaction: Interaction, difference: Difference) -> str:
    """One sentence, such as "pe gives more with unscaled than with scaled: +1.40 points ..."."""
    (level, under), (_, baseline) = interaction.levels.values(), interaction.baselines.values()
    _, _, grounds = difference.judgement.line.partition(":")
    said = {
        Verdict.helps: f"{level} gives more with {under} than with {baseline}",
        Verdict.hurts: f"{level} gives less with {under} than with {baseline}",
        Verdict.equivalent: f"{level} gives as much with {under} as with {baseline}",
        Verdict.inconclusive: f"{level} may give more or less with {under} than with {baseline}",
    }
    return f"{said[difference.judgement.verdict]}:{grounds}"


def without_pairs(comparison: Comparison) -> list[str]:
    """A line for every variant that cannot be compared with the baseline."""
    baseline = comparison.variants[0].label
    return [
        f"{label} and {baseline} share no seed, so they are not compared."
        for label, found in comparison.differences.items()
        if not found
    ]


def where_measured(comparison: Comparison) -> str:
    """The data set, and what validation was done on."""
    validated = "validated on test" if comparison.protocol == "blog" else "validated on held-out"
    return f"{comparison.title}, {validated}"


def epochs(comparison: Comparison) -> list[Table]:
    """A table for each variant."""
    return [_epochs(variant, comparison) for variant in comparison.variants]


def _epochs(variant: Variant, comparison: Comparison) -> Table:
    names = [name for name in METRICS if name in variant.epochs[0].figures]
    rows, published = list[list[str]](), list[int]()
    for epoch in variant.epochs:
        rows.append([str(epoch.epoch), *(_metric(name, epoch.figures[name]) for name in names)])
        if epoch.k:
            published.append(len(rows))
            rows.append(["K", *(_published(name, epoch) for name in names)])
    notes = []
    if "train_accuracy_after" in names:
        notes.append("acc: running mean over the epoch; acc after: measured on train when it ends")
    if any(epoch.k for epoch in variant.epochs):
        notes.append(_about_k(variant))
    num_runs = "1 run" if len(variant.seeds) == 1 else f"{len(variant.seeds)} runs"
    return Table(
        title=f"{variant.label}: {num_runs} on {where_measured(comparison)}",
        columns=["epoch", *(HEADINGS[name] for name in names)],
        rows=rows,
        notes=notes,
        published=published,
    )


def _about_k(variant: Variant) -> str:
    said = "K: the published run, one seed"
    if variant.unlike_k:
        said += f" with {' '.join(kexue.words(kexue.SETTINGS))}"
    inside = [found.inside for epoch in variant.epochs for found in epoch.agreement.values()]
    if inside:
        said += (
            f"; {sum(inside)} of {len(inside)} figures inside the 95 % prediction interval of one "
            f"more seed"
        )
    if not all(inside):
        said += ", the others with their distance from our mean in sd"
    return said


def agreement(comparison: Comparison) -> list[Table]:
    """How much of K's published run could be one more of our seeds: a table, or none."""
    if not comparison.agreement:
        return []
    rows = []
    for count in comparison.agreement:
        _, epoch, name = count.furthest_figure
        rows.append(
            [
                count.variants[0] if len(count.variants) == 1 else "both",
                str(count.n),
                f"{count.inside} of {count.num_figures}",
                f"{min(count.own.values())} to {max(count.own.values())}" if count.own else "–",
                f"{count.furthest:+.1f} sd, {HEADINGS[name]}, epoch {epoch}",
            ]
        )
    notes = [
        "inside: K's figures within the 95 % prediction interval of one more seed, mean ± "
        "t sd sqrt(1 + 1/n).",
        "our seeds: as many of each of our own runs, held against the others; least to most.",
    ]
    unlike = [variant.label for variant in comparison.variants if variant.unlike_k]
    if unlike:
        settings = " ".join(kexue.words(kexue.SETTINGS))
        notes.append(f"K's run had {settings}; others here: {', '.join(unlike)}.")
    return [
        Table(
            title=f"K's published run as one more seed, {where_measured(comparison)}",
            columns=["variant", "n", "inside", "our seeds", "furthest from our mean"],
            rows=rows,
            notes=notes,
        )
    ]


def summary(comparison: Comparison) -> Table:
    """Accuracy of every variant, and its difference from the baseline's."""
    points = [point.name for point in comparison.points]
    unequal = _unequal(comparison)
    rows, published = list[list[str]](), list[int]()
    for variant in comparison.variants:
        values = [_metric("accuracy", variant.points[name]["accuracy"]) for name in points]
        size = [f"{variant.parameters:,}", f"{variant.flops_per_example / 1e6:.1f} M"]
        rows.append([variant.label, str(len(variant.seeds)), *values, *size[: 2 * bool(unequal)]])
        if all(name in variant.k for name in points):
            published.append(len(rows))
            rows.append(["K", "1", *(f"{100 * variant.k[name]:.2f}" for name in points)])
    for label, found in comparison.differences.items():
        if found:
            pairs = [found[name].figures["accuracy"] for name in points]
            cells = [_spread(pair, POINTS) for pair in pairs]
            rows.append([_minus(label, comparison), str(pairs[0].difference.n), *cells])
    notes = [*filter(None, [comparison.other_code]), *without_pairs(comparison)]
    notes += [*comparison.diverged, *comparison.damaged]
    notes.append("Accuracy in %, differences in points, mean ± standard deviation over seeds.")
    notes += [f"{point.name}: {point.about}." for point in comparison.points]
    notes += unequal
    if comparison.order_blind_ceiling is not None:
        ceiling = f"{100 * comparison.order_blind_ceiling:.2f}"
        notes.append(
            f"Synthetic reviews: a model blind to word order reaches {ceiling} at most on the "
            f"whole test set."
        )
    columns = ["variant", "n", *points, *(["parameters", "FLOPs"] if unequal else [])]
    return Table(
        title=f"Accuracy on {where_measured(comparison)}",
        columns=columns,
        rows=[row + [""] * (len(columns) - len(row)) for row in rows],
        notes=notes,
        published=published,
    )


def _unequal(comparison: Comparison) -> list[str]:
    """A line where variants differ from the baseline in size, which may be what is measured."""
    baseline, *others = comparison.variants

    def apart(one: int, other: int) -> float:
        return abs(one - other) / max(other, 1)

    parameters = max((apart(v.parameters, baseline.parameters) for v in others), default=0.0)
    flops = max(
        (apart(v.flops_per_example, baseline.flops_per_example) for v in others), default=0.0
    )
    if max(parameters, flops) <= TOLERATED:
        return []
    return [
        f"Sizes differ from {baseline.label}'s by up to {100 * parameters:.1f} % of its parameters "
        f"and {100 * flops:.1f} % of its FLOPs a text: a difference may be one of size."
    ]


def beside_accuracy(comparison: Comparison) -> Table:
    """The other figures of every variant."""
    rows = []
    for point in comparison.points:
        for variant in comparison.variants:
            figures = variant.points[point.name]
            cells = [_figure(name, figures.get(name)) for name in FIGURE_NAMES]
            rows.append([variant.label, point.name, *cells])
    return Table(
        title=f"Probabilities and over-fitting on {where_measured(comparison)}",
        columns=["variant", "at", *FIGURE_NAMES.values()],
        rows=rows,
        notes=[
            "NLL: negative log-likelihood in nats. Brier: mean squared error of the probability, "
            "of more than two classes their sum.",
            "ECE: expected calibration error, 15 bins, in points. gap: accuracy on train, measured "
            "after the epoch, minus accuracy, in points.",
        ],
    )


def statistics(comparison: Comparison) -> list[Table]:
    """A table for each difference from the baseline."""
    num_judged = sum(map(bool, comparison.differences.values()))
    return [
        _statistics(_minus(label, comparison), found, num_judged, comparison)
        for label, found in comparison.differences.items()
        if found
    ]


def interactions(comparison: Comparison) -> list[Table]:
    """A table for each difference of differences."""
    found = comparison.interactions
    made = []
    for interaction in found:
        one, two, three, four = interaction.variants
        title = f"({one} − {two}) − ({three} − {four})"
        made.append(_statistics(title, interaction.points, len(found), comparison))
    return made


def sequential(comparison: Comparison) -> list[Table]:
    """A table for each study whose seeds were added until it was decided."""
    return [_sequential(study, comparison) for study in comparison.sequential]


def _sequential(study: Sequential, comparison: Comparison) -> Table:
    design = study.design
    rows = []
    for label, decision in study.decisions.items():
        cells = ["–", "–", "–"]
        if decision.n:
            assert decision.mean is not None
            assert decision.low is not None
            assert decision.high is not None
            look = f"{design.looks.index(decision.n) + 1} of {len(design.looks)}"
            interval = f"{100 * decision.low:+.2f} to {100 * decision.high:+.2f}"
            cells = [look, f"{100 * decision.mean:+.2f}", interval]
        rows.append([label, str(decision.n), *cells, decision.verdict or "open"])
    looks = ", ".join(map(str, design.looks))
    notes = [
        f"Declared before: up to {design.looks[-1]} seeds, looks at n = {looks}, "
        f"±{POINTS.margin(design.margin)} points as equivalent, {design.alpha:g} for false "
        f"findings over all looks and variants.",
        "Seeds are added until this is decided. Every other p, interval and verdict here takes n "
        "as fixed beforehand, and is not for stopping.",
    ]
    if study.finished_before:
        notes.append(f"When it was declared, {study.finished_before} of its runs had finished.")
    return Table(
        title=f"Decided look by look on {where_measured(comparison)}: {study.point} accuracy minus "
        f"{study.baseline}'s",
        columns=["variant", "n", "look", "points", "interval", "verdict"],
        rows=rows,
        notes=notes,
    )


def _statistics(
    title: str, found: dict[str, Difference], num_judged: int, comparison: Comparison
) -> Table:
    accuracy = {name: difference.figures["accuracy"] for name, difference in found.items()}
    judged = {name: difference.judgement for name, difference in found.items()}
    right = {name: difference.mcnemar for name, difference in found.items()}
    rows = grounds(accuracy, judged, num_judged, right)
    for name, heading in FIGURE_NAMES.items():
        if all(name in difference.figures for difference in found.values()):
            pairs = [difference.figures[name] for difference in found.values()]
            rows.append([f"Δ {heading}", *(_other(name, pair) for pair in pairs)])
    notes = [f"{name}, by seed: {by_seed(pair)}" for name, pair in accuracy.items()]
    return Table(
        title=f"{title} on {where_measured(comparison)}",
        columns=[f"n = {next(iter(accuracy.values())).difference.n}", *found],
        rows=rows,
        notes=notes,
    )


def grounds(
    pairs: Mapping[str, Paired],
    judged: Mapping[str, Judgement],
    num_judged: int,
    right: Mapping[str, Mapping[str, McNemar]],
    unit: Unit = POINTS,
) -> list[list[str]]:
    """What verdicts stand on, a column each; one margin for all. The last row is how many seeds
    would settle what is open. right: McNemar's test by seed, where there are predictions."""
    margin = unit.margin(next(iter(pairs.values())).margin)
    said = f"difference,{unit.name}" if unit.name else "difference"
    rows = [
        [said, *(_spread(pair, unit) for pair in pairs.values())],
        ["95 % interval", *(_interval(pair, unit) for pair in pairs.values())],
        [
            "p, sign-flip",
            *(
                f"{_p(pair.p)} ({'least' if pair.p_exact else 'Monte Carlo; least'} "
                f"{_p(pair.p_smallest)})"
                for pair in pairs.values()
            ),
        ],
    ]
    if num_judged > 1:
        holm = [_p(judgement.p_holm) for judgement in judged.values()]
        rows.append([f"p, Holm over {num_judged}", *holm])
    rows += [
        ["P(better)", *(_better(pair, unit) for pair in pairs.values())],
        ["Cohen's dz", *("–" if pair.dz is None else f"{pair.dz:+.2f}" for pair in pairs.values())],
        [f"p, TOST ±{margin}", *(_p(judgement.p_equivalent_holm) for judgement in judged.values())],
    ]
    if any(right.values()):
        rows.append(["McNemar p < 0.05", *map(_mcnemar, right.values())])
    return [*rows, ["more seeds needed", *map(_more_seeds, judged.values())]]


def mean_and_sd(figure: Mean, write: Callable[[float], str]) -> str:
    """`84.24 ± 0.08`; the mean alone where n is 1."""
    return " ± ".join(write(value) for value in (figure.mean, figure.sd) if value is not None)


def by_seed(pair: Paired, unit: Unit = POINTS) -> str:
    """Every difference; of many seeds how they spread."""
    values = list(pair.by_seed.values())
    if len(values) <= MOST_EACH:
        return ", ".join(map(unit.signed, values))
    names = ("least", "quartile", "median", "quartile", "most")
    found = zip(names, np.quantile(values, [0, 0.25, 0.5, 0.75, 1]), strict=True)
    return ", ".join(f"{name} {unit.signed(value)}" for name, value in found)


def _minus(label: str, comparison: Comparison) -> str:
    return f"{label} − {comparison.variants[0].label}"


def _metric(name: str, figure: Mean) -> str:
    return mean_and_sd(figure, _short if name.endswith("loss") else POINTS.plain)


def _figure(name: str, figure: Mean | None) -> str:
    if figure is None:
        return "–"
    return mean_and_sd(figure, POINTS.plain if name in SHARES else _short)


def _spread(pair: Paired, unit: Unit) -> str:
    figure = pair.difference
    spread = "" if figure.sd is None else f" ± {unit.plain(figure.sd)}"
    return unit.signed(figure.mean) + spread


def _interval(pair: Paired, unit: Unit) -> str:
    if pair.low is None or pair.high is None:
        return "–"
    return f"{unit.signed(pair.low)} to {unit.signed(pair.high)} ({pair.method})"


def _better(pair: Paired, unit: Unit) -> str:
    share, low, high = pair.better.share, pair.better.low, pair.better.high
    if unit.less_is_better:
        share, low, high = 1 - share, 1 - high, 1 - low
    return f"{share:.2f} [{low:.2f}, {high:.2f}]"


def _other(name: str, pair: Paired) -> str:
    """A difference with its interval, in points where the figure is a share."""
    unit = POINTS if name in SHARES else Unit(name="", scale=1, digits=".4f")
    return unit.signed(pair.difference.mean) + unit.interval(pair.low, pair.high)


def _mcnemar(by_seed: Mapping[str, McNemar]) -> str:
    if not by_seed:
        return "–"
    small = sum(found.p < 0.05 for found in by_seed.values())
    return f"in {small} of {len(by_seed)} seeds"


def _more_seeds(judgement: Judgement) -> str:
    more = judgement.more_seeds
    return "–" if more is None else str(more)


def _p(p: float | None) -> str:
    if p is None:
        return "–"
    return p_value(p, 4) if p >= 0.0001 else f"{p:.0e}"


def _published(name: str, epoch: EpochSummary) -> str:
    """K's figure, and how far it is from our mean where it could not be that of one more seed."""
    assert epoch.k is not None
    if name not in epoch.k:
        return ""
    value, found = epoch.k[name], epoch.agreement.get(name)
    cell = _short(value) if name.endswith("loss") else f"{100 * value:.2f}"
    if found is None or found.inside:
        return cell
    digits = "+.1f" if abs(found.distance) < 100 else "+.0f"  # a column is 13 wide
    return f"{cell} ({found.distance:{digits}})"


def _short(loss: float) -> str:
    """`.3541`: five columns of losses must fit 80 characters."""
    return f"{loss:.4f}".replace("0.", ".", 1) if loss < 1 else f"{loss:.4f}"
