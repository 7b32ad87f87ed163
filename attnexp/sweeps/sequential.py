"""Sweep that adds seeds until every variant is decided by an anytime-valid interval."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import pandas as pd

from attnexp.analysis.contrasts import differences
from attnexp.analysis.frames import Group, groups_of, rows_of
from attnexp.base import progress
from attnexp.base.errors import UserError
from attnexp.config.schema import Protocol
from attnexp.runs import manifest
from attnexp.runs.manifest import Declaration
from attnexp.runs.result import Run
from attnexp.statistics.intervals import anytime_factor
from attnexp.statistics.verdict import TOO_FEW, UNDECIDED, Metric
from attnexp.sweeps.executors import num_slots
from attnexp.sweeps.plan import Sweep, plan
from attnexp.sweeps.schedule import SweepEntry


def fewest_seeds(m: int) -> int:
    """Fewest seeds with a finite anytime-valid interval, of m comparisons."""
    return next(n for n in itertools.count(2) if math.isfinite(anytime_factor(n, m)))


def groups_in(sweep: Sweep, entries: Sequence[SweepEntry]) -> list[Group]:
    """Results of a sweep, whose own seeds are those that it planned."""
    runs = [entry.outcome for entry in entries if isinstance(entry.outcome, Run)]
    runs.sort(key=lambda run: [*sweep.variants].index(run.label))
    jobs = [] if sweep.declaration else sweep.jobs
    planned = [manifest.Entry(variant=job.label, seed=job.seed, run_id="") for job in jobs]
    study = manifest.Manifest(variants=sweep.variants, runs=planned)
    declared = {"declared": sweep.declaration is not None}
    return groups_of([row | declared for run in runs for row in rows_of(run)], {"": study})


def judge(sweep: Sweep, entries: Sequence[SweepEntry]) -> pd.DataFrame:
    """Anytime-valid differences from the baseline at the declared endpoint."""
    assert sweep.declaration is not None
    (group,) = groups_in(sweep, entries)
    found = differences(group, [Metric(margin=sweep.declaration.margin)])
    return found[found["point"] == sweep.declaration.metric]


def plan_until_decided(words: Sequence[str], *, margin: float) -> Sweep:
    """Plan the runs that `words` may need, with the declaration of their endpoint: the first one of
    the protocol. margin: of accuracy, as a share.

    Raises `UserError` where nothing can be decided.
    """
    budget = [] if any(word.startswith("seed=") for word in words) else ["seed=range(64)"]
    sweep = plan([*words, *budget])
    kinds = {repr((job.config.data, job.config.train.protocol)) for job in sweep.jobs}
    has_other_seeds = any(job.seed != str(job.config.seed) for job in sweep.jobs)
    if len(kinds) > 1 or has_other_seeds or len(sweep.variants) < 2:
        raise UserError(
            "--until decided compares variants on one data set with one protocol, by seed= alone."
        )
    fewest, given = fewest_seeds(len(sweep.variants) - 1), {job.seed for job in sweep.jobs}
    if len(given) < fewest:
        raise UserError(f"With {len(given)} seeds nothing can be decided; {fewest} are the fewest.")
    blog = sweep.jobs[0].config.train.protocol is Protocol.blog
    declaration = Declaration(metric="final" if blog else "chosen", margin=margin)
    command = f"{sweep.command} --until decided --margin {100 * margin:g}"
    return replace(sweep, command=command, declaration=declaration)


def rounds(sweep: Sweep, planned: list[SweepEntry]) -> Iterator[list[SweepEntry]]:
    """Batches for `run_sweep`, until all variants are decided or no seed is left.

    The baseline gets seeds while any variant is open; one with a failed run gets no more. Seeds are
    added as many at a time as fill the executor. Verdicts are printed each time.
    """
    baseline, *going = sweep.variants
    slots = num_slots(sweep.executor, sweep.jobs)
    seeds = iter(dict.fromkeys(job.config.seed for job in sweep.jobs))
    more = fewest = fewest_seeds(len(going))
    while going and (chosen := {*itertools.islice(seeds, more)}):
        due = (entry for entry in planned if entry.job.label in (baseline, *going))
        yield [entry for entry in due if entry.job.config.seed in chosen]
        failed = {entry.job.label for entry in planned if isinstance(entry.outcome, str)}
        if baseline in failed or failed.issuperset(going):
            return
        found = judge(sweep, planned)
        for r in found.itertuples():
            progress.note(f"{r.variant} − {r.baseline}, {r.n} seeds: {r.verdict or r.reason}")
        is_open = found["verdict"].isin([UNDECIDED, TOO_FEW, ""])
        going = [name for name in going if name in {*found.loc[is_open, "variant"]} - failed]
        more = min(fewest, max(1, slots // len(sweep.variants)))
