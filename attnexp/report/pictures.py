"""One picture of a comparison, or of one model, as a file for a page, a paper or a talk."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

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


@dataclass(frozen=True, kw_only=True, slots=True)
class Request:
    """What a picture is drawn of."""

    runs: Sequence[Run]
    comparison: Comparison
    chosen: Sequence[Run] = ()
    """Runs of which one is shown, where a picture is of one model."""
    trust_code: bool = False
    sentence: str = insight.SENTENCE
    """What the model reads."""
    layer: int = 1
    head: int | None = None
    """Head whose attention is drawn, counted from 1 as layers are; None for the mean of heads."""
    metric: str = "accuracy"
    """Metric of the curves, one of `METRICS`."""

    def look(self) -> tuple[Run, insight.Insight]:
        """One run and what its model shows; where none is chosen, one of `inside.choose`,
        preferably with a table of positions."""
        pictured = (
            self.chosen
            or inside.choose(self.runs, trust_code=self.trust_code)
            or inside.choose(self.runs, trust_code=True)
        )  # of which `insight.look` says that they are not trusted
        run = max(pictured, key=insight.has_table, default=None)
        if run is None:
            raise UserError("No run here has attention. Choose another with --run RUN_DIR.")
        return run, insight.look(run, self.sentence, trust_code=self.trust_code)


def write(path: Path, show: str, request: Request) -> None:
    """Write the file atomically. Raises `UserError` if it cannot be written.

    show: one of `SHOWN`.
    """
    num_variants = len(request.comparison.variants)
    if show in ("curves", "forest") and num_variants > MAX_VARIANTS:
        raise UserError(
            f"One picture takes up to {MAX_VARIANTS} variants, not {num_variants}. Give the folder "
            f"of a smaller study, or --html FILE."
        )
    _save(path, *SHOWN[show](request))


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


def _curves(request: Request) -> Drawn:
    comparison = request.comparison
    groups = figures.together(comparison.variants)
    metric = METRICS[request.metric]
    return [figures.learning(group, metric) for group in groups], [
        html.CURVES[metric],
        where_measured(comparison),
        "Mean over seeds; the band is ± one standard deviation.",
    ]


def _forest(request: Request) -> Drawn:
    comparison = request.comparison
    baseline, margin = comparison.variants[0].label, comparison.metrics["accuracy"].margin
    if not any(comparison.differences.values()):
        raise UserError(
            f"There is no difference to draw: no variant shares a seed with {baseline}. "
            f"--show curves draws what there is."
        )
    return [figures.forest(comparison)], [
        f"Accuracy minus {baseline}'s, with its 95 % interval (thin: other seeds and texts)",
        where_measured(comparison),
        f"Shaded: ± {POINTS.margin(margin)} points, the margin.",
    ]


def _attention(request: Request) -> Drawn:
    run, look = request.look()
    reading = look.reading
    if reading is None or not reading.layers:
        raise _nothing(run, look)
    seen = reading.attention(request.layer, request.head)
    name = inside.name_of_run(run, label_of(run, request.runs))
    title = [
        f"Attention, {inside.heads_and_layer(reading, request.layer, request.head)}",
        f"{name}: {reading.label} with probability {reading.confidence:.2f}",
        inside.padding_line(seen),
        "Words with a question mark are not in the vocabulary." if reading.unknown else "",
    ]
    return [figures.attention(seen.mean, reading.marked)], title


def _positions(request: Request) -> Drawn:
    run, look = request.look()
    if look.table is None:
        raise _nothing(run, look)
    positions, width = look.table.shape
    return [figures.table(look.table)], [
        f"The table of positions: {positions} × {width} columns",
        inside.name_of_run(run, label_of(run, request.runs)),
    ]


def _nothing(run: Run, look: insight.Insight) -> UserError:
    return UserError(f"{run.path}: {' '.join(look.missing)} Choose another with --run RUN_DIR.")


SHOWN: dict[str, Callable[[Request], Drawn]] = {
    "curves": _curves,
    "forest": _forest,
    "attention": _attention,
    "positions": _positions,
}
"""Drawing functions, by the value of `--show`."""
