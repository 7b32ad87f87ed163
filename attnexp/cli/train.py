"""Commands that train: `train` and `sweep`. Heavy imports are inside, so that --help is fast."""

import json
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from attnexp.base.errors import UserError
from attnexp.cli.app import AsJson, Margin, Overrides, app, console, emit, stop

if TYPE_CHECKING:
    from attnexp.config.schema import RunConfig
    from attnexp.runs.result import Run
    from attnexp.sweeps.schedule import Entry


@app.command()
def train(
    overrides: Overrides = None,
    again: Annotated[
        bool, typer.Option("--again", help="Repeat the run even if it has finished.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Train one model and print its metrics by epoch.

    A run that has already finished is shown, not repeated.

    Example: attnexp train data=contrast position=sinusoidal
    """
    from attnexp.config.compose import compose
    from attnexp.runs.result import Run

    words = overrides or []
    config = compose(words)  # before the loop is imported: a wrong word is answered at once
    from attnexp.training.run import train_run

    run_dir, result = train_run(config, overrides=words, again=again)
    if as_json:
        emit({**result.to_json(), "folder": str(run_dir)})
    else:
        _report([Run(path=run_dir, result=result)])
        emit("\n".join([f"\nResults: {run_dir}", "Next:", *_next_commands(run_dir, words, config)]))


def _report(
    runs: "list[Run]", *, as_json: bool = False, margin: float = 0.0025, several: bool = False
) -> None:
    """Print the answer that runs give. several: they are on several data sets."""
    from attnexp.analysis.comparison import compare
    from attnexp.analysis.metrics import metrics_of_runs
    from attnexp.report import formats

    compared = compare(runs, metrics_of_runs(margin))
    if as_json:
        emit(formats.as_json(compared))
    elif runs:
        show = formats.print_over_data if several else formats.print_comparisons
        show(compared, console())


def _next_commands(run_dir: Path, words: Sequence[str], config: "RunConfig") -> Iterator[str]:
    """Commands worth trying after a run, an indented line each."""
    from attnexp.config.options import name_of
    from attnexp.inspect.insight import SENTENCE

    key = "position" if config.is_network else "model"
    chosen = [word.partition("=")[2] for word in words if word.startswith(f"{key}=")]
    others = [word for word in words if not word.startswith((f"{key}=", "seed="))]
    own = chosen[-1] if chosen else name_of(getattr(config, key).kind)
    other = ("sinusoidal" if own == "none" else "none") if config.is_network else "attention"
    commands = [
        ["predict", str(run_dir), SENTENCE] if config.is_network else ["evaluate", str(run_dir)],
        ["report", str(run_dir), "--html", "page.html"],
        ["sweep", *others, f"{key}={','.join(sorted({own, other}))}", "seed=range(6)"],
    ]
    for command in commands:
        yield f"  {shlex.join(['attnexp', *command])}"


@app.command()
def sweep(
    overrides: Overrides = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="List the runs and their estimated time; train nothing."),
    ] = False,
    any_code: Annotated[
        bool,
        typer.Option("--any-code", help="Take finished runs of other code instead of new ones."),
    ] = False,
    on_error: Annotated[
        Literal["continue", "stop"], typer.Option(help="After a failed run, continue or stop.")
    ] = "continue",
    margin: Margin = 0.25,
    until: Annotated[
        Literal["decided"] | None, typer.Option(help="Add seeds until every variant has a verdict.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train several models and compare them. Finished runs are not repeated.

    Runs are started by executor=local (processes; executor.workers=2), slurm or ray.

    Example: attnexp sweep study=blog 'seed=range(10)'

    Example: attnexp sweep position=none,sinusoidal model.heads=1,8 data=contrast

    Example: attnexp sweep study=blog --until decided

    Example: attnexp sweep study=blog tune=train.lr=3e-4,1e-3,3e-3
    """
    from attnexp.base import progress
    from attnexp.runs.result import Run
    from attnexp.sweeps import sequential, tuning, watch
    from attnexp.sweeps.plan import plan
    from attnexp.sweeps.schedule import Entry, run_sweep

    words, search, entries = overrides or [], None, list[Entry]()
    if any(map(tuning.is_tuning, words)):
        if until:
            raise UserError("tune= does not go with --until. Leave one out.")
        search = tuning.plan_tuning(words)
        planned = search.search
    else:
        planned = sequential.plan_until_decided(words, margin=margin) if until else plan(words)
    notes = watch.notes_on_seeds(search.study if search else planned)
    if dry_run:
        runs, lines = watch.preview_sweep(planned, any_code=any_code)
        if as_json:
            rows = json.loads(runs.to_json(orient="records"))
            emit({"schema": 2, "runs": rows, "notes": [*lines, *notes]})
        else:
            columns = {"runs": ("seed", "count"), "finished": ("finished", "sum")}
            by_variant = runs.groupby("variant", sort=False)
            table = by_variant.agg(**columns, seconds=("seconds", "mean")).reset_index()
            emit("\n".join([table.round(1).to_string(index=False, na_rep="?"), "", *lines, *notes]))
        return
    for line in notes:
        progress.note(line)
    run = partial(run_sweep, stop_on_error=on_error == "stop", any_code=any_code)
    if search is not None:
        with watch.Watch() as view:
            entries = run(planned, observe=view)
        if on_error == "stop":
            _stop_if_failed(entries)
        planned, found = tuning.choose(search, entries)
        progress.console.print(found)
    with watch.Watch() as view:
        choose = sequential.chooser(planned, view.tell) if until else None
        judged = run(planned, observe=view, choose=choose)
    order = [*planned.variants]
    runs = [
        replace(entry.outcome, studies=(planned.directory,))
        for entry in sorted(judged, key=lambda entry: order.index(entry.job.label))
        if isinstance(entry.outcome, Run)
    ]
    _report(runs, as_json=as_json, margin=margin, several=bool(planned.jobs[0].data))
    if runs and not as_json:
        again = shlex.join(["attnexp", "report", str(planned.directory)])
        emit(f"\nResults: {planned.directory}\nAgain: {again}")
    _stop_if_failed([*entries, *judged])


def _stop_if_failed(entries: "Sequence[Entry]") -> None:
    """Exit with 1 if a run has failed, with the reason of each that has."""
    failed = [f"{one.job}: {one.outcome}" for one in entries if isinstance(one.outcome, str)]
    if failed:
        stop("\n".join([f"{len(failed)} of {len(entries)} runs failed.", *failed]), code=1)
