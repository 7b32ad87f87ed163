"""`attnexp train`. Heavy imports are inside, so that --help is fast."""

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

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
    from attnexp.base import progress
    from attnexp.config.compose import compose

    words = overrides or []
    config = compose(words)  # The loop is imported later: a wrong word is answered at once.
    from attnexp.training.run import load_data, train_run

    if config.data.name == "imdb" and config.data.path is None:
        progress.note("data=imdb: 50,000 reviews. Smaller: data=trec; without a download: contrast")
    run_dir, result = train_run(config, again=again)
    note_few_steps([result])
    if as_json:
        document = asdict(result) | {"folder": str(run_dir)}
        del document["schema"]  # of the file
        emit(document)
        return
    _print_epochs(config, result)
    data = load_data(config.data, config.seeds.resample)
    text = data.read(data.test.ids[0])
    emit("\n".join([f"Results: {run_dir}", "Next:", *next_commands(run_dir, words, config, text)]))


def _print_epochs(config: "RunConfig", result: "RunResult") -> None:
    """Print a table of the epochs, and on which split they are validated."""
    from rich import box
    from rich.table import Table

    measured = "the test set"
    test = ""
    if config.train.protocol == "holdout":
        measured = f"{result.data['n_val']:,} texts held out"
        epoch = result.own_best.epoch
        test = f"On the test set, at epoch {epoch}: {result.test.accuracy:.2%} right.\n"
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in ("epoch", "train_loss", "train_acc", "val_loss", "val_acc"):
        table.add_column(name, justify="right")
    for row in result.epochs:
        table.add_row(
            str(row.epoch),
            f"{row.train_loss:.4f}",
            f"{row.train_accuracy:.2%}",
            f"{row.val_loss:.4f}",
            f"{row.val_accuracy:.2%}",
        )
    title = f"{result.label}: train_ is the running mean in training, val_ is on {measured}"
    console().print(title, table, test, sep="\n")


def note_few_steps(results: "Iterable[RunResult]") -> None:
    """Print a line for runs of few steps whose accuracy is nearer to chance than to 100 %."""
    from attnexp.base import progress

    fewest = FEWEST_STEPS
    for result in results:
        batch_size = result.config["train"].get("batch_size")  # A baseline has none.
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
    from attnexp.config.schema import foreign_code, to_dict
    from attnexp.config.words import key_of

    opening = " ".join(text.split()[:24])
    if opening and not foreign_code(to_dict(config)):  # Such a model would need --trust-code.
        yield _format_command("predict", run_dir, opening)
    key = "position" if config.has_pieces else "model"
    first, second = ("none", "sinusoidal") if config.has_pieces else ("attention", "mean")
    piece = getattr(config, key)
    chosen = piece.name if str(piece.kind).startswith("attnexp.") else piece.kind
    if chosen not in (None, first):
        second = chosen
    kept = [word for word in words if key_of(word) not in (key, "seed")]
    # Settings of the choice made are unknown to the other one.
    if not any(key_of(word).startswith(f"{key}.") for word in kept):
        yield _format_command("sweep", *kept, f"{key}={first},{second}", "seed=range(6)")
    yield _format_command("report", run_dir, "--html", "page.html")


def _format_command(*words: str | Path) -> str:
    command = shlex.join(["attnexp", *map(str, words)])
    return f"  {command}"
