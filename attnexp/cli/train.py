"""Commands that train: `train` and `sweep`. Heavy imports are inside, so that --help is fast."""

from typing import Annotated, Literal

import typer

from attnexp.base.errors import UserError
from attnexp.cli.app import AsJson, Margin, Overrides, app, console, emit, stop
from attnexp.config.schema import OnError


@app.command()
def train(
    overrides: Overrides = None,
    again: Annotated[
        bool, typer.Option("--again", help="Repeat the run even if it has finished.")
    ] = False,
    check_fast: Annotated[
        bool,
        typer.Option(
            "--check-fast",
            help="Train ten steps with train.fast=true and false in float64; print the difference.",
        ),
    ] = False,
    as_json: AsJson = False,
    multirun: Annotated[bool, typer.Option("--multirun", "-m", hidden=True)] = False,
) -> None:
    """Train one model and print its metrics by epoch.

    A run that has already finished is shown, not repeated.

    Example: attnexp train data=contrast position=sinusoidal
    """
    words = overrides or []
    if multirun:
        raise UserError(
            f"`train` does one run. For several: attnexp sweep {' '.join(words)}".strip()
        )
    from attnexp.config.compose import compose

    config = compose(words)  # before torch is imported: a wrong word is answered at once
    if check_fast:
        from attnexp.training import evaluate

        if not config.is_network:
            raise UserError("--check-fast needs a network; this model is fitted in one go.")
        path, difference = evaluate.check_fast(config)
        found = {"schema": 1, "path": path, "difference": difference}
        emit(found if as_json else f"{path} path: differs by at most {difference:.1e}")
        return
    from attnexp.analysis.comparison import compare
    from attnexp.report import formats
    from attnexp.runs.result import Run
    from attnexp.training.run import train_run

    run_dir, result = train_run(config, overrides=words, again=again)
    if as_json:
        emit({**result.to_json(), "folder": str(run_dir)})
    else:
        formats.print_comparisons(compare([Run(path=run_dir, result=result)]), console())
        emit(f"\nResults: {run_dir}")


@app.command()
def sweep(
    overrides: Overrides = None,
    zipped: Annotated[
        bool, typer.Option("--zip", help="Pair the values of the axes instead of crossing them.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="List the runs and their estimated time; train nothing."),
    ] = False,
    on_error: Annotated[
        OnError, typer.Option(help="After a failed run, continue or stop.")
    ] = OnError.proceed,
    margin: Margin = 0.25,
    until: Annotated[
        Literal["decided"] | None, typer.Option(help="Add seeds until every variant has a verdict.")
    ] = None,
    max_seeds: Annotated[
        int | None,
        typer.Option(min=7, max=1000, help="Budget of seeds with --until (default: 64)."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="POINT", help="Accuracy that decides with --until, such as final."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train several models and compare them. Finished runs are not repeated.

    Runs are started by executor=local (processes; executor.workers=2), submitit, slurm or ray.

    Example: attnexp sweep study=blog 'seed=range(10)'

    Example: attnexp sweep position=none,sinusoidal model.heads=1,8 data=contrast

    Example: attnexp sweep study=blog --until decided
    """
    words = overrides or []
    if until is None:
        from attnexp.sweeps.plan import plan

        if max_seeds or metric:
            raise UserError("--max-seeds and --metric need --until decided.")
        planned = plan(words, zipped=zipped)
    else:
        from attnexp.sweeps.sequential import plan_until_decided

        planned = plan_until_decided(
            words, zipped=zipped, max_seeds=max_seeds, margin=margin, metric=metric
        )
    if dry_run:
        from attnexp.sweeps.preview import preview_sweep, print_preview

        shown = preview_sweep(planned)
        emit(shown.to_json()) if as_json else print_preview(shown, console())
        return

    from contextlib import closing, suppress

    from attnexp.analysis.across import across_data
    from attnexp.analysis.comparison import compare
    from attnexp.report import formats, tables
    from attnexp.runs.result import Run
    from attnexp.sweeps.executors.task import Failure
    from attnexp.sweeps.schedule import run_sweep
    from attnexp.sweeps.sequential import run_until_decided
    from attnexp.sweeps.watch import Watch, totals

    with closing(Watch()) as watch:
        if until is None:
            entries = run_sweep(planned, on_error=on_error, observe=watch)
        else:
            entries = run_until_decided(planned, on_error=on_error, observe=watch, tell=watch.look)
    outcomes = [entry.outcome for entry in entries]
    finished = [outcome for outcome in outcomes if isinstance(outcome, Run)]
    finished.sort(key=lambda run: [*planned.variants].index(run.label))
    compared = compare(finished, margin=margin)
    if as_json:
        emit(formats.as_json(compared))
    elif finished:
        formats.print_comparisons(compared, console())
        if planned.jobs[0].data:
            with suppress(UserError):  # there are not two data sets with an interval
                formats.print_tables(map(tables.across_table, across_data(compared)), console())
        emit(f"\nResults: {planned.directory}\nAgain: attnexp report {planned.directory}")
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    if failures:
        lines = [f"{failure.job}: {failure.reason}" for failure in failures]
        stop("\n".join([f"runs failed; {totals(entries)}.", *lines]), code=1)
