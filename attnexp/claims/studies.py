"""Claims that many runs decide. Each check takes the path of a study, published or one's own.

Accuracies are on the test set; docs/reproduction.md says at which endpoint each is judged."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from attnexp.analysis.answer import compare
from attnexp.analysis.endpoints import RESULT
from attnexp.analysis.families import Family, difference, differences_from
from attnexp.analysis.group import Group
from attnexp.analysis.kexue import agreements_with_k, k_runs_of
from attnexp.analysis.metrics import ACCURACY
from attnexp.analysis.read_runs import load_groups
from attnexp.base.errors import UserError
from attnexp.claims.finding import Evidence, Finding, claim, judge_above, judge_evidence
from attnexp.inspect.probe import probe_studies
from attnexp.statistics.defaults import ALPHA, MARGIN
from attnexp.statistics.intervals import smallest_step, t_interval

MIN_SEEDS = 6  # of a variant
MIN_SEEDS_FOR_RANK = 19  # K's seed is one of n + 1, so that its lowest rank is 1/20
CLOSE_SHARE = 0.25  # share of what PE gives up to which a difference counts as close
ENDPOINTS = ("best", "final")  # in the order in which claims show them


def find_group(
    study: Path, *families: Family, as_k_ran: bool = False, min_seeds: int = MIN_SEEDS
) -> Group:
    """The study's group on IMDB, protocol `blog`, that has enough seeds. Raises `UserError`."""
    names = [name for family in families for contrast in family for name in contrast.weights]
    variants = list(dict.fromkeys(names))  # each once
    for group in load_groups([study]):
        if (group.data, group.protocol) != ("imdb", "blog"):
            continue
        if as_k_ran and not k_runs_of(group, as_k_ran=True).keys() >= set(variants):
            continue
        # Differences are paired, so that only seeds of all variants count.
        shared = group.values("final", "accuracy").reindex(columns=variants).dropna()
        if len(shared) >= min_seeds:
            return replace(group, families=list(families))
    needed = f"{min_seeds} seeds of {', '.join(variants)}"
    raise UserError(f"{study} lacks {needed} on IMDB, protocol blog.")


def weigh_differences(
    group: Group, deciding: Sequence[str] = ENDPOINTS, *, within: float | None = None
) -> list[Evidence]:
    """Evidence of each difference; it decides at the endpoints `deciding`."""
    differences = compare([group], ACCURACY).differences
    rows = sorted(differences, key=lambda row: ENDPOINTS.index(row.endpoint.name))
    has_several = len({row.contrast.name for row in rows}) > 1
    parts = []
    for row in rows:
        point = row.endpoint.name
        name = f"{point}, {row.contrast.name}" if has_several else point
        parts.append(Evidence(name, row.interval, decides=point in deciding, within=within))
    return parts


@claim("C10", "K", "Learned and sinusoidal PE are close", "position")
def learned_positions_are_close_to_sinusoidal(study: Path) -> Finding:
    """An interval of learned minus sinusoidal, after the last epoch, beyond 0.25 points and beyond
    a quarter of what sinusoidal gives."""
    gain = difference("sinusoidal", "none")
    distance = difference("learned", "sinusoidal")
    rows = compare([find_group(study, [gain], [distance])], ACCURACY).differences
    intervals = {(row.endpoint.name, row.contrast.name): row.interval for row in rows}
    parts = []
    for point in ENDPOINTS:
        gained = intervals[point, gain.name].mean
        bound = max(MARGIN, CLOSE_SHARE * abs(gained))
        name = f"{point} (close: ±{100 * bound:.2f})"
        interval = intervals[point, distance.name]
        parts.append(Evidence(name, interval, decides=point == "final", within=bound))
    return judge_evidence(parts)


@claim("C11", "K", "Adding and concatenating PE both work", "position")
def adding_and_concatenating_positions_both_work(study: Path) -> Finding:
    """An interval of either minus none, after the last epoch, below 0."""
    group = find_group(study, [difference("concat", "none")], [difference("sinusoidal", "none")])
    return judge_evidence(weigh_differences(group, ["final"]))


@claim("C20", "K", "The published table of ten epochs is reproduced", "blog")
def published_table_is_reproduced(study: Path) -> Finding:
    """K's table lies in fewer prediction intervals of one more seed than 95 % of our own seeds do,
    each against the others."""
    family = [difference("pe", "no_pe")]
    group = find_group(study, family, as_k_ran=True, min_seeds=MIN_SEEDS_FOR_RANK)
    (agreement,) = [row for row in agreements_with_k(group) if not row.unlike]
    inside = agreement.num_inside
    ours = agreement.ours_inside
    # K's seed counts among all seeds, as in a permutation test.
    all_seeds = np.array([inside, *ours])
    rank = np.mean(all_seeds <= inside)  # the share of them with as few values inside, or fewer
    measured = f"{inside} of {agreement.num_values} values inside; our own seeds "
    measured += f"{min(ours)} to {max(ours)}; K's rank from below {rank:.0%}"
    return Finding("supported" if rank > ALPHA else "not supported", measured, agreement.n)


@claim("C21", "K", "Attention's best is slightly above an LSTM's", "baselines")
def attention_is_better_than_an_lstm(study: Path) -> Finding:
    """An interval of attention minus LSTM, at the best epoch of each, below 0."""
    group = find_group(study, [difference("attention", "lstm")])
    return judge_evidence(weigh_differences(group, ["best"]))


