"""`attnexp train`. Heavy imports are inside, so that --help is fast."""

from dataclasses import asdict
from typing import Annotated

import typer

from attnexp.cli.app import AsJson, ConfigDir, Overrides, app, console, emit


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
    from attnexp.analysis.make_groups import make_groups
    from attnexp.analysis.rows import as_rows
    from attnexp.base import progress
    from attnexp.report.advice import foresee_chance, next_commands, note_few_steps
    from attnexp.report.print_table import print_table
    from attnexp.report.tables import tabulate_epochs
    from attnexp.runs.result import Run
    from attnexp.training.run import load_data, train_run

    for line in foresee_chance([config]):
        progress.note(line)
    run_dir, result = train_run(config, again=again)
    for line in note_few_steps([result]):
        progress.note(line)
    if as_json:
        emit({**asdict(result), "folder": str(run_dir)})
        return
    rows = as_rows(Run(path=run_dir, result=result))
    answer = compare(make_groups([rows], {}), [])
    print_table(tabulate_epochs(answer), console())
    data = load_data(config.data, config.seeds.resample)
    text = data.read(data.test.ids[0])
    emit("\n".join(next_commands(run_dir, words, config, text)))
