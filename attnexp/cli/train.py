"""Commands that train: `train` and `sweep`. Heavy imports are inside, so that --help is fast."""

import shlex
from dataclasses import asdict
from functools import partial
from typing import Annotated

import typer

from attnexp.cli.app import AsJson, ConfigDir, Margin, Overrides, Until, app, console, emit, stop


@app.command()
def train(
    overrides: Overrides = None,
    config_dir: ConfigDir = None,
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
    from attnexp.analysis.answer import compare
    from attnexp.analysis.read_runs import make_groups, make_rows
    from attnexp.report.advice import next_commands
    from attnexp.report.print_table import print_table
    from attnexp.report.tables import tabulate_epochs
    from attnexp.runs.result import Run
    from attnexp.training.run import load_data, train_run

    run_dir, result = train_run(config, again=again)
    if as_json:
        emit({**asdict(result), "folder": str(run_dir)})
    else:
        answer = compare(make_groups(make_rows(Run(path=run_dir, result=result)), {}), [])
        print_table(tabulate_epochs(answer), console())
        data = load_data(config.data, config.seeds.resample)
        emit("\n".join(next_commands(run_dir, words, config, data.read(data.test.ids[0]))))


@app.command()
def sweep(
    overrides: Overrides = None,
    config_dir: ConfigDir = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List runs, train none.")] = False,
    any_code: Annotated[bool, typer.Option("--any-code", help="Take runs of older code.")] = False,
    margin: Margin = 0.25,
    until: Annotated[Until, typer.Option(help="Add seeds until each has a verdict.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train several models and compare them. Finished runs are not repeated.

    Runs are started by executor=local (processes; executor.workers=2), slurm or ray.

    Example: attnexp sweep study=blog 'seed=range(10)'

    Example: attnexp sweep study=blog tune=train.lr=3e-4,1e-3,3e-3
    """
    from attnexp.base import progress
    from attnexp.runs.result import Run
    from attnexp.sweeps import tuning, watch
    from attnexp.sweeps.plan import plan
    from attnexp.sweeps.schedule import Entry, run_sweep

    words, search, entries = overrides or [], None, list[Entry]()
    if until:
        from attnexp.sweeps import sequential

        planned = sequential.plan_until_decided(words, margin=margin / 100)
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
    from attnexp.cli.output import print_answer
    from attnexp.report.advice import foresee_seeds
    from attnexp.statistics.verdict import Metric
    from attnexp.sweeps import sequential

    run, metric = partial(run_sweep, any_code=any_code), Metric(margin=margin / 100)
    if search is not None:
        with watch.Watch() as view:
            entries = run(planned, observe=view)
        planned, lines = tuning.choose(search, entries)
        progress.note("\n".join(lines))
    with watch.Watch(
        lambda entries: foresee_seeds(sequential.answer_of_sweep(planned, entries, metric))
    ) as view:
        choose = partial(sequential.rounds, planned) if until else None
        judged = run(planned, observe=view, choose=choose)
    if any(isinstance(one.outcome, Run) for one in judged):
        answer = sequential.answer_of_sweep(planned, judged, metric)
        print_answer(answer, None, "json" if as_json else "table")
        if not as_json:
            again = shlex.join(["attnexp", "report", str(planned.directory)])
            emit(f"Results: {planned.directory}. More: {again} --html page.html")
    entries += judged
    if failed := [f"{one.job}: {one.outcome}" for one in entries if isinstance(one.outcome, str)]:
        stop("\n".join([f"{len(failed)} of {len(entries)} runs failed.", *failed]), code=1)
