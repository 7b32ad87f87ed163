"""The command line: one function a command, no logic. Imports inside: help comes at once."""

import sys
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from attnexp import completion
from attnexp.base.errors import UserError
from attnexp.config.schema import OnError
from attnexp.shell import Commands, console, emit, run_app, stop

app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""A laboratory for attention on text: which piece matters, and how sure are we?

    Settings are words: `position=sinusoidal`, `model.heads=4`. `attnexp config` shows all.""",
)


def _version(asked: bool) -> None:
    if asked:
        from attnexp import __version__

        emit(f"attnexp {__version__}")
        raise typer.Exit


def _quiet(asked: bool) -> None:
    if asked:
        from attnexp.base.progress import console

        console.quiet = True


def _share(points: float) -> float:
    """Points of accuracy as a share."""
    if not 0 < points < 100:
        raise UserError(f"--margin is in points of accuracy, above 0 and below 100; got {points}.")
    return points / 100


@app.callback()
def _options_of_all(
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet", "-q", callback=_quiet, expose_value=False, help="Results and errors only."
        ),
    ] = False,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_version, is_eager=True, help="Show it and leave."),
    ] = False,
) -> None:
    pass


Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="OVERRIDES",
        help="Settings, as key=value.",
        show_default=False,
        autocompletion=completion.settings,
    ),
]
RunDir = Annotated[
    Path,
    typer.Argument(
        metavar="RUN_DIR", help="A finished run's folder.", autocompletion=completion.runs
    ),
]
Folders = Annotated[
    list[Path],
    typer.Argument(
        metavar="DIR",
        help="Studies, or any folders with runs.",
        autocompletion=completion.studies,
    ),
]
Margin = Annotated[
    float,
    typer.Option(
        metavar="POINTS", help="Accuracies nearer than this count as equivalent.", callback=_share
    ),
]
Html = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Write one self-contained page, with pictures."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


@app.command()
def train(
    overrides: Overrides = None,
    again: Annotated[
        bool, typer.Option("--again", help="Also where this very run has finished before.")
    ] = False,
    as_json: AsJson = False,
    multirun: Annotated[bool, typer.Option("--multirun", "-m", hidden=True)] = False,
) -> None:
    """Train one model: live progress, a table by epoch, and where the results are.

    A run that has finished before is shown at once.

    Example: attnexp train data=contrast position=sinusoidal
    """
    words = overrides or []
    if multirun:
        raise UserError(f"train does one run. For many: attnexp sweep {' '.join(words)}".strip())
    from attnexp.config.compose import compose

    config = compose(words)  # before torch is imported: a wrong word is answered at once
    from attnexp.analysis.comparison import compare
    from attnexp.report import formats
    from attnexp.runs.result import Run
    from attnexp.training.run import train_run

    run_dir, result = train_run(config, overrides=words, again=again)
    if as_json:
        emit({**result.to_json(), "folder": str(run_dir)})
    else:
        formats.print_comparisons(compare([Run(path=run_dir, result=result)]), console())
        emit(f"\nResults: {run_dir}")


@app.command()
def sweep(
    overrides: Overrides = None,
    zipped: Annotated[
        bool, typer.Option("--zip", help="Pair the axes' values instead of crossing them.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the runs and estimate the time.")
    ] = False,
    on_error: Annotated[
        OnError, typer.Option(help="After a failed run: go on, or start no more.")
    ] = OnError.proceed,
    margin: Margin = 0.25,
    until: Annotated[
        Literal["decided"] | None, typer.Option(help="Add seeds till every variant is decided.")
    ] = None,
    max_seeds: Annotated[
        int | None,
        typer.Option(min=6, max=1000, help="With --until: the most there may be; 64 if not given."),
    ] = None,
    metric: Annotated[
        str | None,
        typer.Option(metavar="POINT", help="With --until: the accuracy that decides, as final."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Train many models and compare them. What has finished before is not run again.

    Where: executor=local (processes here; executor.workers=2), submitit, slurm or ray.

    Example: attnexp sweep study=blog 'seed=range(10)'

    Example: attnexp sweep position=none,sinusoidal model.heads=1,8 data=contrast

    Example: attnexp sweep study=blog --until decided
    """
    words = overrides or []
    if until is None:
        from attnexp.sweeps.plan import plan

        if max_seeds or metric:
            raise UserError("--max-seeds and --metric belong to --until decided.")
        planned = plan(words, zipped=zipped)
    else:
        from attnexp.sweeps.sequential import plan_until_decided

        planned = plan_until_decided(
            words, zipped=zipped, max_seeds=max_seeds or 64, margin=margin, metric=metric
        )
    if dry_run:
        from attnexp.sweeps import preview

        shown = preview.take(planned)
        emit(shown.to_json()) if as_json else preview.show(shown, console())
        return

    from contextlib import closing

    from attnexp.analysis.comparison import compare
    from attnexp.report import formats
    from attnexp.runs.result import Run
    from attnexp.sweeps.executors.task import Failure
    from attnexp.sweeps.schedule import carry_out
    from attnexp.sweeps.sequential import carry_out_until_decided
    from attnexp.sweeps.watch import Watch, totals

    with closing(Watch()) as watch:
        if until is None:
            entries = carry_out(planned, on_error=on_error, observe=watch)
        else:
            entries = carry_out_until_decided(
                planned, on_error=on_error, observe=watch, tell=watch.look
            )
    outcomes = [entry.outcome for entry in entries]
    finished = [outcome for outcome in outcomes if isinstance(outcome, Run)]
    finished.sort(key=lambda run: [*planned.variants].index(run.label))
    if as_json:
        emit(formats.as_json(compare(finished, margin=margin)))
    elif finished:
        formats.print_comparisons(compare(finished, margin=margin), console())
        emit(f"\nResults: {planned.directory}\nAgain: attnexp report {planned.directory}")
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    if failures:
        lines = [f"{failure.job}: {failure.reason}" for failure in failures]
        stop("\n".join([f"runs failed; {totals(entries)}.", *lines]), code=1)


