"""`attnexp train`. Heavy imports are inside, so that --help is fast."""

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnexp.base import SENTENCE
from attnexp.cli.app import SCHEMA, AsJson, ConfigDir, Overrides, app, console, emit

if TYPE_CHECKING:
    from attnexp.config.schema import RunConfig
    from attnexp.runs.result import RunResult

ENOUGH_STEPS = 200  # Few models learn much in fewer.


@app.command()
def train(
    overrides: Overrides = None,
    config_dir: ConfigDir = None,
    again: Annotated[bool, typer.Option("--again", help="Repeat a run that has finished.")] = False,
    as_json: AsJson = False,
) -> None:
    """Train one model and print its metrics by epoch.

    A run that has already finished is shown, not repeated.

    Example: attnexp train data=contrast position=sinusoidal"""
    from attnexp.base import progress
    from attnexp.config.compose import compose

    words = overrides or []
    config = compose(words)  # The loop is imported later: a wrong word is answered at once.
    from attnexp.training.run import train_run

    if config.data.name == "imdb" and config.data.path is None:
        progress.note("data=imdb: 50,000 reviews. Smaller: data=trec; without a download: contrast")
    run_dir, result = train_run(config, again=again)
    note_few_steps([result])
    if as_json:
        emit(asdict(result) | {"folder": str(run_dir), "schema": SCHEMA})  # of documents
        return
    _print_epochs(config, result)
    emit("\n  ".join([f"Results: {run_dir}\nNext:", *next_commands(run_dir, words, config)]))


def _print_epochs(config: "RunConfig", result: "RunResult") -> None:
    """Print a table of the epochs, and on which split they are validated."""
    val_texts = "the test set"
    test_line = ""
    if config.train.protocol == "holdout":
        val_texts = f"{result.data['n_val']:,} texts held out"
        epoch = result.own_best.epoch
        test_line = f"On the test set, at epoch {epoch}: {result.test.accuracy:.2%} right.\n"
    lines = ["epoch  train_loss  train_acc  val_loss  val_acc"]
    for row in result.epochs:
        train = f"{row.train_loss:10.4f}  {row.train_accuracy:9.2%}"
        lines.append(f"{row.epoch:5}  {train}  {row.val_loss:8.4f}  {row.val_accuracy:7.2%}")
    title = f"{result.label}, {result.parameters:,} parameters"
    columns = f"train_ is the running mean in training, val_ is on {val_texts}\n"
    console().print(title, columns, *lines, test_line, sep="\n")


def note_few_steps(results: "Iterable[RunResult]") -> None:
    """Print a line if a run has trained for few steps."""
    from attnexp.base import progress

    num_steps = []
    for result in results:
        batch_size = result.config["train"].get("batch_size")  # A baseline has none.
        if batch_size:
            num_batches = math.ceil(result.data["n_train"] / batch_size)
            num_steps.append(len(result.epochs) * num_batches)
    fewest = min(num_steps, default=ENOUGH_STEPS)
    if fewest < ENOUGH_STEPS:
        progress.note(
            f"Trained for {fewest} steps. Few models learn much in fewer than {ENOUGH_STEPS}: "
            "raise train.epochs."
        )


def next_commands(run_dir: Path, words: Sequence[str], config: "RunConfig") -> list[str]:
    """Commands worth trying after a run: predict, a sweep over positions, report."""
    from attnexp.config.options import own_dirs
    from attnexp.config.schema import ModelConfig
    from attnexp.config.settings import key_of

    commands = []
    user_code = config.user_code
    if not user_code:  # With it, predict would need --trust-code.
        commands.append(["predict", str(run_dir), SENTENCE])
    # position=none does not know the settings of another position.
    has_settings = any(key_of(word).startswith("position.") for word in words)
    if isinstance(config.model, ModelConfig) and not has_settings:
        position = config.position
        option = position.kind if position.kind in user_code else position.name
        if option == "none":
            option = "sinusoidal"
        others = [word for word in words if key_of(word) not in ("position", "seed")]
        folders = [f"--config-dir={folder}" for folder in own_dirs]
        positions = f"position=none,{option}"
        commands.append(["sweep", *others, positions, "seed=range(6)", *folders])
    commands.append(["report", str(run_dir), "--html", "page.html"])
    return [shlex.join(["attnexp", *command]) for command in commands]
