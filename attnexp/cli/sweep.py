"""`attnexp sweep`. Heavy imports are inside, so that --help is fast."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from attnexp.cli.app import AnyCode, AsJson, ConfigDir, Overrides, Until, app, emit, points, stop
from attnexp.statistics.defaults import MARGIN

if TYPE_CHECKING:
    from attnexp.sweeps.plan import Sweep
    from attnexp.sweeps.schedule import SweepEntry
    from attnexp.sweeps.tuning import Tuning


@app.command()
def sweep(
    overrides: Overrides = None,
    config_dir: ConfigDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List runs, train none.")] = False,
    any_code: AnyCode = False,
    margin: Annotated[float, points] = 100 * MARGIN,
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
    from attnexp.sweeps import display, executors, sequential, tuning
    from attnexp.sweeps.folder import choose_folder
    from attnexp.sweeps.plan import plan

    words = overrides or []
    spec = choose_metric(metric, margin)
    search = None
    if until:
        study = sequential.plan_until_decided(words, spec)
    elif any(map(tuning.is_tuning, words)):
        search = tuning.plan_tuning(words, spec)
        study = search.study
    else:
        study = plan(words, spec)
    display.note_few_seeds(study)
    if dry_run:
        first = choose_folder(search.search if search else study)
        emit(display.preview_sweep(first, any_code=any_code, as_json=as_json))
        if search:
            progress.note(f"After this search: {len(study.jobs)} runs with the values it chooses.")
        return
    executors.warm_up(study.executor, study.jobs)
    entries: list[SweepEntry] = []
    if search:
        study, entries = _search_settings(search, any_code)
    study = choose_folder(study)
    entries += _run_study(study, until, any_code, as_json)
    _stop_at_failures(entries)


def _search_settings(search: "Tuning", any_code: bool) -> "tuple[Sweep, list[SweepEntry]]":
    """The study with the settings that a search chooses, and the runs of the search."""
    from attnexp.base import progress
    from attnexp.sweeps.display import SweepDisplay
    from attnexp.sweeps.folder import choose_folder
    from attnexp.sweeps.schedule import run_sweep
    from attnexp.sweeps.tuning import choose_settings

    display = SweepDisplay()
    with display.bar:
        entries = run_sweep(choose_folder(search.search), any_code=any_code, observe=display.show)
    study, lines = choose_settings(search, entries)
    progress.note("\n".join(lines))
    return study, entries


def _run_study(study: "Sweep", until: Until, any_code: bool, as_json: bool) -> "list[SweepEntry]":
    """Run the runs that are judged, and print the answer of those that have finished."""
    from attnexp.cli.report import print_answer
    from attnexp.cli.train import note_few_steps
    from attnexp.runs.result import Run
    from attnexp.sweeps import sequential
    from attnexp.sweeps.display import SweepDisplay
    from attnexp.sweeps.schedule import run_sweep

    run = sequential.run_until_decided if until else run_sweep
    display = SweepDisplay()
    with display.bar:
        entries = run(study, any_code=any_code, observe=display.show)
    results = [entry.outcome.result for entry in entries if isinstance(entry.outcome, Run)]
    note_few_steps(results)
    if results:
        print_answer(
            sequential.answer_of_sweep(study, entries), None, "json" if as_json else "table"
        )
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