@app.command()
def report(
    folders: Folders,
    format: Annotated[
        Literal["table", "markdown", "csv", "json", "latex"], typer.Option(help="What to print.")
    ] = "table",
    html: Html = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write one picture: FILE.svg, .pdf or .png."),
    ] = None,
    show: Annotated[
        Literal["curves", "forest", "attention", "positions"] | None,
        typer.Option(help="With --figure: what; accuracy by epoch if not given."),
    ] = None,
    run: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="RUN_DIR",
            help="Whose attention to show; a page takes two.",
            autocompletion=completion.runs,
        ),
    ] = None,
    text: Annotated[
        str | None, typer.Option(help="Of which text to show it, on a page or picture.")
    ] = None,
    margin: Margin = 0.25,
    as_json: AsJson = False,
) -> None:
    """Print the tables and verdicts again from finished runs on disk.

    Example: attnexp report outputs/blog --format markdown

    Example: attnexp report outputs/blog --html blog.html

    Example: attnexp report outputs/blog --figure forest.svg --show forest

    Example: attnexp report outputs/blog --html a.html --text "not bad, but not good either"
    """
    from attnexp.analysis.comparison import compare
    from attnexp.base.progress import note
    from attnexp.inspect import insight, predict
    from attnexp.report import formats, pictures
    from attnexp.runs.manifest import load_runs
    from attnexp.runs.store import load

    runs = run or []
    if runs and html is None and show not in ("attention", "positions"):
        raise UserError(
            f"--run {runs[0]} chooses whose attention a page or picture shows; give --html FILE, "
            f"or --figure FILE with --show attention or positions."
        )
    if len(runs) > (1 if figure else 2):
        raise UserError(
            f"A page shows two runs side by side, a picture one; got {len(runs)} with --run."
        )
    if text is not None and html is None and show != "attention":
        raise UserError(
            "--text is what attention is shown of; give --html FILE, or --figure FILE with --show "
            "attention."
        )
    sentence = (
        insight.SENTENCE if text is None else next(predict.lines(text, None, sys.stdin.buffer))
    )
    if figure is None and show is not None:
        raise UserError(f"--show {show} says what a picture shows; give --figure FILE too.")
    if figure is not None:
        pictures.kind_of(figure)  # before anything is read
    left_out: list[str] = []
    found = load_runs(folders, left_out.append)
    compared = compare(found, margin=margin)
    left_out += [reason for comparison in compared for reason in comparison.damaged]
    if html is not None or figure is not None:
        from attnexp.report.html import write
        from attnexp.runs.result import Run

        chosen = [Run(path=path, result=load(path)) for path in runs]
        if html is not None:
            write(html, found, compared, chosen=chosen, sentence=sentence)
            note(f"Page: {html}")
        if figure is not None:
            pictures.write(
                figure, show or "curves", found, compared[0], chosen=chosen, sentence=sentence
            )
            note(f"Picture: {figure}")
    elif format == "table" and not as_json:
        formats.print_comparisons(compared, console())
    else:
        emit(formats.TEXTS["json" if as_json else format](compared).rstrip("\n"))
    if left_out:
        stop("\n".join(["not all of it could be read, and this was left out:", *left_out]), code=1)


