"""What a run suggests: commands to try next, and a word on too few steps."""

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from attnexp.config.options import name_of
from attnexp.config.schema import RunConfig, foreign_code, to_dict
from attnexp.runs.result import RunResult

FEWEST_STEPS = 200  # a training of fewer gets a note


def note_few_steps(results: Iterable[RunResult]) -> Iterator[str]:
    """A line on runs of which one has had few steps, and is nearer to chance than to 100 %."""
    fewest = FEWEST_STEPS
    for result in results:
        batch_size = result.config["train"].get("batch_size")  # a baseline has none
        chance = 1 / len(result.classes)
        if batch_size and result.final.val_accuracy < (1 + chance) / 2:
            num_batches = math.ceil(result.data["n_train"] / batch_size)
            fewest = min(fewest, len(result.epochs) * num_batches)
    if fewest < FEWEST_STEPS:
        yield f"Trained for {fewest} steps, in which few models learn much. Raise train.epochs."


def next_commands(
    run_dir: Path, words: Sequence[str], config: RunConfig, text: str
) -> Iterator[str]:
    """Where the results are, and commands worth trying next. text: one that it was tested on."""
    yield f"Results: {run_dir}\nNext:"
    key = "position"
    choices = ["none", "sinusoidal"]
    if not config.has_pieces:
        key = "model"
        choices = [config.model.name, "attention"]
    elif config.position.kind:
        choices[1] = name_of(config.position.kind)
    opening = " ".join(text.split()[:24])
    if opening and config.has_pieces and not foreign_code(to_dict(config)):
        yield _format_command("predict", run_dir, opening)
    compared = (f"{key}=", f"{key}.", "seed=")
    kept = [word for word in words if not word.startswith(compared)]
    names_run = any(word.startswith("experiment=") and "/" in word for word in words)
    if not names_run:  # A stored config has settings that other choices lack.
        yield _format_command("sweep", *kept, f"{key}={','.join(choices)}", "seed=range(6)")
    yield _format_command("report", run_dir, "--html", "page.html")


def _format_command(*words: str | Path) -> str:
    command = shlex.join(map(str, words))
    return f"  attnexp {command}"
