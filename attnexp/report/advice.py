"""What to try next: commands after a run, and how many seeds a sweep would take."""

import math
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from attnexp.analysis.answer import Answer
from attnexp.base.errors import UserError
from attnexp.config.compose import compose
from attnexp.config.options import name_of
from attnexp.config.pieces import Piece
from attnexp.config.schema import TOKENIZERS, RunConfig, flatten, foreign_code, to_dict
from attnexp.runs.result import RunResult
from attnexp.statistics.defaults import FEWEST_SEEDS
from attnexp.statistics.planning import MOST_SEEDS

MANY_TIMES = 4  # a sweep that takes more than so many times its planned seeds is told so
FEWEST_STEPS = 200  # a training of fewer is told so
BLIND = {*"none attention mean tfidf dot additive uniform masked_mean max cls".split()}
"""Pieces, as one types them, to which the order of words makes no difference."""


def foresee_chance(configs: Iterable[RunConfig]) -> Iterator[str]:
    """A line on runs of data=contrast, about the order of words, where no model can see it."""
    shares = []
    pieces = set()
    for config in configs:
        share = config.data.order_fraction  # of data=contrast alone
        if share:
            shares.append(share)
            settings = flatten(to_dict(config))
            kinds = [key for key in settings if key.endswith(".kind")]
            pieces |= {name_of(settings[key]) for key in kinds}
            if config.data.tokenizer not in TOKENIZERS:  # tokens of one's own may hold order
                pieces.add(config.data.tokenizer)
    if shares and pieces <= BLIND:
        ceiling = 100 - 50 * min(shares)
        yield f"Blind to word order: {ceiling:g} % is its ceiling on data=contrast."


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


def foresee_seeds(answer: Answer) -> Iterator[str]:
    """A line for each data set that takes over four times its planned seeds, by the runs so far."""
    margin = answer.metrics[0].margin_text
    for comparison in answer.comparisons:
        group = comparison.group
        first = group.points[0]
        wanted = []
        for row in comparison.differences:
            if row.endpoint == first and row.interval.n >= FEWEST_SEEDS:
                wanted.append(row.seeds_at_most or MOST_SEEDS)
        planned = [len(seeds) for seeds in group.planned.values()]
        # a sweep that adds seeds has planned none
        if wanted and planned and min(wanted) > MANY_TIMES * min(planned):
            yield (
                f"{group.data}: by the spread between seeds, ±{margin} points take up to "
                f"{min(wanted):,} seeds. With {min(planned)} only larger differences show."
            )


def next_commands(
    run_dir: Path, words: Sequence[str], config: RunConfig, text: str
) -> Iterator[str]:
    """Where the results are, and commands worth trying next. text: one that it was tested on."""
    yield f"Results: {run_dir}\nNext:"
    if config.has_pieces:
        key = "position"
        choices = ["none", "sinusoidal"]
        if config.position.kind:
            choices[1] = _as_choice(key, config.position, words)
        opening = " ".join(text.split()[:24])
        users_code = foreign_code(to_dict(config))
        if opening and not users_code:
            yield _format_command("predict", run_dir, opening)
    else:
        key = "model"
        choices = [_as_choice(key, config.model, words), "attention"]
    compared = (f"{key}=", f"{key}.", "seed=")
    kept = [word for word in words if not word.startswith(compared)]
    with suppress(UserError):  # a stored config names its own
        for choice in choices:
            compose([*kept, f"{key}={choice}"])
        axis = f"{key}={','.join(choices)}"
        yield _format_command("sweep", *kept, axis, "seed=range(6)")
    yield _format_command("report", run_dir, "--html", "page.html")


def _format_command(*words: str | Path) -> str:
    command = shlex.join(map(str, words))
    return f"  attnexp {command}"


def _as_choice(key: str, piece: Piece, words: Sequence[str]) -> str:
    """The option of a piece of ours, or the user's class, with the settings that words give it."""
    choice = str(piece.kind)
    if choice.startswith("attnexp."):
        choice = piece.name
    settings = []
    for word in words:
        if word.startswith(f"{key}."):
            setting = word.removeprefix(f"{key}.")
            settings.append(setting.replace("=", ": ", 1))
    if not settings:
        return choice
    listed = ", ".join(settings)
    return f"{{kind: {choice}, {listed}}}"