@app.command()
def judge(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="csv, tsv, json, jsonl or parquet.")],
    baseline: Annotated[
        str | None,
        typer.Option(metavar="VARIANT", help="Compared with; the first if not given."),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(help="Only this one; may be given several times.")
    ] = None,
    higher: Annotated[
        list[str] | None, typer.Option(metavar="METRIC", help="Of this one more is better.")
    ] = None,
    lower: Annotated[
        list[str] | None, typer.Option(metavar="METRIC", help="Of this one less is better.")
    ] = None,
    margin: Annotated[
        list[str] | None,
        typer.Option(metavar="[METRIC=]NUMBER", help="What does not matter; of shares 0.25."),
    ] = None,
    html: Html = None,
    as_json: AsJson = False,
) -> None:
    """Verdicts on results of any trainer: variants paired by seed, as for runs of attnexp.

    A row is a run: variant, seed and its metrics.

    Or an answer: variant, seed, example, and correct or both prediction and label.

    Example: attnexp judge results.csv

    Example: attnexp judge results.csv --baseline none --lower loss --margin loss=0.01
    """
    from attnexp.analysis.other_results import judge_results, read_results
    from attnexp.report import formats

    comparison = judge_results(
        read_results(file, metric or []),
        baseline=baseline,
        higher=higher or [],
        lower=lower or [],
        margins=margin or [],
    )
    if html is not None:
        from attnexp.base.progress import note
        from attnexp.report.html import write

        write(html, [], [comparison])
        note(f"Page: {html}")
    elif as_json:
        emit(formats.as_json([comparison]))
    else:
        formats.print_comparisons([comparison], console())


@app.command()
def evaluate(
    run_dir: RunDir,
    overrides: Overrides = None,
    as_json: AsJson = False,
) -> None:
    """Measure a finished run's model again on its test set, or on other texts.

    Settings understood: data.path, data.text, data.label, data.limit_test,
    train.device, train.threads.

    Example: attnexp evaluate outputs/runs/RUN data.path=my_texts/
    """
    from dataclasses import asdict

    from attnexp.training.evaluate import evaluate_run

    stored, measured = evaluate_run(run_dir, overrides or [])
    if as_json:
        emit({"schema": 1, "stored": asdict(stored), "measured": asdict(measured)})
    else:
        for name, figures in (("stored", stored), ("measured", measured)):
            emit(
                f"{name:9s} accuracy {100 * figures.accuracy:6.2f} %   loss {figures.loss:.6f}   "
                f"n {figures.n:,}"
            )
    if overrides:
        return
    if stored != measured:
        stop(
            f"stored and measured differ: accuracy {stored.accuracy} and {measured.accuracy}, loss "
            f"{stored.loss} and {measured.loss}. Another processor or torch rounds differently; "
            f"beyond that, code or data are not those of the run.",
            code=1,
        )
    if not as_json:
        emit("The same to the last bit.")


