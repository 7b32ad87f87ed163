"""Commands that train: `train` and `sweep`. Heavy imports are inside, so that --help is fast."""

import shlex
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from attnexp.base.errors import UserError
from attnexp.cli.app import AsJson, Margin, Overrides, app, console, emit, stop

if TYPE_CHECKING:
    from attnexp.config.schema import RunConfig
    from attnexp.sweeps.schedule import Entry


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
) -> None:
    """Train one model and print its metrics by epoch.

    A run that has already finished is shown, not repeated.

    Example: attnexp train data=contrast position=sinusoidal
    """
    from attnexp.config.compose import compose

    words = overrides or []
    config = compose(words)  # before torch is imported: a wrong word is answered at once
    if check_fast:
        from attnexp.training import evaluate

        if not config.is_network:
            raise UserError("--check-fast needs a network; this model is fitted in one go.")
        path, difference = evaluate.check_fast(config)
        found = {"schema": 1, "path": path, "difference": difference}
        emit(found if as_json else f"{path} path: differs by at most {difference:.1e}")
        return
    from attnexp.analysis.frames import groups_of
    from attnexp.analysis.stored import rows_of
    from attnexp.report import tables, terminal
    from attnexp.runs.result import Run
    from attnexp.training.run import train_run

    run_dir, result = train_run(config, overrides=words, again=again)
    if as_json:
        emit({**result.to_json(), "folder": str(run_dir)})
    else:
        groups = groups_of([*rows_of(Run(path=run_dir, result=result))], {})
        terminal.print_table(tables.epochs(groups, []), console())
        emit("\n".join([f"\nResults: {run_dir}", "Next:", *_next_commands(run_dir, words, config)]))


def _next_commands(run_dir: Path, words: Sequence[str], config: "RunConfig") -> Iterator[str]:
    """Commands worth trying after a run, an indented line each."""
    from attnexp.config.compose import compose
    from attnexp.config.options import name_of
    from attnexp.config.schema import to_dict
    from attnexp.config.trust import foreign_code
    from attnexp.inspect.insight import SENTENCE

    trust = ["--trust-code"] if foreign_code(to_dict(config)) else []
    key = "position" if config.is_network else "model"
    chosen = [word for word in words if word.startswith(f"{key}=")]
    others = [word for word in words if not word.startswith((f"{key}=", "seed="))]
    own = chosen[-1].partition("=")[2] if chosen else name_of(getattr(config, key).kind)
    both = ["none", "sinusoidal" if own == "none" else own]
    commands = [["predict", str(run_dir), SENTENCE, *trust]]
    commands += [["report", str(run_dir), "--html", "page.html", *trust]]
    if not config.is_network:
        commands, both = [["evaluate", str(run_dir)]], [own, "attention"]
    axis = f"{key}={','.join(both)}"
    with suppress(UserError):  # a model that takes no positions
        for option in both:
            compose([*others, f"{key}={option}"])
        commands += [["sweep", *others, axis, "seed=range(6)"]]
    for command in commands:
        yield f"  {shlex.join(['attnexp', *command])}"


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
        Literal["continue", "stop"], typer.Option(help="After a failed run, continue or stop.")
    ] = "continue",
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

    Example: attnexp sweep study=blog tune=train.lr=3e-4,1e-3,3e-3
    """
    from attnexp.sweeps import tuning

    words = overrides or []
    search = None
    if until is None and (max_seeds or metric):
        raise UserError("--max-seeds and --metric need --until decided.")
    if any(map(tuning.is_tuning, words)):
        if until or zipped:
            raise UserError("tune= does not go with --until or --zip. Leave one out.")
        search = tuning.plan_tuning(words)
        planned = search.search
    elif until is None:
        from attnexp.sweeps.plan import plan

        planned = plan(words, zipped=zipped)
    else:
        from attnexp.sweeps.sequential import plan_until_decided

        planned = plan_until_decided(
            words, zipped=zipped, max_seeds=max_seeds, margin=margin, metric=metric
        )
    if dry_run:
        from attnexp.sweeps.preview import preview_sweep, print_preview

        shown = preview_sweep(planned, followed_by=len(search.study.jobs) if search else 0)
        emit(shown) if as_json else print_preview(shown, console())
        return

    from contextlib import closing

    from attnexp.analysis.frames import groups_of
    from attnexp.analysis.stored import rows_of
    from attnexp.base import progress
    from attnexp.report.tables import verdict_line
    from attnexp.report.terminal import show_answer
    from attnexp.runs import manifest
    from attnexp.runs.result import Run
    from attnexp.statistics.verdict import Metric
    from attnexp.sweeps.schedule import Entry, run_sweep
    from attnexp.sweeps.sequential import run_until_decided
    from attnexp.sweeps.watch import Watch, print_trials

    stop_on_error, searched = on_error == "stop", list[Entry]()
    if search is not None:
        with closing(Watch()) as watch:
            searched = run_sweep(planned, stop_on_error=stop_on_error, observe=watch)
        if stop_on_error:
            _stop_if_failed(searched)
        trials = tuning.choose(search, searched)
        print_trials(search, trials, progress.console)
        planned = tuning.tuned(search.study, trials)
    with closing(Watch()) as watch:
        if until is None:
            entries = run_sweep(planned, stop_on_error=stop_on_error, observe=watch)
        else:
            entries = run_until_decided(
                planned,
                stop_on_error=stop_on_error,
                observe=watch,
                tell=lambda found: [
                    progress.note(verdict_line(row)) for _, row in found.iterrows()
                ],
            )
    finished = [entry.outcome for entry in entries if isinstance(entry.outcome, Run)]
    finished.sort(key=lambda run: [*planned.variants].index(run.label))
    if finished:
        name = planned.directory.name
        study = manifest.Manifest(
            variants=planned.variants,
            runs=[
                manifest.Entry(variant=entry.job.label, seed=entry.job.seed, run_id="")
                for entry in entries
            ],
            declaration=planned.declaration,
        )
        rows = [row for run in finished for row in rows_of(run, name)]
        groups = groups_of(rows, {name: study})
        metrics = [Metric(margin=margin)]
        show_answer(groups, metrics, console(), format="json" if as_json else "table")
    if finished and not as_json:
        again = shlex.join(["attnexp", "report", str(planned.directory)])
        emit(
            f"Results: {planned.directory}\nMore: {again} --table differences, or --html page.html"
        )
    _stop_if_failed([*searched, *entries])


def _stop_if_failed(entries: "Sequence[Entry]") -> None:
    """Exit with 1 if a run has failed, with the reason of each that has."""
    from attnexp.sweeps.executors.task import Failure
    from attnexp.sweeps.watch import totals

    failures = [entry.outcome for entry in entries if isinstance(entry.outcome, Failure)]
    if failures:
        lines = [f"{failure.job}: {failure.reason}" for failure in failures]
        stop("\n".join([f"runs failed; {totals(entries)}.", *lines]), code=1)
