"""Sweep that adds seeds until every contrast is decided by an anytime-valid interval."""

import math
from dataclasses import replace

from attnexp.analysis.endpoints import ENDPOINTS
from attnexp.analysis.families import family_of_study
from attnexp.analysis.metrics import ACCURACY
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config.study import Words
from attnexp.statistics.intervals import anytime_factor
from attnexp.statistics.verdict import MetricSpec
from attnexp.sweeps.answer import answer_of_sweep
from attnexp.sweeps.executor import num_slots
from attnexp.sweeps.plan import Sweep, plan
from attnexp.sweeps.schedule import Entries, Observer, run_sweep
from attnexp.sweeps.tuning import is_tuning


def plan_until_decided(words: Words, metric: MetricSpec = ACCURACY) -> Sweep:
    """Plan the runs that `words` may need. Raises `UserError` for words that do not go with it."""
    if any(map(is_tuning, words)):
        raise UserError("--until decided and tune= do not go together. Leave one of them out.")
    if not any(word.startswith("seed=") for word in words):
        words = [*words, "seed=range(64)"]
    sweep = plan(words, metric)
    if len({repr(job.config.seeds) for job in sweep.jobs}) > 1:
        raise UserError("--until decided varies seed. Give other seeds one value, or none.")
    comparisons = {repr((job.config.data, job.config.train.protocol)) for job in sweep.jobs}
    if len(comparisons) > 1 or len(sweep.levels_by_label) < 2:
        raise UserError("--until decided compares variants on one data set with one protocol.")
    return replace(sweep, command=f"{sweep.command} --until decided", sequential=True)


def run_until_decided(
    sweep: Sweep, *, any_code: bool = False, observe: Observer = lambda entries, status: None
) -> Entries:
    """Run the first seeds of all variants, then more of those in open contrasts: contrasts that are
    undecided, and of whose runs none has failed. After each round the verdicts are printed."""
    open_variants = set(sweep.levels_by_label)
    seeds = list(dict.fromkeys(job.config.seed for job in sweep.jobs))
    num_contrasts = len(family_of_study(sweep.levels_by_label))
    fewest = 2  # It grows to the first number of seeds with a finite interval.
    while math.isinf(anytime_factor(fewest, num_contrasts)):
        fewest += 1
    num_seeds = fewest  # of the next round
    slots = num_slots(sweep.executor, sweep.jobs)
    entries: Entries = []

    def observe_all(of_this_round: Entries, status: str) -> None:
        observe(entries + of_this_round, status)

    while seeds:
        of_round, seeds = seeds[:num_seeds], seeds[num_seeds:]
        planned = [job for job in sweep.jobs if job.label in open_variants]
        jobs = [job for job in planned if job.config.seed in of_round]
        entries += run_sweep(sweep, jobs, any_code=any_code, observe=observe_all)
        open_variants = _note_verdicts(sweep, entries)
        if not open_variants:
            return entries
        num_seeds = min(fewest, max(1, slots // len(open_variants)))  # that run at once, or fewest
    progress.note("All seeds are used, and not every contrast is decided. Raise seed=range(N).")
    return entries


def _note_verdicts(sweep: Sweep, entries: Entries) -> set[str]:
    """Print the verdicts at the protocol's first endpoint; return variants of open contrasts."""
    protocol = sweep.jobs[0].config.train.protocol
    point, *_ = ENDPOINTS[protocol]
    failed = {entry.job.label for entry in entries if entry.failure is not None}
    open_variants: set[str] = set()
    for row in answer_of_sweep(sweep, entries).differences:
        if row.endpoint.name != point.name:
            continue
        contrast = row.contrast
        progress.note(f"{contrast.name}, {row.interval.n} seeds: {row.words}")
        if not row.verdict.is_decided and failed.isdisjoint(contrast.weights):
            open_variants.update(contrast.weights)
    return open_variants
