"""One picture of a comparison, or of one model, as a file for a page, a paper or a talk."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from attnexp.analysis.comparison import Comparison
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, writing
from attnexp.inspect import insight
from attnexp.report import canvas, figures, html, inside
from attnexp.report.tables import where_measured
from attnexp.runs.result import Run
from attnexp.statistics.verdict import POINTS

KINDS = ("svg", "pdf", "png")
"""Suffixes of the files that can be written."""

MAX_VARIANTS = 40
"""Maximum number of variants in one picture: a taller one is neither legible nor a valid PNG."""


def kind_of(path: Path) -> str:
    """The file's kind, one of `KINDS`. Raises `UserError` for any other suffix."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in KINDS:
        raise UserError(f"{path} is no picture: give --figure a name in .{', .'.join(KINDS)}.")
    return kind


def write(
    path: Path,
    show: str,
    runs: Sequence[Run],
    comparison: Comparison,
    *,
    chosen: Sequence[Run] = (),
    trust_code: bool = False,
    sentence: str = insight.SENTENCE,
) -> None:
    """Write the file atomically. Raises `UserError` if it cannot be written.

    show: one of `SHOWN`. chosen: where one model is shown, whose; where empty, one of
    `inside.choose(runs)`, rather one with a table of positions. sentence: what it reads.
    """
    kind = kind_of(path)
    pictured = (
        chosen or inside.choose(runs, trust_code=trust_code) or inside.choose(runs, trust_code=True)
    )  # of which `look` says that they are not trusted
    look = partial(insight.look, text=sentence, trust_code=trust_code)
    pictures, title = SHOWN[show](comparison, pictured, look)
    drawn = canvas.stand_alone(pictures, kind, title=title)
    with writing(path, "--figure FILE"), atomic_write(path) as file:
        file.write(drawn)


Look = Callable[[Run], insight.Insight]
"""Loads a run's model and lets it read the sentence."""

Drawn = tuple[list[canvas.Picture], list[str]]
"""Pictures, stacked vertically, and the lines of their title."""


def _curves(comparison: Comparison, runs: Sequence[Run], look_at: Look) -> Drawn:
    _few_enough(comparison)
    groups = figures.together(comparison.variants)
    return [figures.learning(group, "val_accuracy") for group in groups], [
        html.CURVES["val_accuracy"],
        where_measured(comparison),
        "Mean over seeds; the band is ± one standard deviation.",
    ]


def _forest(comparison: Comparison, runs: Sequence[Run], look_at: Look) -> Drawn:
    _few_enough(comparison)
    baseline, margin = comparison.variants[0].label, comparison.metrics["accuracy"].margin
    if not any(comparison.differences.values()):
        raise UserError(
            f"There is no difference to draw: no variant shares a seed with {baseline}. "
            f"--show curves draws what there is."
        )
    return [figures.forest(comparison)], [
        f"Accuracy minus {baseline}'s, with its 95 % interval",
        where_measured(comparison),
        f"Shaded: ± {POINTS.margin(margin)} points, the margin.",
    ]


def _few_enough(comparison: Comparison) -> None:
    if len(comparison.variants) > MAX_VARIANTS:
        raise UserError(
            f"One picture takes up to {MAX_VARIANTS} variants, not {len(comparison.variants)}. "
            f"Give the folder of a smaller study, or --html FILE."
        )


def _attention(comparison: Comparison, runs: Sequence[Run], look_at: Look) -> Drawn:
    run, look = _look(runs, look_at)
    reading = look.reading
    if reading is None or reading.attention is None:
        raise _nothing(run, look)
    seen = reading.attention
    return [figures.attention(seen.weights.mean(axis=0), reading.marked)], [
        f"Attention, mean over {len(seen.weights)} heads",
        f"{run.path.name}, seed {run.result.seed}; {reading.label} with {reading.confidence:.2f}",
    ]


def _positions(comparison: Comparison, runs: Sequence[Run], look_at: Look) -> Drawn:
    run, look = _look(runs, look_at)
    if look.table is None:
        raise _nothing(run, look)
    positions, width = look.table.shape
    return [figures.table(look.table)], [
        f"The table of positions: {positions} × {width} columns",
        f"{run.path.name}, seed {run.result.seed}",
    ]


def _look(runs: Sequence[Run], look_at: Look) -> tuple[Run, insight.Insight]:
    run = max(runs, key=insight.has_table, default=None)
    if run is None:
        raise UserError("No run here has attention. Choose another with --run RUN_DIR.")
    return run, look_at(run)


def _nothing(run: Run, look: insight.Insight) -> UserError:
    return UserError(f"{run.path}: {' '.join(look.missing)} Choose another with --run RUN_DIR.")


SHOWN: dict[str, Callable[[Comparison, Sequence[Run], Look], Drawn]] = {
    "curves": _curves,
    "forest": _forest,
    "attention": _attention,
    "positions": _positions,
}
"""Drawing functions, by the value of `--show`."""
