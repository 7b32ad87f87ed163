"""`attnexp sweep`. Heavy imports are inside, so that --help is fast."""

import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from attnexp.cli.app import AnyCode, AsJson, ConfigDir, Margin, Overrides, Until, app, emit, stop

if TYPE_CHECKING:
    from attnexp.sweeps.plan import Sweep
    from attnexp.sweeps.schedule import SweepEntry


@app.command("sweep")
def sweep_command(
    overrides: Overrides = None,
    config_dir: ConfigDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Count runs, train none.")] = False,
    any_code: AnyCode = False,
    margin: Margin = None,
    metric: Annotated[str, typer.Option(metavar="NAME", help="What is judged.")] = "accuracy",
    until: Annotated[Until, typer.Option(help="Add seeds until each has a verdict.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train several models and compare them. Finished runs are not repeated.

    Runs are started by executor=local (processes; executor.workers=2), slurm or ray. name=NAME
    names the folder of the results.

    Example: attnexp sweep study=blog 'seed=range(10)' name=my_blog

    Example: attnexp sweep study=blog tune=train.lr=3e-4,1e-3,3e-3"""
    from attnexp.analysis.answer import choose_metric
    from attnexp.base.progress import note
    from attnexp.sweeps import display, local, sequential, tuning
    from attnexp.sweeps.folder import assign_folder
    from attnexp.sweeps.plan import plan

    words = [word.lstrip("+") for word in overrides or []]  # Hydra has +key=value, too.
    spec = choose_metric(metric, margin)
    tuned = None  # with tune=: a search, and the main sweep that follows it
    if until:
        main = sequential.plan_until_decided(words, spec)
    elif any(map(tuning.is_tuning, words)):
        tuned = tuning.plan_tuning(words, spec)
        main = tuned.untuned
    else:
        main = plan(words, spec)
    if not dry_run:  # Processes import torch while this one reads the data, in `assign_folder`.
        local.warm_up(main.executor, main.jobs)
    first = assign_folder(tuned.search if tuned else main)
    if dry_run:
        counts = display.count_runs(first, any_code=any_code)
        emit(counts if as_json else display.describe_counts(first, counts))
        if tuned:
            note(f"After this search: {len(main.jobs)} runs with the values it chooses.")
        return
    entries = _run(first, until, any_code)
    search_entries = []
    if tuned:
        search_entries = entries
        main, lines = tuning.choose_settings(tuned, search_entries)
        note("\n".join(lines))
        first = assign_folder(main)
        entries = _run(first, None, any_code)
    _print_results(first, entries, as_json)
    _stop_if_failed(entries + search_entries)


def _stop_if_failed(entries: "list[SweepEntry]") -> None:
    """Exit with 1 and the reasons if any run has failed."""
    failures = [f"{entry.job}: {entry.failure}" for entry in entries if entry.failure is not None]
    if failures:
        lines = [f"{len(failures)} of {len(entries)} runs failed.", *failures]
        stop("\n".join(lines), code=1)


def _run(sweep: "Sweep", until: Until, any_code: bool) -> "list[SweepEntry]":
    """Run a sweep in its folder, with a display. until, any_code: the options of the command."""
    from attnexp.sweeps.display import SweepDisplay
    from attnexp.sweeps.schedule import run_sweep
    from attnexp.sweeps.sequential import run_until_decided

    run = run_until_decided if until else run_sweep
    display = SweepDisplay()
    with display.bar:
        return run(sweep, any_code=any_code, observe=display.show)


def _print_results(sweep: "Sweep", entries: "list[SweepEntry]", as_json: bool) -> None:
    """Print the answer of the runs that have finished, if any has."""
    from attnexp.cli.report import print_answer
    from attnexp.cli.train import note_few_steps
    from attnexp.sweeps.answer import answer_of_sweep

    results = [entry.run.result for entry in entries if entry.run]
    note_few_steps(results)
    if results:
        answer = answer_of_sweep(sweep, entries)
        print_answer(answer, None, "json" if as_json else "table")
        if not as_json:
            report = shlex.join(["attnexp", "report", str(sweep.directory)])
            emit(f"Results: {sweep.directory}. More: {report} --html page.html")
