"""Commands on results: `report`, `judge`, `runs`, `export`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from attnexp.base.errors import UserError
from attnexp.cli import completion
from attnexp.cli.app import AsJson, Folders, Html, Margin, TrustCode, app, console, emit, stop

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from pandas import DataFrame

    from attnexp.analysis.frames import Group
    from attnexp.runs.result import Run
    from attnexp.statistics.verdict import Metric

TableName = Annotated[
    Literal["differences", "epochs", "metrics", "seeds", "within", "across", "published"] | None,
    typer.Option("--table", help="Print one table instead of the answer."),
]
Format = Annotated[
    Literal["table", "csv", "markdown", "latex", "json"], typer.Option(help="Output format.")
]
At = Annotated[
    str | None, typer.Option(metavar="POINT", help="Endpoint of the LaTeX table, such as final.")
]
Metrics = Annotated[
    list[str] | None, typer.Option(metavar="METRIC", help="Metric to judge, and its direction.")
]


@app.command()
def report(
    paths: Folders,
    table: TableName = None,
    format: Format = "table",
    at: At = None,
    margin: Margin = 0.25,
    html: Html = None,
    figure: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write one figure: FILE.svg, .pdf or .png.")
    ] = None,
    show: Annotated[
        Literal["curves", "loss", "forest", "attention", "positions"],
        typer.Option(help="Content of --figure."),
    ] = "curves",
    size: Annotated[
        str | None, typer.Option(metavar="W,H", help="Width and height of --figure, in inches.")
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN_DIR",
            help="Run whose attention is shown; repeat once to compare two runs.",
            autocompletion=completion.runs,
        ),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Text whose attention is shown.")] = None,
    trust_code: TrustCode = False,
    as_json: AsJson = False,
) -> None:
    """Print the answer of finished runs: accuracy, a curve, and a verdict for each difference.

    DIR is a study, another folder with runs, or a published file.

    Example: attnexp report outputs/blog

    Example: attnexp report outputs/blog --table differences --format markdown

    Example: attnexp report outputs/blog --format latex --at final

    Example: attnexp report outputs/blog --html blog.html --text "not bad, but not good either"

    Example: attnexp report outputs/blog --figure forest.svg --show forest

    Example: attnexp report outputs/trec outputs/subj --table across
    """
    from attnexp.analysis.frames import load
    from attnexp.statistics.verdict import Metric

    unread: list[str] = []
    groups, metrics = load(paths, unread), [Metric(margin=margin)]
    if html is not None or figure is not None:
        from attnexp.base.progress import note
        from attnexp.report import figures, page
        from attnexp.runs.result import Run
        from attnexp.runs.store import load as load_run

        chosen = [Run(path=path, result=load_run(path)) for path in run or []]
        if html is not None:
            page.write(html, groups, metrics, chosen=chosen, sentence=text, trust_code=trust_code)
            note(f"Page: {html}")
        if figure is not None:
            inches = None if size is None else _inches(size)
            drawn = _draw(show, groups, metrics, chosen, text, trust_code)
            figures.save(drawn, figure, inches)
            note(f"Figure: {figure}")
    else:
        show_answer(groups, metrics, table=table, format="json" if as_json else format, at=at)
    missing = {name: seeds for group in groups for name, seeds in group.missing().items()}
    if missing or unread:
        lines = [
            f"{len(seeds)} planned seeds of {name} are missing" for name, seeds in missing.items()
        ]
        stop("; ".join([*unread, *lines]) + ". attnexp runs lists all runs.", code=1)


def _inches(size: str) -> tuple[float, float]:
    try:
        width, height = (float(part) for part in size.split(","))
    except ValueError:
        raise UserError(f"--size takes W,H in inches, for example 5.5,3.4; got {size}.") from None
    return width, height


def _draw(
    show: str, groups: "Sequence[Group]", metrics: "Sequence[Metric]", chosen: "Sequence[Run]",
    text: str | None, trust_code: bool,
) -> "Figure":  # fmt: skip
    """The figure of --show: of the first group, of all differences, or of the first chosen run."""
    import pandas as pd

    from attnexp.analysis.contrasts import across, differences
    from attnexp.report import figures, page

    if show in ("curves", "loss"):
        return figures.curves(groups[0], "loss" if show == "loss" else "accuracy")
    if show == "forest":
        rows = [differences(group, metrics) for group in groups]
        rows += [across(groups, metrics)] if len({group.data for group in groups}) > 1 else []
        return figures.forest(pd.concat(rows))
    from attnexp.inspect import insight

    for run in chosen or page.with_attention(groups):
        read = insight.reader(run, trust_code=trust_code)(text or insight.SENTENCE)
        if show == "attention" and read.layers:
            return figures.attention(read)
        if show == "positions" and read.table is not None:
            return figures.positions(read.table)
    raise UserError(f"No run here has {show} to show. Choose another with --run RUN_DIR.")


def show_answer(
    groups: "Sequence[Group]", metrics: "Sequence[Metric]", *, table: str | None = None,
    format: str = "table", at: str | None = None,
) -> "list[DataFrame]":  # fmt: skip
    """Print an answer or one of its tables in a format; returns the differences of each group."""
    from attnexp.analysis.contrasts import differences
    from attnexp.report import formats, tables, terminal

    if table is None and format == "table":
        return terminal.print_answer(groups, metrics, console())
    found = [differences(group, metrics) for group in groups]
    if format == "json":
        emit(formats.document(groups, found))
        return found
    if table is None and format == "csv":
        emit(formats.csv(groups).rstrip("\n"))
        return found
    if table is not None:
        shown = [tables.TABLES[table](groups, metrics)]
    elif format == "latex":
        points = {at or group.points[0] for group in groups}
        if unknown := [p for p in points for group in groups if p not in group.points]:
            raise UserError(f"--at {unknown[0]}: there are {', '.join(groups[0].points)}.")
        shown = [tables.paper(g, m, at or g.points[0]) for g in groups for m in metrics]
    else:
        shown = [tables.accuracy(groups, metrics), tables.verdicts(groups, found)]
    for place, (title, frame) in enumerate(shown):
        if format == "table":
            terminal.print_table((title, frame), console())
        elif format == "csv":
            emit(frame.to_csv(index=False).rstrip("\n"))
        elif format == "markdown":
            emit(formats.markdown((title, frame)) + "\n")
        else:
            emit(formats.latex((title, frame), f"{table or groups[place].data}-{at or 'all'}"))
    return found


@app.command()
def judge(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="csv, jsonl or parquet.")],
    baseline: Annotated[
        str | None,
        typer.Option(metavar="VARIANT", help="What others are compared with (default: the first)."),
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,...", help="Columns of the metrics (default: all numbers)."),
    ] = None,
    variant_column: Annotated[
        str, typer.Option(metavar="NAME", help="Column with the variants.")
    ] = "variant",
    seed_column: Annotated[
        str, typer.Option(metavar="NAME", help="Column with the seeds.")
    ] = "seed",
    higher: Metrics = None,
    lower: Metrics = None,
    margin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="[METRIC=]NUMBER",
            help="Smallest difference that matters (default for accuracies: 0.25 points).",
        ),
    ] = None,
    until: Annotated[
        Literal["decided"] | None,
        typer.Option(help="For seeds added because of results: exit with 0 if all is decided."),
    ] = None,
    table: TableName = None,
    format: Format = "table",
    at: At = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Compare results of any trainer, with variants paired by seed.

    Each row holds a run: variant, seed and its metrics. Or each row holds an answer: variant, seed,
    example, and either correct or prediction and label. A column dataset makes a comparison for each
    data set.

    Example: attnexp judge results.csv

    Example: attnexp judge runs.csv --variant-column model --seed-column run --columns acc

    Example: attnexp judge results.csv --lower loss --margin loss=0.01

    Example: attnexp judge results.csv --columns accuracy --until decided
    """
    from attnexp.analysis.judge import metrics_of, read_results
    from attnexp.base.progress import note

    groups = read_results(
        files,
        split(columns),
        variant_column=variant_column,
        seed_column=seed_column,
        baseline=baseline,
        sequential=until is not None,
    )
    metrics = [*metrics_of(groups, split(higher), split(lower), margin or [])]
    if html is not None:
        from attnexp.report import page

        page.write(html, groups, metrics)
        note(f"Page: {html}")
        return
    found = show_answer(groups, metrics, table=table, format="json" if as_json else format, at=at)
    open_ = [row for frame in found for row in undecided(frame)]
    if until is not None and open_:
        stop(
            f"not decided: {', '.join(open_)}. Add a seed to each variant and judge again.", code=1
        )


