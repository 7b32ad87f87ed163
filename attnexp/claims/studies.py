"""Claims that many runs decide. Each check takes the path of a study, published or one's own.

A difference supports a claim if its 95 % interval lies on the claimed side of its bound. Accuracies
are on the test set, at the endpoints `best` (one epoch for all seeds of a variant) and `final`. A
claim is judged at `best` where its source speaks of the best that a model reaches, else at `final`;
the other endpoint is shown beside it. This project's own claims are judged at both.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from attnexp.analysis.answer import Answer, compare
from attnexp.analysis.contrasts import Bounds, Difference
from attnexp.analysis.families import Family, difference
from attnexp.analysis.group import Group
from attnexp.analysis.kexue import agreements_with_k, settings_unlike_k
from attnexp.analysis.metrics import ACCURACY
from attnexp.analysis.read_runs import load_groups
from attnexp.base.errors import UserError
from attnexp.claims.finding import Finding, join_verdicts, judge_interval
from attnexp.inspect.probe import probe_studies
from attnexp.statistics.defaults import ALPHA, MARGIN
from attnexp.statistics.intervals import Interval, t_interval

MIN_SEEDS = 6
"""Fewest seeds of a variant."""

MIN_SEEDS_FOR_RANK = 19
"""Fewest seeds among which a rank can be in the lowest 5 %."""

CLOSE = 0.25
"""Differences count as close up to this share of what PE gives, or up to the project's margin."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A mean, its interval and the bound that it is judged by."""

    name: str
    n: int
    mean: float
    bounds: Bounds
    bound: float = 0.0
    """Above 0: the claim is that the mean lies within ± bound. Else, that it lies above 0."""
    decides: bool = True
    """Whether the verdict rests on it; else it is shown in brackets."""


def evidence_of(
    name: str, interval: Interval, bound: float = 0.0, *, decides: bool = True
) -> Evidence:
    """Evidence of an interval for other seeds."""
    return Evidence(
        name=name,
        n=interval.n,
        mean=interval.mean,
        bounds=(interval.low, interval.high),
        bound=bound,
        decides=decides,
    )


def judge_evidence(parts: Sequence[Evidence]) -> Finding:
    """Finding on a claim that every part which decides supports by lying above 0, or within ± its
    bound."""
    shown = []
    verdicts = []
    for part in parts:
        low, high = part.bounds
        text = f"{part.name} {100 * part.mean:+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]"
        shown.append(text if part.decides else f"({text})")
        if not part.decides:
            continue
        verdicts.append(judge_interval(low, high, -part.bound))
        if part.bound > 0:
            verdicts.append(judge_interval(-high, -low, -part.bound))
    return Finding(join_verdicts(verdicts), "; ".join(shown), min(part.n for part in parts))


def find_group(
    study: Path, *variants: str, as_k_ran: bool = False, min_seeds: int = MIN_SEEDS
) -> Group:
    """The group of a study that has so many seeds of these variants on IMDB; as_k_ran: with K's
    settings. Raises `UserError` where there is none."""
    for group in load_groups([study]):
        usable = set(group.variants)
        if as_k_ran:
            published = set(group.published["variant"])
            usable = {name for name in published if not settings_unlike_k(group.configs[name])}
        seeds = group.values("final", "accuracy").reindex(columns=variants).dropna()
        if group.data == "imdb" and usable.issuperset(variants) and len(seeds) >= min_seeds:
            return group
    raise UserError(f"{study} lacks {min_seeds} seeds of {', '.join(variants)} on IMDB.")


def compare_families(group: Group, *families: Family) -> Answer:
    """The answer of these families in place of those that the study declared."""
    return compare([replace(group, families=list(families))], [ACCURACY])


def select_differences(answer: Answer, point: str) -> list[Difference]:
    """The differences at an endpoint."""
    return [row for row in answer.differences if row.endpoint.name == point]


def sorted_points(group: Group) -> list[str]:
    """`best` and `final`, or `final` alone where that is the best epoch."""
    return sorted(point.name for point in group.points)


def closeness(group: Group, position: str) -> list[Evidence]:
    """A kind of position minus sinusoidal, which should be little of what that gives."""
    answer = compare_families(
        group, [difference("sinusoidal", "none")], [difference(position, "sinusoidal")]
    )
    parts = []
    for point in sorted_points(group):
        gain, distance = select_differences(answer, point)
        bound = max(MARGIN, CLOSE * abs(gain.interval.mean))
        name = f"{point} (close: ±{100 * bound:.2f})"
        decides = point == "final"
        parts.append(evidence_of(name, distance.interval, bound, decides=decides))
    return parts


def learned_positions_are_close_to_sinusoidal(study: Path) -> Finding:
    """C10: close after the last epoch."""
    group = find_group(study, "learned", "sinusoidal", "none")
    return judge_evidence(closeness(group, "learned"))


def adding_and_concatenating_positions_both_work(study: Path) -> Finding:
    """C11: both better than none after the last epoch."""
    group = find_group(study, "concat", "sinusoidal", "none")
    answer = compare_families(
        group, [difference("concat", "none")], [difference("sinusoidal", "none")]
    )
    parts = []
    for point in sorted_points(group):
        for row in select_differences(answer, point):
            name = f"{point}, {row.contrast.name}"
            parts.append(evidence_of(name, row.interval, decides=point == "final"))
    return judge_evidence(parts)


