"""Sweep that adds seeds until every variant is decided by an anytime-valid interval."""

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace

from attnexp.base.errors import UserError
from attnexp.config.schema import to_dict
from attnexp.runs.manifest import Declaration
from attnexp.runs.points import POINTS
from attnexp.runs.result import Run
from attnexp.statistics.anytime import fewest_seeds
from attnexp.sweeps.executors import num_slots
from attnexp.sweeps.plan import Job, Sweep, plan
from attnexp.sweeps.schedule import Entry

MAX_SEEDS = 64


def undecided(
    runs: Sequence[Run], variants: Sequence[str], declaration: Declaration
) -> tuple[list[str], dict[str, str]]:
    """Variants that need more seeds, and a line on each that shares seeds with the baseline, the
    first of `variants`. Here alone a sweep asks the statistics."""
    decisions = declaration.decide(runs, variants)
    still = [label for label, decision in decisions.items() if decision.verdict is None]
    return still, {label: decision.line for label, decision in decisions.items()}


def plan_until_decided(
    words: Sequence[str], *, max_seeds: int | None, margin: float, metric: str | None
) -> Sweep:
    """Plan the runs that `words` may need, with the declaration of their endpoint.

    max_seeds: the budget, seeds 0 to max_seeds - 1 (default: 64); `seed=` among the words names
    other seeds instead. margin: of accuracy, as a share. metric: an evaluation point of the
    protocol (default: its first). Raises `UserError` where nothing can be decided.
    """
    given, budget = ["--margin", f"{100 * margin:g}"], list[str]()
    if not any(word.startswith("seed=") for word in words):
        budget = [f"seed=range({max_seeds or MAX_SEEDS})"]
        given += ["--max-seeds", str(max_seeds or MAX_SEEDS)]
    elif max_seeds is not None:
        raise UserError("seed= names the seeds that may be added; leave out --max-seeds, or seed=.")
    sweep = plan([*words, *budget])
    baseline, *others = sweep.variants
    first, seeds = sweep.jobs[0].config, {job.config.seed for job in sweep.jobs}
    points = [*POINTS[first.train.protocol]]
    if metric not in (None, *points):
        raise UserError(f"--metric {metric}: choose one of {', '.join(points)}.")
    declaration = Declaration(metric=metric or points[0], margin=margin)
    if not others:
        raise UserError("--until decided compares variants; got one. Add position=none,sinusoidal.")
    for job in sweep.jobs:
        alike = job.config.train.protocol is first.train.protocol
        if not alike or to_dict(job.config)["data"] != to_dict(first)["data"]:
            raise UserError(f"{job} has other data or another protocol than {baseline}.")
        if job.seed != str(job.config.seed):
            raise UserError("--until decided counts by seed= alone; leave out seeds.*.")
    if len(seeds) < (fewest := fewest_seeds(declaration.alpha / len(others))):
        raise UserError(
            f"With {len(seeds)} seeds nothing can be decided of {len(others)} variants: {fewest} "
            f"are the fewest. Give a larger --max-seeds, or more with seed=."
        )
    given += ["--metric", declaration.metric]
    command = shlex.join(["attnexp", "sweep", *words, "--until", "decided", *given])
    return replace(sweep, command=command, declaration=declaration)


def chooser(
    sweep: Sweep, tell: Callable[[dict[str, str]], None] = lambda lines: None
) -> Callable[[Sequence[Entry]], list[Job]]:
    """Which jobs to do next, for `run_sweep`: of what `plan_until_decided` planned, until all
    variants are decided or no seed is left.

    A decided variant gets no more seeds; the baseline gets more while any variant is open. A
    variant with a failed run gets no more until the command is repeated. Seeds are added as many at
    a time as fill the executor, at least a tenth of those there are. tell: called each time with a
    line on each variant.
    """
    assert sweep.declaration is not None
    declaration, (baseline, *others) = sweep.declaration, sweep.variants
    seeds = [*dict.fromkeys(job.config.seed for job in sweep.jobs)]
    taken, going = 0, others

    def choose(entries: Sequence[Entry]) -> list[Job]:
        nonlocal taken, going
        more = fewest_seeds(declaration.alpha / len(others))
        if entries:
            failed = {entry.job.label for entry in entries if isinstance(entry.outcome, str)}
            runs = [entry.outcome for entry in entries if isinstance(entry.outcome, Run)]
            still, lines = undecided(runs, [*sweep.variants], declaration)
            tell(lines)
            going = [label for label in going if label in still and label not in failed]
            if not going or baseline in failed:
                return []
            at_a_time = num_slots(sweep.executor, sweep.jobs) or 0
            more = max(1, taken // 10, at_a_time // (1 + len(going)))
        chosen = seeds[taken : taken + more]
        taken += more
        labels = (baseline, *going)
        return [job for job in sweep.jobs if job.config.seed in chosen and job.label in labels]

    return choose
