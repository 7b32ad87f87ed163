"""Commands that train: `train` and `sweep`. Heavy imports are inside, so that --help is fast."""

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from attnexp.cli.app import AsJson, Margin, Overrides, app, console, emit, stop

if TYPE_CHECKING:
    from attnexp.config.schema import RunConfig
    from attnexp.runs.result import Run
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


def _report(runs: "list[Run]", *, as_json: bool = False, margin: float = 0.0025) -> None:
    """Print the answer that runs give."""
    from attnexp.analysis.comparison import compare
    from attnexp.analysis.metrics import metrics_of_runs
    from attnexp.report import formats

    compared = compare(runs, metrics_of_runs(margin))
    if as_json:
        emit(formats.as_json(compared))
    elif runs:
        several = len({run.result.data["name"] for run in runs}) > 1
        show = formats.print_over_data if several else formats.print_comparisons
        show(compared, console())


def _next_commands(run_dir: Path, words: Sequence[str], config: "RunConfig") -> Iterator[str]:
    """Commands worth trying after a run, an indented line each."""
    from attnexp.config.options import name_of
    from attnexp.inspect.insight import SENTENCE

    key = "position" if config.is_network else "model"
    own = name_of(getattr(config, key).kind)
    both = (
        f"none,{'sinusoidal' if own == 'none' else own}"
        if config.is_network
        else f"{own},attention"
    )
    others = [word for word in words if not word.startswith((f"{key}=", "seed="))]
    commands = [["sweep", *others, f"{key}={both}", "seed=range(6)"]]
    if config.is_network:
        commands.insert(0, ["predict", str(run_dir), SENTENCE])
    for command in [*commands, ["report", str(run_dir), "--html", "page.html"]]:
        yield f"  {shlex.join(['attnexp', *command])}"


@app.command()
def sweep(
    overrides: Overrides = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show runs and time.")] = False,
    any_code: Annotated[bool, typer.Option("--any-code", help="Take runs of older code.")] = False,
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
    run = partial(run_sweep, stop_on_error=on_error == "stop", any_code=any_code)
    if search is not None:
        with watch.Watch() as view:
            entries = run(planned, observe=view)
        if on_error == "stop":
            _stop_if_failed(entries)
        planned, lines = tuning.choose(search, entries)
        progress.note("\n".join(lines))
    with watch.Watch() as view:
        choose = sequential.chooser(planned, view.tell) if until else None
        judged = run(planned, observe=view, choose=choose)
    found = [entry.outcome for entry in judged if isinstance(entry.outcome, Run)]
    found.sort(key=lambda run: [*planned.variants].index(run.label))
    runs = [replace(run, studies=(planned.directory,)) for run in found]
    _report(runs, as_json=as_json, margin=margin)
    if runs and not as_json:
        again = shlex.join(["attnexp", "report", str(planned.directory)])
        emit(f"\nResults: {planned.directory}\nAgain: {again}")
    _stop_if_failed([*entries, *judged])


def _stop_if_failed(entries: "Sequence[Entry]") -> None:
    """Exit with 1 if a run has failed, with the reason of each that has."""
    failed = [f"{one.job}: {one.outcome}" for one in entries if isinstance(one.outcome, str)]
    if failed:
        stop("\n".join([f"{len(failed)} of {len(entries)} runs failed.", *failed]), code=1)
