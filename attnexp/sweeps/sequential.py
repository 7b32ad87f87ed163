"""Sweep that adds seeds until every variant is decided by an anytime-valid interval."""

import math
import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import count

import pandas as pd

from attnexp.analysis.contrasts import differences
from attnexp.analysis.frames import groups_of, rows_of
from attnexp.base.errors import UserError
from attnexp.config.schema import Protocol
from attnexp.runs.manifest import Declaration
from attnexp.runs.result import Run
from attnexp.statistics.intervals import anytime_factor
from attnexp.statistics.verdict import TOO_FEW, UNDECIDED, Metric
from attnexp.sweeps.executors import num_slots
from attnexp.sweeps.plan import Sweep, plan
from attnexp.sweeps.schedule import Entry

BUDGET = "seed=range(64)"
"""Seeds that may be added where none are given."""


def fewest_seeds(m: int) -> int:
    """Fewest seeds with a finite anytime-valid interval, of m comparisons."""
    return next(n for n in count(2) if math.isfinite(anytime_factor(n, m)))


def judge(runs: Sequence[Run], variants: Sequence[str], declaration: Declaration) -> pd.DataFrame:
    """Anytime-valid differences from the first of `variants` at the declared endpoint. Here alone a
    sweep asks the statistics."""
    ordered = sorted(runs, key=lambda run: [*variants].index(run.label))
    (group,) = groups_of([row for run in ordered for row in rows_of(run)], {})
    group = replace(group, sequential=frozenset(group.variants))
    found = differences(group, [Metric(margin=declaration.margin)])
    return found[found["point"] == declaration.metric]


def plan_until_decided(words: Sequence[str], *, margin: float) -> Sweep:
    """Plan the runs that `words` may need, with the declaration of their endpoint: the first one of
    the protocol. margin: of accuracy, as a share.

    Raises `UserError` where nothing can be decided.
    """
    if any(word.startswith(("tune=", "tune.")) for word in words):
        raise UserError("tune= does not go with --until. Leave one out.")
    words = [*words] if any(word.startswith("seed=") for word in words) else [*words, BUDGET]
    sweep = plan(words)
    _, *others = sweep.variants
    seeds = {job.config.seed for job in sweep.jobs}
    if not others:
        raise UserError("--until decided compares variants; got one. Add position=none,sinusoidal.")
    if len({repr((job.config.data, job.config.train.protocol)) for job in sweep.jobs}) > 1:
        raise UserError(
            "--until decided takes one data set and one protocol. Sweep each by itself."
        )
    if any(job.seed != str(job.config.seed) for job in sweep.jobs):
        raise UserError("--until decided counts by seed= alone. Leave out seeds.*.")
    blog = sweep.jobs[0].config.train.protocol is Protocol.blog
    declaration = Declaration(metric="final" if blog else "chosen", margin=margin)
    if len(seeds) < (fewest := fewest_seeds(len(others))):
        raise UserError(
            f"With {len(seeds)} seeds nothing can be decided of {len(others)} variants: {fewest} "
            f"are the fewest. Give more with seed=."
        )
    command = ["attnexp", "sweep", *words, "--until", "decided", "--margin", f"{100 * margin:g}"]
    return replace(sweep, command=shlex.join(command), declaration=declaration)


def chooser(
    sweep: Sweep, tell: Callable[[pd.DataFrame], None] = lambda found: None
) -> Callable[[list[Entry]], list[Entry]]:
    """Choose the next runs, for `run_sweep`, of what `plan_until_decided` planned, until all
    variants are decided or no seed is left.

    A decided variant gets no more seeds; the baseline gets more while any variant is open. A
    variant with a failed run gets no more until the command is repeated. Seeds are added as many at
    a time as fill the executor, at least a tenth of those there are. tell: called each time with
    the differences.
    """
    assert sweep.declaration is not None
    declaration, (baseline, *going) = sweep.declaration, sweep.variants
    seeds = [*dict.fromkeys(job.config.seed for job in sweep.jobs)]
    fewest, taken = fewest_seeds(len(going)), 0

    def choose(planned: list[Entry]) -> list[Entry]:
        nonlocal taken, going
        more = fewest
        if taken:
            failed = {entry.job.label for entry in planned if isinstance(entry.outcome, str)}
            runs = [entry.outcome for entry in planned if isinstance(entry.outcome, Run)]
            found = judge(runs, [*sweep.variants], declaration)
            tell(found)
            still = {*found.loc[found["verdict"].isin([UNDECIDED, TOO_FEW, ""]), "variant"]}
            going = [label for label in going if label in still - failed]
            if not going or baseline in failed:
                return []
            at_a_time = num_slots(sweep.executor, sweep.jobs) or 0
            more = max(1, taken // 10, at_a_time // (1 + len(going)))
        chosen, labels = seeds[taken : taken + more], (baseline, *going)
        taken += more
        return [e for e in planned if e.job.config.seed in chosen and e.job.label in labels]

    return choose
