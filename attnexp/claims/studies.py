"""Claims that many runs decide. Each check takes the path of a study, published or one's own.

A difference supports a claim if its 95 % interval lies on the claimed side of its bound. Accuracies
are on the test set, at the endpoints `best` (one epoch for all seeds of a variant) and `final`.
"""

from pathlib import Path
from typing import Any

from attnexp.analysis.contrasts import across, contrast
from attnexp.analysis.frames import Group, load
from attnexp.analysis.published import k_counts, unlike_k
from attnexp.base.errors import UserError
from attnexp.claims.finding import Finding, join_verdicts, judge_interval
from attnexp.inspect.probe import probe_studies
from attnexp.statistics.defaults import ALPHA, MARGIN
from attnexp.statistics.intervals import t_interval

MIN_SEEDS = 6
"""Fewest seeds of a variant. C20 takes 19: among fewer no rank is in the lowest 5 %."""

CLOSE = 0.25
"""Differences count as close up to this share of what PE gives, or up to the project's margin."""


def group_of(study: Path, *variants: str, k: bool = False, min_seeds: int = MIN_SEEDS) -> Group:
    """The group of a study that has so many seeds of these variants on IMDB; k: with K's settings.
    Raises `UserError` where there is none."""
    for group in load([study]):
        ks = {*group.published["variant"]}
        known = {v for v in group.variants if not k or (v in ks and not unlike_k(group.configs[v]))}
        seeds = group.values("final", "accuracy").reindex(columns=variants).dropna()
        if group.data == "imdb" and {*variants} <= known and len(seeds) >= min_seeds:
            return group
    raise UserError(f"{study} lacks {min_seeds} seeds of {', '.join(variants)} on IMDB.")


def finding(rows: dict[str, dict[str, Any]]) -> Finding:
    """Finding on a claim that every difference supports by lying above 0, or within ± its bound."""
    shown, parts = list[str](), list[str]()
    for name, row in rows.items():
        low, high, bound = row["low"], row["high"], row.get("bound", 0.0)
        shown.append(f"{name} {100 * row['mean']:+.2f} [{100 * low:+.2f}, {100 * high:+.2f}]")
        parts.append(judge_interval(low, high, -bound))
        if bound > 0:
            parts.append(judge_interval(-high, -low, -bound))
    return Finding(join_verdicts(parts), "; ".join(shown), min(row["n"] for row in rows.values()))


def close(group: Group, one: str) -> dict[str, dict[str, Any]]:
    """A kind of position minus sinusoidal, which should be little of what that gives."""
    rows = {}
    for at in sorted(group.points):  # without `best` where that is the last epoch
        gain = contrast(group, {"sinusoidal": 1, "none": -1}, at)["mean"]
        bound = max(MARGIN, CLOSE * abs(gain))
        row = contrast(group, {one: 1, "sinusoidal": -1}, at)
        rows[f"{at} (close: ±{100 * bound:.2f})"] = row | {"bound": bound}
    return rows


def learned_positions_are_close_to_sinusoidal(study: Path) -> Finding:
    """C10: close at both endpoints."""
    return finding(close(group_of(study, "learned", "sinusoidal", "none"), "learned"))


def adding_and_concatenating_positions_both_work(study: Path) -> Finding:
    """C11: close at both endpoints, and both better than none after the last epoch."""
    group = group_of(study, "concat", "sinusoidal", "none")
    gains = [contrast(group, {name: 1, "none": -1}, "final") for name in ("concat", "sinusoidal")]
    return finding(close(group, "concat") | {f"{d['variant']} − none": d for d in gains})


def published_table_is_reproduced(study: Path) -> Finding:
    """C20: how many of K's values lie in the 95 % prediction interval of one more seed.

    Not supported if that count is in the lowest 5 % among those of our own seeds, each by the
    others.
    """
    group = group_of(study, "no_pe", "pe", k=True, min_seeds=19)
    (count,) = (count for count in k_counts(group) if not count["unlike"])
    own, inside = sorted(count["own"]), count["inside"]
    rank = (1 + sum(each <= inside for each in own)) / (1 + len(own))
    shown = f"{inside} of {count['values']} values inside; our own seeds {own[0]} to {own[-1]}"
    said = "supported" if rank > ALPHA else "not supported"
    return Finding(said, f"{shown}; K's rank from below {rank:.0%}", count["n"])


def attention_is_better_than_an_lstm(study: Path) -> Finding:
    """C21: at the best epoch of each, and at the last."""
    group, weights = group_of(study, "attention", "lstm"), {"attention": 1, "lstm": -1}
    return finding({at: contrast(group, weights, at) for at in sorted(group.points)})


def positions_raise_accuracy_and_reduce_over_fitting(study: Path) -> Finding:
    """C22: over-fitting is accuracy on train (running, as K shows it) minus that on test, at the
    end."""
    group = group_of(study, "pe", "no_pe", k=True)
    last = group.epochs[group.epochs["epoch"] == group.epochs["epoch"].max()]
    wide = last.pivot(index="seed", columns=["metric", "variant"], values="value").dropna()
    gap = wide["train_accuracy"] - wide["val_accuracy"]
    less = t_interval(gap["no_pe"] - gap["pe"])._asdict()
    return finding({"final": contrast(group, {"pe": 1, "no_pe": -1}, "final"), "less gap": less})


def attention_gains_from_cnn_and_rnn(study: Path) -> Finding:
    """C26: each pair is better than both of its parts at the best epoch; the four hold together."""
    pairs = [(f"{one}_attention", part) for one in ("cnn", "lstm") for part in ("attention", one)]
    group = group_of(study, *{name for pair in pairs for name in pair})
    rows = [contrast(group, {one: 1, part: -1}, group.points[-1], m=4) for one, part in pairs]
    return finding({" − ".join(pair): row for pair, row in zip(pairs, rows, strict=True)})


def intervened(study: Path, name: str) -> tuple[Any, Any]:
    """Accuracy before and after interventions: a row a seed, columns variant and intervention."""
    (rows, _), values = probe_studies([study], [name]), ["accuracy", "changed_accuracy"]
    wide = rows.pivot(index="seed", columns=["variant", "intervention"], values=values).dropna()
    return wide["accuracy"], wide["changed_accuracy"]


def shuffled_words_cost_more_than_positions_give(study: Path) -> Finding:
    """C30: what the model with PE loses by shuffled words, and what it has over that without."""
    before, after = (accuracy.droplevel(1, axis=1) for accuracy in intervened(study, "shuffle"))
    cost, gain = before["pe"] - after["pe"], before["pe"] - before["no_pe"]
    name = f"cost {100 * cost.mean():.2f} − gain {100 * gain.mean():.2f}:"
    return finding({name: t_interval(cost - gain)._asdict()})


def most_heads_can_be_removed(study: Path) -> Finding:
    """C31: heads of PE's model that cost less than the margin (Michel et al. 2019, 1905.10650)."""
    before, after = intervened(study, "no_head")
    d = t_interval((before["pe"] - after["pe"] < MARGIN).mean(axis=1))
    shown = f"{d.mean:.0%} [{d.low:.0%}, {d.high:.0%}] of heads cost below {100 * MARGIN} points"
    return Finding(judge_interval(d.low, d.high, 0.5), shown, d.n)


def scaling_keeps_positions_from_drowning_words(study: Path) -> Finding:
    """C32: what PE gives with embeddings times √d minus what it gives without; n data sets."""
    rows = across(load([study])).set_index("point")
    return finding(rows[rows["variant"] == "pe_scaled − none_scaled"].to_dict("index"))
