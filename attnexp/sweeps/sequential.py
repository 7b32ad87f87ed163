"""Sweep that adds seeds until every variant is decided by an anytime-valid interval."""

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

import pandas as pd

from attnexp.analysis.contrasts import differences
from attnexp.analysis.frames import groups_of
from attnexp.analysis.stored import rows_of
from attnexp.base.errors import UserError
from attnexp.config.schema import to_dict
from attnexp.runs.manifest import Declaration
from attnexp.runs.points import POINTS
from attnexp.runs.result import Run
from attnexp.statistics.intervals import anytime_factor
from attnexp.statistics.verdict import TOO_FEW, UNDECIDED, Metric
from attnexp.sweeps.plan import Sweep, plan
from attnexp.sweeps.schedule import Entry, Observer, run_sweep, slots

MAX_SEEDS = 64

OPEN = (UNDECIDED, TOO_FEW, "")
"""Verdicts after which a variant gets more seeds."""


def plan_until_decided(
    words: Sequence[str],
    *,
    zipped: bool = False,
    max_seeds: int | None = None,
    margin: float,
    metric: str | None = None,
) -> Sweep:
    """Plan the runs that `words` may need, with the declaration of their endpoint.

    max_seeds: the budget, seeds 0 to max_seeds - 1 (default: 64); `seed=` among the words names
    other seeds instead. margin: of accuracy, as a share. metric: an evaluation point of the
    protocol (default: its first). Raises `UserError` where nothing can be decided.
    """
    given = ["--margin", f"{100 * margin:g}", *(["--zip"] if zipped else [])]
    if not any(word.startswith("seed=") for word in words):
        budget = [f"seed=range({max_seeds or MAX_SEEDS})"]
        given += ["--max-seeds", str(max_seeds or MAX_SEEDS)]
    elif max_seeds is None:
        budget = []
    else:
        raise UserError("seed= names the seeds that may be added; leave out --max-seeds, or seed=.")
    sweep = plan([*words, *budget], zipped=zipped)
    _check(sweep)
    points = [*POINTS[sweep.jobs[0].config.train.protocol]]
    if metric not in (None, *points):
        raise UserError(f"--metric {metric}: choose one of {', '.join(points)}.")
    given += ["--metric", metric or points[0]]
    return replace(
        sweep,
        command=shlex.join(["attnexp", "sweep", *words, "--until", "decided", *given]),
        declaration=Declaration(metric=metric or points[0], margin=margin),
    )


def _check(sweep: Sweep) -> None:
    """Raise `UserError` where there is nothing to decide, or nothing can be."""
    first, num_variants = sweep.jobs[0].config, len(sweep.variants) - 1
    if not num_variants:
        raise UserError("--until decided compares variants; got one. Add position=none,sinusoidal.")
    if max(Counter((job.label, job.config.seed) for job in sweep.jobs).values()) > 1:
        raise UserError("--until decided counts by seed= alone; give seeds.* one value each.")
    num_seeds, fewest = len(_seeds(sweep)), fewest_seeds(num_variants)
    if num_seeds < fewest:
        raise UserError(
            f"With {num_seeds} seeds nothing can be decided of {num_variants} variants: "
            f"{fewest} are the fewest. Give a larger --max-seeds, or more with seed=."
        )
    for job in sweep.jobs:
        alike = job.config.train.protocol == first.train.protocol
        if not alike or to_dict(job.config)["data"] != to_dict(first)["data"]:
            raise UserError(
                f"{job.label} has other data or another protocol than {sweep.jobs[0].label}, so "
                f"the two cannot be compared. Sweep each by itself."
            )


def _seeds(sweep: Sweep) -> list[int]:
    return list(dict.fromkeys(job.config.seed for job in sweep.jobs))


def run_until_decided(
    sweep: Sweep,
    *,
    stop_on_error: bool = False,
    observe: Observer = lambda entries, executor: None,
    tell: Callable[[pd.DataFrame], None] = lambda decisions: None,
) -> list[Entry]:
    """Run what `plan_until_decided` planned until all variants are decided or no seed is left;
    return these entries.

    A decided variant gets no more seeds; the baseline gets more while any variant is open. A
    variant with a failed run gets no more until the command is repeated. Seeds are added as many at
    a time as fill the executor, at least a tenth of those there are. tell: called each time.
    """
    assert sweep.declaration is not None
    baseline, *others = sweep.variants
    seeds, taken, going = _seeds(sweep), list[Entry](), others
    done, n = 0, fewest_seeds(len(others))
    while True:
        jobs = [
            job
            for job in sweep.jobs
            if job.config.seed in seeds[done:n] and job.label in (baseline, *going)
        ]
        taken += run_sweep(replace(sweep, jobs=jobs), stop_on_error=stop_on_error, observe=observe)
        missing = {e.job.label for e in taken if not isinstance(e.outcome, Run)}
        runs = [entry.outcome for entry in taken if isinstance(entry.outcome, Run)]
        decisions = decide(sweep, runs)
        tell(decisions)
        undecided = {*decisions.loc[decisions["verdict"].isin(OPEN), "variant"]}
        going = [label for label in going if label not in missing and label in undecided]
        stopping = baseline in missing or (missing and stop_on_error)
        if not going or stopping or n >= len(seeds):
            return taken
        at_a_time = (slots(sweep, taken) or 0) // (1 + len(going))
        done, n = n, n + max(1, n // 10, at_a_time)


def fewest_seeds(m: int) -> int:
    """Fewest seeds with a finite anytime-valid interval, of m comparisons."""
    return next(n for n in range(2, 1000) if anytime_factor(n, m) < float("inf"))


def decide(sweep: Sweep, runs: Sequence[Run]) -> pd.DataFrame:
    """Anytime-valid differences of finished runs from the baseline, at the declared endpoint."""
    assert sweep.declaration is not None
    rows = [row for run in runs for row in rows_of(run)]
    rows.sort(key=lambda row: [*sweep.variants].index(row["label"]))
    (group,) = groups_of(rows, {})
    group = replace(group, sequential=frozenset(group.variants))
    found = differences(group, [Metric(margin=sweep.declaration.margin)])
    return found[found["point"] == sweep.declaration.metric]
