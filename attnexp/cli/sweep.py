"""`attnexp sweep`. Heavy imports are inside, so that --help is fast."""

import shlex
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from attnexp.cli.app import AnyCode, AsJson, ConfigDir, Margin, Overrides, Until, app, emit, stop
from attnexp.statistics.defaults import MARGIN

if TYPE_CHECKING:
    from attnexp.statistics.verdict import MetricSpec
    from attnexp.sweeps.plan import Sweep
    from attnexp.sweeps.schedule import SweepEntry


@app.command()
def sweep(
    overrides: Overrides = None,
    config_dir: ConfigDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List runs, train none.")] = False,
    any_code: AnyCode = False,
    margin: Margin = 100 * MARGIN,
    metric: Annotated[str, typer.Option(metavar="NAME", help="What is judged.")] = "accuracy",
    until: Annotated[Until, typer.Option(help="Add seeds until each has a verdict.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train several models and compare them. Finished runs are not repeated.

    Runs are started by executor=local (processes; executor.workers=2), slurm or ray. name=NAME
    names the folder of the results.

    Example: attnexp sweep study=blog 'seed=range(10)' name=my_blog

    Example: attnexp sweep study=blog tune=train.lr=3e-4,1e-3,3e-3
    """
    from attnexp.analysis.metrics import choose_metric
    from attnexp.base import progress
    from attnexp.sweeps import sequential, tuning, watch
    from attnexp.sweeps.folder import choose_folder
    from attnexp.sweeps.plan import plan
    from attnexp.sweeps.schedule import run_sweep

    words = overrides or []
    spec = choose_metric(metric, margin)
    search = None
    if until:
        study = sequential.plan_until_decided(words, margin=spec.margin)
    elif any(map(tuning.is_tuning, words)):
        search = tuning.plan_tuning(words)
        study = search.study
    else:
        study = plan(words)
    for line in watch.notes_on_plan(study):
        progress.note(line)
    next_sweep = choose_folder(search.search if search else replace(study, metric=spec.name))
    if dry_run:
        emit(watch.preview_sweep(next_sweep, study, any_code=any_code, as_json=as_json))
        if search:
            progress.note(f"After this search: {len(study.jobs)} runs with the values it chooses.")
        return
    entries: list[SweepEntry] = []
    if search:
        with watch.Watch() as view:
            entries = run_sweep(next_sweep, any_code=any_code, observe=view)
        study, lines = tuning.choose_settings(search, entries)
        progress.note("\n".join(lines))
        next_sweep = choose_folder(replace(study, metric=spec.name))
    entries += _run_study(next_sweep, spec, any_code, until, as_json)
    _stop_at_failures(entries)


def _run_study(
    study: "Sweep", metric: "MetricSpec", any_code: bool, until: Until, as_json: bool
) -> "list[SweepEntry]":
    """Run the runs that are judged, and print the answer of those that have finished."""
    from attnexp.cli.report import print_answer
    from attnexp.cli.train import note_few_steps
    from attnexp.runs.result import Run
    from attnexp.sweeps import sequential
    from attnexp.sweeps.schedule import run_sweep
    from attnexp.sweeps.watch import Watch

    answer = partial(sequential.answer_of_sweep, study, metric=metric)
    run = partial(run_sweep, study, any_code=any_code)
    if until:
        run = partial(run, choose=partial(sequential.rounds, study))
    with Watch() as view:
        entries = run(observe=view)
    results = [entry.outcome.result for entry in entries if isinstance(entry.outcome, Run)]
    note_few_steps(results)
    if results:
        print_answer(answer(entries), None, "json" if as_json else "table")
        if not as_json:
            report = shlex.join(["attnexp", "report", str(study.directory)])
            emit(f"Results: {study.directory}. More: {report} --html page.html")
    return entries


def _stop_at_failures(entries: "list[SweepEntry]") -> None:
    """End with code 1, and why, if any run has failed."""
    failures = [
        f"{entry.job}: {entry.outcome}" for entry in entries if isinstance(entry.outcome, str)
    ]
    if failures:
        stop("\n".join([f"{len(failures)} of {len(entries)} runs failed.", *failures]), code=1)
