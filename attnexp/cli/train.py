"""`attnexp train`. Heavy imports are inside, so that --help is fast."""

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnexp.base.errors import UserError
from attnexp.cli.app import AsJson, ConfigDir, Overrides, app, console, emit

if TYPE_CHECKING:
    from attnexp.config.schema import RunConfig
    from attnexp.runs.result import RunResult

FEWEST_STEPS = 200  # Few models learn much in fewer.


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
    from attnexp.report.print_table import print_table
    from attnexp.report.tables import tabulate_epochs
    from attnexp.runs.result import Run
    from attnexp.training.run import load_data, train_run

    run_dir, result = train_run(config, again=again)
    note_few_steps([result])
    if as_json:
        emit({**asdict(result), "folder": str(run_dir)})
        return
    answer = compare(make_groups(make_rows(Run(path=run_dir, result=result)), {}), [])
    print_table(tabulate_epochs(answer), console())
    data = load_data(config.data, config.seeds.resample)
    text = data.read(data.test.ids[0])
    emit("\n".join([f"Results: {run_dir}", "Next:", *next_commands(run_dir, words, config, text)]))


def note_few_steps(results: "Iterable[RunResult]") -> None:
    """Print a line where a run has had few steps, and is nearer to chance than to 100 %."""
    from attnexp.base import progress

    fewest = FEWEST_STEPS
    for result in results:
        batch_size = result.config["train"].get("batch_size")  # a baseline has none
        chance = 1 / len(result.classes)
        if batch_size and result.final.val_accuracy < (1 + chance) / 2:
            num_batches = math.ceil(result.data["n_train"] / batch_size)
            fewest = min(fewest, len(result.epochs) * num_batches)
    if fewest < FEWEST_STEPS:
        progress.note(
            f"Trained for {fewest} steps, in which few models learn much. Raise train.epochs."
        )


def next_commands(
    run_dir: Path, words: Sequence[str], config: "RunConfig", text: str
) -> Iterator[str]:
    """Commands worth trying after a run: predict, a sweep, report. text: one that was tested."""
    from attnexp.config.compose import compose
    from attnexp.config.schema import foreign_code, to_dict

    opening = " ".join(text.split()[:24])
    if opening and not foreign_code(to_dict(config)):  # Such a model would need --trust-code.
        yield _format_command("predict", run_dir, opening)
    key, values = "position", ["none", "sinusoidal"]
    if not config.has_pieces:
        key, values = "model", ["attention", config.model.name]
    chosen = [word.partition("=")[2] for word in words if word.startswith(f"{key}=")]
    if chosen and chosen[0] not in values:
        values[1] = chosen[0]
    kept = [word for word in words if not word.startswith((f"{key}=", "seed="))]
    with suppress(UserError):  # One of the two may not have a setting of the other.
        for value in values:
            compose([*kept, f"{key}={value}"])
        yield _format_command("sweep", *kept, f"{key}={','.join(values)}", "seed=range(6)")
    yield _format_command("report", run_dir, "--html", "page.html")


def _format_command(*words: str | Path) -> str:
    command = shlex.join(["attnexp", *map(str, words)])
    return f"  {command}"
