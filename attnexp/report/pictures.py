"""One picture of a comparison, or of one model, as a file for a page, a paper or a talk."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from attnexp.analysis.across import Across
from attnexp.analysis.comparison import Comparison
from attnexp.analysis.probed import Probed
from attnexp.analysis.variants import label_of
from attnexp.base.errors import UserError
from attnexp.base.files import atomic_write, writing
from attnexp.inspect import insight
from attnexp.report import canvas, figures, html, inside
from attnexp.report.verdicts import where_measured
from attnexp.runs.result import Run
from attnexp.statistics.verdict import POINTS

KINDS = ("svg", "pdf", "png")
"""Suffixes of the files that can be written."""

SHOWN = ("curves", "forest", "attention", "positions")
"""Values of `--show`."""

METRICS = {"accuracy": "val_accuracy", "loss": "val_loss", "train_loss": "train_loss"}
"""Metrics of an epoch that curves show, by the value of `--metric`."""

INTERVALS = "95 % intervals (thin: other texts too)"
"""Second line of titles."""

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
    layer: int = 1,
    head: int | None = None,
    metric: str = "accuracy",
) -> None:
    """Write the file atomically. Raises `UserError` if it cannot be written.

    show: one of `SHOWN`. chosen: runs of which one is shown, where the picture is of one model.
    sentence: what the model reads. head: counted from 1 as layers are; None for the mean of heads.
    metric: of the curves, one of `METRICS`.
    """
    num_variants = len(comparison.variants)
    if show in ("curves", "forest") and num_variants > MAX_VARIANTS:
        raise UserError(
            f"One picture takes up to {MAX_VARIANTS} variants, not {num_variants}. Give the folder "
            f"of a smaller study, or --html FILE."
        )
    if show == "curves":
        drawn = _curves(comparison, METRICS[metric])
    elif show == "forest":
        drawn = _forest(comparison)
    else:
        run = _one_of(chosen or inside.choose(runs, trust_code=trust_code), runs)
        look = insight.look(run, sentence, trust_code=trust_code)
        name = inside.name_of_run(run, label_of(run, runs))
        if show == "attention" and look.reading is not None and look.reading.layers:
            drawn = _attention(look.reading, name, layer, head)
        elif show == "positions" and look.table is not None:
            drawn = _positions(look.table, name)
        else:
            raise UserError(
                f"{run.path}: {' '.join(look.missing)} Choose another with --run RUN_DIR."
            )
    _save(path, *drawn)


def _one_of(pictured: Sequence[Run], runs: Sequence[Run]) -> Run:
    """One of the pictured runs, preferably with a table of positions; if there are none, one of
    those that are not trusted, as `insight.look` will say."""
    found = pictured or inside.choose(runs, trust_code=True)
    if not found:
        raise UserError("No run here has attention. Choose another with --run RUN_DIR.")
    return max(found, key=insight.has_table)


def write_across(path: Path, found: Sequence[Across]) -> None:
    """Write the differences over data sets as a forest plot. Raises `UserError` if it cannot."""
    metrics = dict.fromkeys(one.metric for one in found)
    title = [f"Differences of {', '.join(metrics)} over data sets", INTERVALS]
    of_metrics = [[one for one in found if one.metric == metric] for metric in metrics]
    _save(path, [*map(figures.across, of_metrics)], title)


def write_probed(path: Path, found: Sequence[Probed]) -> None:
    """Write what interventions change in each variant as a forest plot. Raises `UserError` if it
    cannot."""
    title = ["Accuracy under interventions minus that of the same model without", INTERVALS]
    _save(path, [figures.probed(found)], title)


def _save(path: Path, pictures: list[canvas.Picture], title: list[str]) -> None:
    drawn = canvas.stand_alone(pictures, kind_of(path), title=title)
    with writing(path, "--figure FILE"), atomic_write(path) as file:
        file.write(drawn)


Drawn = tuple[list[canvas.Picture], list[str]]
"""Pictures, stacked vertically, and the lines of their title."""


def _curves(comparison: Comparison, metric: str) -> Drawn:
    groups = figures.together(comparison.variants)
    return [figures.learning(group, metric) for group in groups], [
        html.CURVES[metric],
        where_measured(comparison),
        "Mean over seeds; the band is ± one standard deviation.",
    ]


def _forest(comparison: Comparison) -> Drawn:
    baseline, margin = comparison.variants[0].label, comparison.metrics["accuracy"].margin
    if not any(comparison.differences.values()):
        raise UserError(
            f"There is no difference to draw: no variant is paired with {baseline}. "
            f"--show curves draws what there is."
        )
    return [figures.forest(comparison)], [
        f"Accuracy minus {baseline}'s, with its 95 % interval (thin: other seeds and texts)",
        where_measured(comparison),
        f"Shaded: ± {POINTS.margin(margin)} points, the margin.",
    ]


def _attention(reading: insight.Reading, name: str, layer: int, head: int | None) -> Drawn:
    seen = reading.attention(layer, head)
    return [figures.attention(seen.mean, reading.marked)], [
        f"Attention, {inside.heads_and_layer(reading, layer, head)}",
        f"{name}: {reading.label} with probability {reading.confidence:.2f}",
        inside.padding_line(seen),
        "Words with a question mark are not in the vocabulary." if reading.unknown else "",
    ]


def _positions(table: NDArray[Any], name: str) -> Drawn:
    positions, width = table.shape
    title = [f"The table of positions: {positions} × {width} columns", name]
    return [figures.table(table)], title
