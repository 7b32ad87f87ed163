"""Sweep that adds seeds until every variant has a verdict, with interim analyses."""

import shlex
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from attnexp.base.errors import UserError
from attnexp.config.schema import OnError, to_dict
from attnexp.runs.declaration import Declaration
from attnexp.runs.points import POINTS
from attnexp.runs.result import Run
from attnexp.statistics import sequential
from attnexp.statistics.sequential import Decision, Design
from attnexp.sweeps.plan import Sweep, plan
from attnexp.sweeps.schedule import Entry, Observer, run_sweep, scan

ALPHA = 0.05


@dataclass(frozen=True, kw_only=True, slots=True)
class InterimResult:
    """Result of an interim analysis."""

    n: int
    """Number of seeds."""
    design: Design
    decisions: dict[str, Decision]
    """Decisions, keyed by variant."""
    chances: dict[str, float]
    """Probability that an open variant is decided at the next analysis, keyed by variant."""


def plan_until_decided(
    words: Sequence[str],
    *,
    zipped: bool = False,
    max_seeds: int = 64,
    margin: float,
    metric: str | None = None,
) -> Sweep:
    """Plan the maximum number of runs that `words` may need, with the declaration of the test.

    margin: of accuracy, as a share. metric: an evaluation point of the protocol (default: its
    first). Raises `UserError` for designs that cannot reach a decision.
    """
    if any(word.partition("=")[0] == "seed" for word in words):
        raise UserError("--until decided counts the seeds itself, from 0; leave out seed=.")
    sweep = plan([*words, f"seed=range({max_seeds})"], zipped=zipped)
    design = sequential.design(max_seeds, margin=margin, alpha=ALPHA)
    _check(sweep, design)
    points = [point.name for point in POINTS[sweep.jobs[0].config.train.protocol]]
    if metric not in (None, *points):
        raise UserError(f"--metric {metric}: choose one of {', '.join(points)}.")
    options = ["--until", "decided", "--max-seeds", str(max_seeds), "--margin", f"{100 * margin:g}"]
    options += ["--metric", metric or points[0], *(["--zip"] if zipped else [])]
    entries = scan(sweep)
    declaration = Declaration(
        design=design,
        metric=metric or points[0],
        runs={
            label: tuple(e.identity.settings for e in entries if e.job.label == label)
            for label in sweep.variants
        },
        finished_before=sum(entry.before for entry in entries),
    )
    return replace(
        sweep,
        command=shlex.join(["attnexp", "sweep", *words, *options]),
        declaration=declaration,
    )


def _check(sweep: Sweep, design: Design) -> None:
    """Raise `UserError` where there is nothing to decide, or nothing can be."""
    first, num_variants = sweep.jobs[0].config, len(sweep.variants) - 1
    if not num_variants:
        raise UserError("--until decided compares variants; got one. Add position=none,sinusoidal.")
    clearest = sequential.flip([1.0] * design.looks[-1], design, alpha=design.alpha / num_variants)
    if clearest.rejected_at is None:
        raise UserError(
            f"With {design.looks[-1]} seeds nothing can be decided of {num_variants} variants. "
            f"Give a larger --max-seeds."
        )
    if max(Counter((job.label, job.config.seed) for job in sweep.jobs).values()) > 1:
        raise UserError("--until decided counts by seed= alone; give seeds.* one value each.")
    for job in sweep.jobs:
        alike = job.config.train.protocol == first.train.protocol
        if not alike or to_dict(job.config)["data"] != to_dict(first)["data"]:
            raise UserError(
                f"{job.label} has other data or another protocol than {sweep.jobs[0].label}, so "
                f"the two cannot be compared. Sweep each by itself."
            )


def run_until_decided(
    sweep: Sweep,
    *,
    on_error: OnError = OnError.proceed,
    observe: Observer = lambda entries, executor: None,
    tell: Callable[[InterimResult], None] = lambda standing: None,
) -> list[Entry]:
    """Run what `plan_until_decided` planned until all variants are decided; return these entries.

    A decided variant gets no more seeds; the baseline gets more while any variant is open. A
    variant with a failed run waits for the command to be repeated: decisions depend on the seeds in
    their order and on nothing else. tell: called after every interim analysis.
    """
    assert sweep.declaration is not None
    declaration, design = sweep.declaration, sweep.declaration.design
    baseline, *others = sweep.variants
    taken: list[Entry] = []
    going, before = others, 0
    for n in design.looks:
        jobs = [
            job
            for job in sweep.jobs
            if before <= job.config.seed < n and job.label in (baseline, *going)
        ]
        taken += run_sweep(replace(sweep, jobs=jobs), on_error=on_error, observe=observe)
        missing = {e.job.label for e in taken if not isinstance(e.outcome, Run)}
        runs = [entry.outcome for entry in taken if isinstance(entry.outcome, Run)]
        differences = declaration.differences(runs)
        decisions = sequential.decide(differences, design)
        chances = sequential.chances(differences, design, decisions)
        tell(InterimResult(n=n, design=design, decisions=decisions, chances=chances))
        going = [
            label for label in going if decisions[label].verdict is None and label not in missing
        ]
        if not going or baseline in missing or (missing and on_error is OnError.stop):
            break
        before = n
    return taken