@app.command()
def predict(
    run_dir: RunDir,
    text: Annotated[
        str | None,
        typer.Argument(metavar="TEXT", help="If none, each line of stdin.", show_default=False),
    ] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Each line of this file instead.")
    ] = None,
    head: Annotated[
        int | None,
        typer.Option(metavar="N", help="Colour by this head, from 1, not by their mean."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What a trained model says of a text: label, probability, and where its attention goes.

    The more attention a token receives, the darker its colour. Unknown words end in "?".

    Example: attnexp predict outputs/runs/RUN "the plot was superb but the cast was dreadful"
    """
    from attnexp.inspect import predict

    found = predict.readings(run_dir, predict.lines(text, file, sys.stdin.buffer), head)
    if as_json:
        texts = [predict.to_json(reading, head) for reading in found]
        emit({"schema": predict.SCHEMA, "texts": texts})
    else:
        for reading in found:
            predict.print_reading(reading, head, console())


@app.command()
def export(
    folders: Folders,
    to: Annotated[
        Literal["tensorboard", "trackio", "mlflow", "wandb"],
        typer.Option(help="The tracker, as it is installed here."),
    ],
    into: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Where; outputs/TRACKER if not given."),
    ] = None,
) -> None:
    """Write finished runs into a tracker's folder, with settings, epochs and test figures.

    Nothing is sent. Exported again, a run replaces what it was.

    Example: attnexp export outputs/blog --to tensorboard
    """
    from attnexp.report import export
    from attnexp.runs.manifest import load_runs

    into = into or Path("outputs", to)
    num_runs = export.export(load_runs(folders), to, into)
    look = export.TRACKERS[to].look.format(into=into)
    emit(f"{num_runs} run{'s' if num_runs > 1 else ''} in {into}. To look at them: {look}")


@app.command()
def publish(
    run_dir: RunDir,
    repo: Annotated[str, typer.Argument(metavar="USER/NAME", help="Of the Hugging Face hub.")],
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only list the files and print the card.")
    ] = False,
    private: Annotated[
        bool, typer.Option("--private", help="Visible to you alone, where it is new.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", help="Send without asking.")] = False,
) -> None:
    """Put a finished run on the Hugging Face hub: model, settings, words, figures and a card.

    Anyone can download it and run `attnexp predict`. $HF_ENDPOINT may name another hub.

    Example: attnexp publish outputs/runs/RUN user/my-model --dry-run
    """
    from attnexp.base.progress import note
    from attnexp.report import publish

    if not (dry_run or yes or sys.stdin.isatty()):
        raise UserError("Nobody is here to ask. Look with --dry-run, then send with --yes.")
    files = publish.bundle(run_dir, repo)
    if dry_run:
        for name, content in files.items():
            emit(f"{len(content):>12,} {name}")
        emit(f"\n{files[publish.CARD].decode().rstrip()}")
        return
    if not yes and not typer.confirm(f"Send {', '.join(files)} to {repo}?", err=True):
        note("Nothing was sent.")
        return
    emit(publish.send(files, repo, private=private))


@app.command()
def explore(
    run_dirs: Annotated[
        list[Path],
        typer.Argument(
            metavar="RUN_DIR",
            help="Finished runs, shown side by side.",
            autocompletion=completion.runs,
        ),
    ],
    port: Annotated[int, typer.Option(min=1024, max=65535, help="Where to listen.")] = 8080,
) -> None:
    """A page on this machine: type, move words, and watch every head of one model or several.

    Nobody else can reach it, and it asks nothing of the network.

    Example: attnexp explore outputs/runs/RUN_WITHOUT outputs/runs/RUN_WITH
    """
    from attnexp.report.explore import serve

    serve(run_dirs, port)


@app.command()
def config(
    overrides: Overrides = None,
    groups: Annotated[bool, typer.Option("--groups", help="List every group's options.")] = False,
    cost: Annotated[
        bool, typer.Option("--cost", help="Parameters and FLOPs of the model, for two classes.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show the composed settings of a run, what there is to choose from, or what a model costs.

    Example: attnexp config experiment=blog_pe model.heads=4

    Example: attnexp config --cost model=lstm
    """
    import yaml

    from attnexp.config import options
    from attnexp.config.compose import compose
    from attnexp.config.schema import to_dict

    if groups and (cost or overrides):
        raise UserError("--groups lists all there is to choose. Give it alone.")
    if groups:
        shown: dict[str, Any] = options.describe()
        text = options.format_groups(shown)
    elif cost:
        from attnexp.model.cost import of_model

        shown = of_model(compose(overrides or []))
        text = "\n".join(f"{name:20s}{value:,}" for name, value in shown.items())
    else:
        shown = to_dict(compose(overrides or []))
        text = yaml.safe_dump(shown, sort_keys=False).rstrip()
    emit(shown if as_json else text)


@app.command()
def data(
    overrides: Annotated[
        list[str] | None,
        typer.Argument(metavar="prepare OVERRIDES", show_default=False),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Where each data set would come from, and what is cached; `prepare` fills the cache.

    Example: attnexp data

    Example: attnexp data prepare data.path=aclImdb_v1.tar.gz
    """
    from attnexp.config.compose import compose
    from attnexp.data import encode, inventory

    words = overrides or []
    prepare = words[:1] == ["prepare"]
    settings = compose(words[1:] if prepare else words).data
    if prepare:
        encode.load(settings)
    shown = inventory.take(settings)
    emit(shown) if as_json else inventory.show(shown, console())


@app.command()
def claims(
    ids: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="ID",
            help="Such as C04.",
            show_default=False,
            autocompletion=completion.claims,
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that read finished sweeps on IMDB.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Root of all results.")] = Path("outputs"),
    figures: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Draw C09 and C23 there, as PNG.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check what the sources say: the claim, what was measured, the verdict.

    Example: attnexp claims

    Example: attnexp claims C04 C20
    """
    from attnexp.base.progress import track
    from attnexp.claims import run
    from attnexp.claims.claim import Conclusion

    chosen = run.choose(ids or [], everything=everything)
    found = list(track(run.check(chosen, out), total=len(chosen), label="checking claims"))
    emit(run.to_json(found)) if as_json else run.show(found, console())
    if figures is not None:
        from attnexp.base.progress import note
        from attnexp.claims.figures import draw

        for path in draw({claim.id for claim in chosen}, figures):
            note(f"Picture: {path}")
    refuted = [claim.id for claim, finding in found if finding.conclusion is Conclusion.refuted]
    if refuted:
        stop(f"refuted: {', '.join(refuted)}", code=1)


@app.command()
def doctor(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Any tree of runs.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """What is installed, which devices, which data; or, of DIR, which runs to make again.

    Example: attnexp doctor outputs
    """
    from attnexp.inspect import doctor

    if folder is None:
        around = doctor.describe_installation()
        emit(around) if as_json else doctor.print_installation(around, console())
        return
    found = doctor.examine(folder)
    emit(found) if as_json else doctor.print_tree(found, console())
    if found["troubles"]:
        stop(f"{len(found['troubles'])} to be made again; each with its command.", code=1)


def main() -> None:
    """The console script."""
    run_app(app)