def undecided(found: "DataFrame") -> list[str]:
    """Differences without a verdict yet, as `pe − none`."""
    from attnexp.statistics.verdict import TOO_FEW, UNDECIDED

    rows = found[found["verdict"].isin([UNDECIDED, TOO_FEW, ""])]
    return [*dict.fromkeys(f"{row['variant']} − {row['baseline']}" for _, row in rows.iterrows())]


def split(words: Iterable[str] | None) -> list[str]:
    """`a,b` and `c` as a, b, c."""
    return [name for word in words or () for name in word.split(",") if name]


@app.command()
def runs(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="Folder that contains runs.", autocompletion=completion.studies
        ),
    ] = Path("outputs"),
    as_json: AsJson = False,
) -> None:
    """List runs, finished, running, stopped or broken: data, seed, settings, accuracy.

    Settings are those that differ from the defaults; accuracy is that of the last epoch, or of the
    chosen epoch where held-out data chose it. Broken runs come with the command that repeats them.

    Example: attnexp runs outputs
    """
    from attnexp.report import listing
    from attnexp.report.formats import records
    from attnexp.report.terminal import print_table

    found = listing.list_runs(folder)
    if as_json:
        emit({"schema": listing.SCHEMA, "runs": records(found)})
    else:
        print_table(listing.as_table(found), console())
    broken = found[found["state"] == "broken"]
    if len(broken):
        lines = [f"{row['folder']}: {row['reason']} {row['again']}" for _, row in broken.iterrows()]
        stop("\n".join(["Some runs cannot be read.", *lines]), code=1)


@app.command()
def export(
    folders: Folders,
    to: Annotated[
        Literal["tensorboard", "mlflow", "wandb"], typer.Option(help="An installed tracker.")
    ],
    into: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Output folder (default: outputs/TARGET).")
    ] = None,
) -> None:
    """Write finished runs into a tracker's folder: settings, metrics by epoch, test metrics.

    Nothing leaves the machine. A run exported before is replaced.

    Example: attnexp export outputs/blog --to tensorboard
    """
    from attnexp.analysis.frames import load
    from attnexp.report import export

    into, groups = into or Path("outputs", to), load(folders)
    command = export.export(groups, to, into)
    emit(f"{sum(len(group.runs) for group in groups)} runs in {into}. Next: {command}")
