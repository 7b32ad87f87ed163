"""Commands that train: `train` and `sweep`. Heavy imports are inside, so that --help is fast."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from attnexp.cli.app import AsJson, Margin, Overrides, app, console, emit, stop

if TYPE_CHECKING:
    from pandas import DataFrame

    from attnexp.config.schema import RunConfig
    from attnexp.sweeps.plan import Sweep
    from attnexp.sweeps.schedule import Entry


@app.command()
def train(
    overrides: Overrides = None,
    again: Annotated[bool, typer.Option("--again", help="Repeat a run that has finished.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train one model and print its metrics by epoch.

    A run that has already finished is shown, not repeated.

    Example: attnexp train data=contrast position=sinusoidal
    """
    from attnexp.config.compose import compose

    words = overrides or []
    config = compose(words)  # before the loop is imported: a wrong word is answered at once
    from attnexp.analysis.frames import groups_of, rows_of
    from attnexp.report import tables, terminal
    from attnexp.runs.result import Run
    from attnexp.training.run import train_run

    run_dir, result = train_run(config, again=again)
    if as_json:
        emit({**asdict(result), "folder": str(run_dir)})
    else:
        groups = groups_of([*rows_of(Run(path=run_dir, result=result))], {})
        terminal.print_table(tables.epochs(groups, []), console())
        emit("\n".join([f"\nResults: {run_dir}", "Next:", *_next_commands(run_dir, words, config)]))


def _next_commands(run_dir: Path, words: Sequence[str], config: "RunConfig") -> Iterator[str]:
    """Commands worth trying after a run, an indented line each."""
    from attnexp.config.options import name_of
    from attnexp.inspect.insight import SENTENCE

    own = name_of(config.position.kind)
    key, both = "position", f"none,{'sinusoidal' if own == 'none' else own}"
    if not config.is_network:
        key, both = "model", "tfidf,attention"
    others = [word for word in words if not word.startswith((f"{key}=", "seed="))]
    predict = [["predict", str(run_dir), SENTENCE]] if config.is_network else []
    sweep = ["sweep", *others, f"{key}={both}", "seed=range(6)"]
    for command in [*predict, sweep, ["report", str(run_dir), "--html", "page.html"]]:
        yield f"  {shlex.join(['attnexp', *command])}"


@app.command()
def sweep(
    overrides: Overrides = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show runs and time.")] = False,
    any_code: Annotated[bool, typer.Option("--any-code", help="Take runs of older code.")] = False,
    margin: Margin = 0.25,
    until: Annotated[
        Literal["decided"] | None, typer.Option(help="Add seeds until every variant has a verdict.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train several models and compare them. Finished runs are not repeated.

    Runs are started by executor=local (processes; executor.workers=2), slurm or ray.

    Example: attnexp sweep study=blog 'seed=range(10)'

    Example: attnexp sweep study=blog --until decided

    Example: attnexp sweep study=blog tune=train.lr=3e-4,1e-3,3e-3
    """
    from attnexp.base import progress
    from attnexp.runs.result import Run
    from attnexp.sweeps import sequential, tuning, watch
    from attnexp.sweeps.plan import plan
    from attnexp.sweeps.schedule import Entry, run_sweep

    words, search, entries = overrides or [], None, list[Entry]()
    if until:
        planned = sequential.plan_until_decided(words, margin=margin)
    elif any(map(tuning.is_tuning, words)):
        search = tuning.plan_tuning(words)
        planned = search.search
    else:
        planned = plan(words)
    for line in watch.notes_on_seeds(search.study if search else planned):
        progress.note(line)
    if dry_run:
        emit("\n".join(watch.preview_sweep(planned, any_code=any_code)))
        return
    run = partial(run_sweep, any_code=any_code)
    if search is not None:
        with watch.Watch() as view:
            entries = run(planned, observe=view)
        planned, lines = tuning.choose(search, entries)
        progress.note("\n".join(lines))
    with watch.Watch() as view:
        choose = partial(sequential.rounds, planned, _tell) if until else None
        judged = run(planned, observe=view, choose=choose)
    finished = [one for one in judged if isinstance(one.outcome, Run)]
    if finished:
        _report(planned, finished, margin, as_json=as_json)
    _stop_if_failed([*entries, *judged])


def _tell(found: "DataFrame") -> None:
    """Print a line on each difference."""
    from attnexp.base.progress import note
    from attnexp.report.tables import verdict_line

    note("\n".join(verdict_line(row) for _, row in found.iterrows()))


def _report(sweep: "Sweep", finished: "Sequence[Entry]", margin: float, *, as_json: bool) -> None:
    """Print the answer of a sweep, whose own seeds are those that it planned."""
    from attnexp.analysis.frames import groups_of, rows_of
    from attnexp.report.terminal import show_answer
    from attnexp.runs.manifest import Entry, Manifest
    from attnexp.runs.result import Run
    from attnexp.statistics.verdict import Metric

    order, name = [*sweep.variants], sweep.directory.name
    runs = [one.outcome for one in finished if isinstance(one.outcome, Run)]
    runs.sort(key=lambda run: order.index(run.label))
    planned = [Entry(variant=job.label, seed=job.seed, run_id="") for job in sweep.jobs]
    study = Manifest(
        variants=sweep.variants,
        runs=[] if sweep.declaration else planned,
        declaration=sweep.declaration,
    )
    groups = groups_of([row for run in runs for row in rows_of(run, name)], {name: study})
    show_answer(groups, [Metric(margin=margin)], console(), format="json" if as_json else "table")
    if not as_json:
        again = shlex.join(["attnexp", "report", str(sweep.directory)])
        emit(f"Results: {sweep.directory}\nMore: {again} --table differences (or --html FILE)")


def _stop_if_failed(entries: "Sequence[Entry]") -> None:
    """Exit with 1 if a run has failed, with the reason of each that has."""
    failed = [f"{one.job}: {one.outcome}" for one in entries if isinstance(one.outcome, str)]
    if failed:
        stop("\n".join([f"{len(failed)} of {len(entries)} runs failed.", *failed]), code=1)
