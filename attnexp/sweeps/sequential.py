"""Sweep that adds seeds until every variant is decided by an anytime-valid interval."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from attnexp.analysis.answer import Answer, compare
from attnexp.analysis.contrasts import Difference
from attnexp.analysis.endpoints import ENDPOINTS
from attnexp.analysis.make_groups import make_groups
from attnexp.analysis.metrics import choose_metric
from attnexp.analysis.rows import as_rows
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config.words import key_of
from attnexp.runs.manifest import Declaration
from attnexp.runs.result import Run
from attnexp.statistics.intervals import anytime_factor
from attnexp.statistics.verdict import MetricSpec, is_decided
from attnexp.sweeps.executors import num_slots
from attnexp.sweeps.folder import manifest_of
from attnexp.sweeps.plan import Sweep, plan
from attnexp.sweeps.schedule import SweepEntry
from attnexp.sweeps.tuning import is_tuning


def fewest_seeds(m: int) -> int:
    """Fewest seeds with a finite anytime-valid interval, of m comparisons."""
    n = 2
    while math.isinf(anytime_factor(n, m)):
        n += 1
    return n


def answer_of_sweep(sweep: Sweep, entries: Sequence[SweepEntry], metric: MetricSpec) -> Answer:
    """The answer of a sweep; of one that adds seeds, those that it has begun count as planned."""
    declared = sweep.declaration is not None
    runs = [entry.outcome for entry in entries if isinstance(entry.outcome, Run)]
    order = list(sweep.variants)
    runs.sort(key=lambda run: order.index(run.label))
    rows = [as_rows(replace(run, declared=declared)) for run in runs]
    jobs = sweep.jobs
    if declared:
        jobs = [entry.job for entry in entries if entry.outcome is not None]
    study = manifest_of(sweep, [(job, "") for job in jobs])
    return compare(make_groups(rows, {"": study}), [metric])


def judge(sweep: Sweep, entries: Sequence[SweepEntry]) -> list[Difference]:
    """Anytime-valid differences from the baseline at the declared endpoint."""
    assert sweep.declaration is not None
    metric = choose_metric(sweep.metric, 100 * sweep.declaration.margin)
    answer = answer_of_sweep(sweep, entries, metric)
    endpoint = sweep.declaration.metric
    return [row for row in answer.differences if row.endpoint.name == endpoint]


def plan_until_decided(words: Sequence[str], *, margin: float) -> Sweep:
    """Plan the runs that `words` may need, and declare the first endpoint of their protocol.
    margin: of the metric, as a share. Raises `UserError` where nothing can be decided."""
    if any(map(is_tuning, words)):
        raise UserError("--until decided and tune= do not go together. Leave one of them out.")
    if "seed" not in map(key_of, words):
        words = [*words, "seed=range(64)"]
    sweep = plan(words)
    configs = [job.config for job in sweep.jobs]
    places = {repr((config.data, config.train.protocol)) for config in configs}
    seeds = {job.seed for job in sweep.jobs}
    main_seeds = {str(config.seed) for config in configs}
    has_other_seeds = seeds != main_seeds
    if len(places) > 1 or has_other_seeds or len(sweep.variants) < 2:
        raise UserError(
            "--until decided compares variants on one data set with one protocol, by seed= alone."
        )
    fewest = fewest_seeds(len(sweep.variants) - 1)
    if len(seeds) < fewest:
        raise UserError(
            f"Nothing can be decided with fewer than {fewest} seeds, and seed= gives {len(seeds)}. "
            "Give more, as 'seed=range(64)'."
        )
    endpoint = ENDPOINTS[configs[0].train.protocol][0]
    declaration = Declaration(metric=endpoint.name, margin=margin)
    command = f"{sweep.command} {declaration}"
    return replace(sweep, command=command, declaration=declaration)


def rounds(sweep: Sweep, planned: list[SweepEntry]) -> Iterator[list[SweepEntry]]:
    """Batches for `run_sweep`, until all variants are decided or no seed is left; after each the
    verdicts are printed. The baseline gets seeds while any variant is open; one with a failed run
    gets no more. Seeds are added as many at a time as fill the executor."""
    baseline, *variants = sweep.variants
    undecided = set(variants)
    slots = num_slots(sweep.executor, sweep.jobs)
    seeds = iter(dict.fromkeys(job.config.seed for job in sweep.jobs))
    fewest = fewest_seeds(len(undecided))
    batch_size = fewest
    while undecided:
        batch_seeds = set(itertools.islice(seeds, batch_size))
        if not batch_seeds:
            progress.note("All seeds are used, and not every variant is decided. Give more: seed=.")
            return
        compared = {baseline, *undecided}
        in_batch = [entry for entry in planned if entry.job.config.seed in batch_seeds]
        yield [entry for entry in in_batch if entry.job.label in compared]
        failed = {entry.job.label for entry in planned if isinstance(entry.outcome, str)}
        if baseline in failed or failed >= undecided:
            return
        still_open: set[str] = set()
        for row in judge(sweep, planned):
            contrast = row.contrast
            progress.note(f"{contrast.name}, {row.interval.n} seeds: {row.words}")
            if not is_decided(row.verdict):
                still_open.update(contrast.weights)
        undecided &= still_open - failed
        fitting = slots // len(sweep.variants)
        batch_size = min(fewest, max(1, fitting))
