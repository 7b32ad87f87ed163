"""`attnexp sweep`. Heavy imports are inside, so that --help is fast."""

import shlex
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from attnexp.cli.app import (
    AnyCode,
    AsJson,
    ConfigDir,
    Margin,
    Overrides,
    Until,
    app,
    emit,
    stop,
)

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
    margin: Margin = 0.25,
    until: Annotated[Until, typer.Option(help="Add seeds until each has a verdict.")] = None,
    as_json: AsJson = False,
) -> None:
    """Train several models and compare them. Finished runs are not repeated.

    Runs are started by executor=local (processes; executor.workers=2), slurm or ray. name=NAME
    names the folder of the results.

    Example: attnexp sweep study=blog 'seed=range(10)' name=my_blog

    Example: attnexp sweep study=blog tune=train.lr=3e-4,1e-3,3e-3
    """
    from attnexp.base import progress
    from attnexp.sweeps import tuning, watch
    from attnexp.sweeps.folder import choose_folder
    from attnexp.sweeps.plan import plan

    words = overrides or []
    search: Tuning | None = None
    if until:
        from attnexp.sweeps.sequential import plan_until_decided

        study = plan_until_decided(words, margin=margin / 100)
    elif any(map(tuning.is_tuning, words)):
        search = tuning.plan_tuning(words)
        study = search.study
    else:
        study = plan(words)
    for line in watch.notes_on_seeds(study):
        progress.note(line)
    first = choose_folder(search.search if search else study)
    if dry_run:
        emit("\n".join(watch.preview_sweep(first, any_code=any_code)))
        return
    entries: list[SweepEntry] = []
    if search is None:
        study = first
    else:
        entries = _search(first, any_code)
        study, lines = tuning.choose_settings(search, entries)
        progress.note("\n".join(lines))
        study = choose_folder(study)
    judged = _run_study(study, margin, any_code, is_until_decided=until is not None)
    _show_answer(study, judged, margin, as_json)
    entries += judged
    failures = [f"{e.job}: {e.outcome}" for e in entries if isinstance(e.outcome, str)]
    if failures:
        stop("\n".join([f"{len(failures)} of {len(entries)} runs failed.", *failures]), code=1)


def _search(search: "Sweep", any_code: bool) -> "list[SweepEntry]":
    """Run the search for each variant's best settings."""
    from attnexp.sweeps.schedule import run_sweep
    from attnexp.sweeps.watch import Watch

    with Watch() as view:
        return run_sweep(search, any_code=any_code, observe=view)


def _run_study(
    study: "Sweep", margin: float, any_code: bool, *, is_until_decided: bool
) -> "list[SweepEntry]":
    """Run the runs that are judged, with what finished ones let expect."""
    from attnexp.report.advice import foresee_seeds
    from attnexp.statistics.verdict import MetricSpec
    from attnexp.sweeps import sequential
    from attnexp.sweeps.schedule import run_sweep
    from attnexp.sweeps.watch import Watch

    def foresee(finished: "list[SweepEntry]") -> Iterable[str]:
        metric = MetricSpec(margin=margin / 100)
        return foresee_seeds(sequential.answer_of_sweep(study, finished, metric))

    with Watch(foresee) as view:
        if is_until_decided:
            rounds = partial(sequential.rounds, study)
            return run_sweep(study, any_code=any_code, observe=view, choose=rounds)
        return run_sweep(study, any_code=any_code, observe=view)


def _show_answer(
    study: "Sweep", entries: "Sequence[SweepEntry]", margin: float, as_json: bool
) -> None:
    """Print the answer of what has finished, if anything has."""
    from attnexp.cli.report import print_answer
    from attnexp.runs.result import Run
    from attnexp.statistics.verdict import MetricSpec
    from attnexp.sweeps.sequential import answer_of_sweep

    if not any(isinstance(entry.outcome, Run) for entry in entries):
        return
    answer = answer_of_sweep(study, entries, MetricSpec(margin=margin / 100))
    print_answer(answer, None, "json" if as_json else "table")
    if not as_json:
        report = shlex.join(["attnexp", "report", str(study.directory)])
        emit(f"Results: {study.directory}. More: {report} --html page.html")