@claim("C22", "K", "PE raises accuracy and reduces over-fitting", "blog")
def positions_raise_accuracy_and_reduce_over_fitting(study: Path) -> Finding:
    """An interval below 0 of what PE gives, at either endpoint, or, after any epoch, of how much
    smaller the gap between accuracy on train (running, as K shows it) and on test is with it."""
    group = find_group(study, [difference("pe", "no_pe")], as_k_ran=True)
    parts = weigh_differences(group)
    for epoch, rows in group.epochs.groupby("epoch"):
        values = rows.pivot(index="seed", columns=["metric", "variant"], values="value")
        gaps = values["train_accuracy"] - values["val_accuracy"]  # a row a seed, a column a variant
        pairs = gaps[["no_pe", "pe"]].dropna()
        reductions = t_interval(pairs["no_pe"] - pairs["pe"], step=smallest_step(pairs))
        parts.append(Evidence(f"less gap, epoch {epoch}", reductions))
    return judge_evidence(parts, by_part=True)


@claim("C26", "K", "Attention gains from CNN or RNN and back", "baselines")
def attention_gains_from_cnn_and_rnn(study: Path) -> Finding:
    """An interval below 0, at the best epoch, of a pair minus either of its parts; the four
    intervals hold together."""
    family = [
        difference("cnn_attention", "attention"),
        difference("cnn_attention", "cnn"),
        difference("lstm_attention", "attention"),
        difference("lstm_attention", "lstm"),
    ]
    return judge_evidence(weigh_differences(find_group(study, family), ["best"]))


def accuracies_under(study: Path, intervention: str) -> Any:
    """Accuracies of pe and no_pe on IMDB, a row a seed, a column a variant. Raises `UserError`."""
    for group in probe_studies([study], [intervention]):
        accuracies = group.values(RESULT.name, ACCURACY.name).dropna()
        has_both = {"pe", "no_pe"} <= {*accuracies}
        if group.source == "imdb" and has_both and len(accuracies) >= MIN_SEEDS:
            return accuracies
    raise UserError(f"{study} lacks {MIN_SEEDS} seeds of pe and no_pe on IMDB.")


@claim("C30", "own", "Shuffled words cost more than PE gives", "blog")
def shuffled_words_cost_more_than_positions_give(study: Path) -> Finding:
    """An interval below 0 of what shuffled words cost the model with PE, minus what PE gives."""
    accuracies = accuracies_under(study, "shuffle")
    costs = accuracies["pe"] - accuracies["pe, shuffle"]
    gains = accuracies["pe"] - accuracies["no_pe"]
    cost = 100 * costs.mean()
    gain = 100 * gains.mean()
    name = f"cost {cost:.2f} − gain {gain:.2f}:"
    interval = t_interval(costs - gains, step=smallest_step(accuracies))
    return judge_evidence([Evidence(name, interval)])


@claim("C31", "own", "Most heads can be removed, one at a time", "blog")
def most_heads_can_be_removed(study: Path) -> Finding:
    """An interval below one half of the share of PE's heads that cost less than the margin when
    removed alone (Michel et al. 2019, 1905.10650)."""
    accuracies = accuracies_under(study, "no_head")
    without_head = accuracies.filter(regex="^pe, no_head=")
    costs = -without_head.sub(accuracies["pe"], axis=0)  # a row a seed, a column a head
    is_cheap = costs < MARGIN
    shares = t_interval(is_cheap.mean(axis=1), step=1 / len(is_cheap.columns))
    measured = f"{shares.mean:.0%} [{shares.low:.0%}, {shares.high:.0%}] of heads "
    measured += f"cost below {100 * MARGIN} points"
    return Finding(judge_above(shares, bound=0.5), measured, shares.n)


@claim("C32", "own", "PE gives more accuracy with embeddings times √d", "position_x_embedding")
def scaling_keeps_positions_from_drowning_words(study: Path) -> Finding:
    """An interval below 0, over data sets, of PE's gain with words times √d minus that without."""
    means = compare(load_groups([study]), ACCURACY).means
    interactions = [row for row in means if row.contrast.variant == "pe_scaled − none_scaled"]
    parts = [Evidence(row.endpoint.name, row.interval) for row in interactions]
    if not parts:
        raise UserError(f"{study} lacks two data sets with PE in scaled and in plain embeddings.")
    return judge_evidence(parts)


@claim("C33", "N", "Several narrow heads are better than one wide one", "heads")
def many_heads_are_better_than_one(study: Path) -> Finding:
    """An interval below 0 of 2, 4, 8 or 16 heads minus one, of the same width in all; the four
    intervals of an endpoint hold together."""
    group = find_group(study, differences_from("h1", ["h2", "h4", "h8", "h16"]))
    return judge_evidence(weigh_differences(group), by_part=True)


@claim("C34", "K", "√d_k is not especially important", "position_x_scale")
def scaled_scores_are_not_important(study: Path) -> Finding:
    """An interval of scores divided by √d_k minus scores that are not, with or without PE, beyond
    0.25 points; the two intervals of an endpoint hold together."""
    family = [difference("none_scaled", "none_unscaled"), difference("pe_scaled", "pe_unscaled")]
    parts = weigh_differences(find_group(study, family), within=MARGIN)
    return judge_evidence(parts, by_part=True)