def published_table_is_reproduced(study: Path) -> Finding:
    """C20: how many of K's values lie in the 95 % prediction interval of one more seed.

    Not supported if that count is in the lowest 5 % among those of our own seeds, each by the
    others.
    """
    group = find_group(study, "no_pe", "pe", as_k_ran=True, min_seeds=MIN_SEEDS_FOR_RANK)
    (agreement,) = [row for row in agreements_with_k(group) if not row.unlike]
    num_below = sum(count <= agreement.num_inside for count in agreement.ours)
    rank = (1 + num_below) / (1 + len(agreement.ours))
    measured = (
        f"{agreement.num_inside} of {agreement.num_values} values inside; our own seeds "
        f"{min(agreement.ours)} to {max(agreement.ours)}; K's rank from below {rank:.0%}"
    )
    return Finding("supported" if rank > ALPHA else "not supported", measured, agreement.n)


def attention_is_better_than_an_lstm(study: Path) -> Finding:
    """C21: at the best epoch of each."""
    group = find_group(study, "attention", "lstm")
    answer = compare_families(group, [difference("attention", "lstm")])
    points = sorted_points(group)
    parts = []
    for point in points:
        (row,) = select_differences(answer, point)
        parts.append(evidence_of(point, row.interval, decides=point == points[0]))
    return judge_evidence(parts)


def positions_raise_accuracy_and_reduce_over_fitting(study: Path) -> Finding:
    """C22: both after the last epoch. Over-fitting is accuracy on train (running, as K shows it)
    minus that on test."""
    group = find_group(study, "pe", "no_pe", as_k_ran=True)
    answer = compare_families(group, [difference("pe", "no_pe")])
    parts = []
    for point in sorted_points(group):
        (row,) = select_differences(answer, point)
        parts.append(evidence_of(point, row.interval, decides=point == "final"))
    last = group.epochs[group.epochs["epoch"] == group.epochs["epoch"].max()]
    values = last.pivot(index="seed", columns=["metric", "variant"], values="value").dropna()
    gap = values["train_accuracy"] - values["val_accuracy"]
    less = t_interval(gap["no_pe"] - gap["pe"])
    parts.append(evidence_of("less gap", less))
    return judge_evidence(parts)


def attention_gains_from_cnn_and_rnn(study: Path) -> Finding:
    """C26: each pair is better than both of its parts at the best epoch; the four hold together."""
    family = []
    for partner in ("cnn", "lstm"):
        family.append(difference(f"{partner}_attention", "attention"))
        family.append(difference(f"{partner}_attention", partner))
    variants = {name for contrast in family for name in contrast.weights}
    group = find_group(study, *variants)
    answer = compare_families(group, family)
    points = sorted_points(group)
    parts = []
    for point in points:
        for row in select_differences(answer, point):
            name = f"{point}, {row.contrast.name}"
            parts.append(evidence_of(name, row.interval, decides=point == points[0]))
    return judge_evidence(parts)


def accuracies_under(study: Path, intervention: str) -> tuple[Any, Any]:
    """Accuracy before and after interventions: a row a seed, columns variant and intervention."""
    rows, _ = probe_studies([study], [intervention])
    columns = ["accuracy", "changed_accuracy"]
    values = rows.pivot(index="seed", columns=["variant", "intervention"], values=columns)
    values = values.dropna()
    return values["accuracy"], values["changed_accuracy"]


def shuffled_words_cost_more_than_positions_give(study: Path) -> Finding:
    """C30: what the model with PE loses by shuffled words, and what it has over that without."""
    before, after = accuracies_under(study, "shuffle")
    before = before.droplevel("intervention", axis=1)
    after = after.droplevel("intervention", axis=1)
    cost = before["pe"] - after["pe"]
    gain = before["pe"] - before["no_pe"]
    name = f"cost {100 * cost.mean():.2f} − gain {100 * gain.mean():.2f}:"
    return judge_evidence([evidence_of(name, t_interval(cost - gain))])


def most_heads_can_be_removed(study: Path) -> Finding:
    """C31: heads of PE's model that cost less than the margin (Michel et al. 2019, 1905.10650)."""
    before, after = accuracies_under(study, "no_head")
    is_cheap = before["pe"] - after["pe"] < MARGIN
    share = t_interval(is_cheap.mean(axis=1))
    measured = (
        f"{share.mean:.0%} [{share.low:.0%}, {share.high:.0%}] of heads cost below "
        f"{100 * MARGIN} points"
    )
    return Finding(judge_interval(share.low, share.high, 0.5), measured, share.n)


def scaling_keeps_positions_from_drowning_words(study: Path) -> Finding:
    """C32: what PE gives with embeddings times √d minus what it gives without; n data sets."""
    answer = compare(load_groups([study]), [ACCURACY])
    parts = []
    for row in answer.means:
        if row.contrast.variant == "pe_scaled − none_scaled":
            bounds = (row.mean.low, row.mean.high)
            name = row.endpoint.name
            parts.append(Evidence(name=name, n=row.n, mean=row.mean.mean, bounds=bounds))
    if not parts:
        raise UserError(f"{study} lacks two data sets with PE in scaled and in plain embeddings.")
    return judge_evidence(parts)
