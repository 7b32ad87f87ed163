"""The command line: one function a command, no logic. Imports inside: help comes at once."""

import io
import json
import os
import signal
import sys
import textwrap
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from attnexp import completion
from attnexp.config.schema import OnError
from attnexp.errors import RunFailed, UserError

if TYPE_CHECKING:
    from rich.console import Console

    from attnexp.report.comparison import Comparison
    from attnexp.runs.result import Run


class _Commands(TyperGroup):
    """Turns what can go wrong into one message and an exit code."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command, which takes `--quiet` as all do: `attnexp train -q` is `attnexp -q train`."""
        command = super().get_command(ctx, cmd_name)
        if command is not None:
            command.params += [
                p for p in self.params if p.name == "quiet" if p not in command.params
            ]
        return command

    def invoke(self, ctx: Any) -> Any:
        words = [*ctx.args]  # which are taken from it
        try:
            return super().invoke(ctx)
        except TyperException as error:
            if hint := _as_setting(error, words):
                _stop(hint, code=2)
            raise
        except UserError as error:
            _stop(str(error), code=2)
        except RunFailed as error:
            _stop(str(error), code=1)
        except BrokenPipeError:
            raise  # to `main`
        except OSError as error:
            where = error.filename or "while writing"
            _stop(f"{error.strerror or error}: {where}. Free it, or give another place.", 2)
        except KeyboardInterrupt as stop:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # impatience must not break the exit
            _stop(str(stop) or "the same command, given again, goes on.", code=130)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""A laboratory for attention on text: which piece matters, and how sure are we?

    Settings are words: `position=sinusoidal`, `model.heads=4`. `attnexp config` shows all.""",
)


def _version(asked: bool) -> None:
    if asked:
        from attnexp import __version__

        _out(f"attnexp {__version__}\n", end="")
        raise typer.Exit


def _quiet(asked: bool) -> None:
    if asked:
        from attnexp.progress import console

        console.quiet = True


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
    typer.Option(metavar="POINTS", help="Accuracies nearer than this count as equivalent."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document on stdout.")]


class Until(StrEnum):
    """When `sweep` has seeds enough, where it is not told how many."""

    decided = "decided"


class Show(StrEnum):
    """What the picture of `report` shows."""

    curves = "curves"
    forest = "forest"
    attention = "attention"
    positions = "positions"


class Format(StrEnum):
    """How `report` prints."""

    table = "table"
    markdown = "markdown"
    csv = "csv"
    json = "json"
    latex = "latex"


class Tracker(StrEnum):
    """What `export` writes for."""

    tensorboard = "tensorboard"
    trackio = "trackio"
    mlflow = "mlflow"
    wandb = "wandb"


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
    from attnexp.runs.result import Run
    from attnexp.training.run import train_run

    run_dir, result = train_run(config, overrides=words, again=again)
    if as_json:
        _print_json({**result.to_json(), "folder": str(run_dir)})
    else:
        _show([Run(path=run_dir, result=result)])
        _out(f"\nResults: {run_dir}")


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
        Until | None, typer.Option(help="Add seeds till every variant is decided.")
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
            words, zipped=zipped, max_seeds=max_seeds or 64, margin=_share(margin), metric=metric
        )
    if dry_run:
        from attnexp.sweeps import preview

        shown = preview.take(planned)
        _print_json(shown.to_json()) if as_json else preview.show(shown, _console())
        return

    from attnexp.report import formats
    from attnexp.runs.result import Run
    from attnexp.sweeps.executors.task import Failure
    from attnexp.sweeps.schedule import carry_out
    from attnexp.sweeps.sequential import carry_out_until_decided
    from attnexp.sweeps.watch import Watch, totals

    with Watch() as watch:
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
        _out(formats.as_json(_compare(finished, margin)))
    elif finished:
        _show(finished, margin)
        _out(f"\nResults: {planned.directory}\nAgain: attnexp report {planned.directory}")
    failures = [outcome for outcome in outcomes if isinstance(outcome, Failure)]
    if failures:
        lines = [f"{failure.job}: {failure.reason}" for failure in failures]
        _stop("\n".join([f"runs failed; {totals(entries)}.", *lines]), code=1)


@app.command()
def report(
    folders: Folders,
    format: Annotated[Format, typer.Option(help="What to print.")] = Format.table,
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write one self-contained page, with pictures."),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write one picture: FILE.svg, .pdf or .png."),
    ] = None,
    show: Annotated[
        Show | None, typer.Option(help="With --figure: what; accuracy by epoch if not given.")
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
    from attnexp.progress import note
    from attnexp.report import formats, insight, pictures, predict
    from attnexp.runs.manifest import load_runs
    from attnexp.runs.store import load

    runs = run or []
    if runs and html is None and show not in (Show.attention, Show.positions):
        raise UserError(
            f"--run {runs[0]} chooses whose attention a page or picture shows; give --html FILE, "
            f"or --figure FILE with --show attention or positions."
        )
    if len(runs) > (1 if figure else 2):
        raise UserError(
            f"A page shows two runs side by side, a picture one; got {len(runs)} with --run."
        )
    if text is not None and html is None and show is not Show.attention:
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
    compared = _compare(found, margin)
    left_out += [reason for comparison in compared for reason in comparison.damaged]
    if html is not None or figure is not None:
        from attnexp.report.html import write
        from attnexp.runs.result import Run

        chosen = [Run(path=path, result=load(path)) for path in runs]
        if html is not None:
            write(html, found, compared, chosen=chosen, sentence=sentence)
            note(f"Page: {html}")
        if figure is not None:
            what = show or Show.curves
            pictures.write(figure, what, found, compared[0], chosen=chosen, sentence=sentence)
            note(f"Picture: {figure}")
    else:
        match Format.json if as_json else format:
            case Format.table:
                formats.show(compared, _console())
            case Format.markdown:
                _out(formats.markdown(compared), end="")
            case Format.latex:
                _out(formats.latex(compared), end="")
            case Format.csv:
                _out(formats.as_csv(compared), end="")
            case Format.json:
                _out(formats.as_json(compared))
    if left_out:
        _stop("\n".join(["not all of it could be read, and this was left out:", *left_out]), code=1)


@app.command()
def judge(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="csv, or .json; see above.")],
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
    html: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write one self-contained page, with pictures."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Verdicts on results of any trainer: variants paired by seed, as for runs of attnexp.

    A row is a run: variant, seed and its metrics.

    Or an answer: variant, seed, example, and correct or both prediction and label.

    Example: attnexp judge results.csv

    Example: attnexp judge results.csv --baseline none --lower loss --margin loss=0.01
    """
    from attnexp.report.judge import judge_results, read, show, to_json

    judged = judge_results(
        read(file, metric or []),
        baseline=baseline,
        higher=higher or [],
        lower=lower or [],
        margins=margin or [],
    )
    if html is not None:
        from attnexp.progress import note
        from attnexp.report import judge_html

        judge_html.write(html, judged)
        note(f"Page: {html}")
    elif as_json:
        _print_json(to_json(judged))
    else:
        show(judged, _console())


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
        _print_json({"schema": 1, "stored": asdict(stored), "measured": asdict(measured)})
    else:
        for name, figures in (("stored", stored), ("measured", measured)):
            _out(
                f"{name:9s} accuracy {100 * figures.accuracy:6.2f} %   loss {figures.loss:.6f}   "
                f"n {figures.n:,}"
            )
    if overrides:
        return
    if stored != measured:
        _stop(
            f"stored and measured differ: accuracy {stored.accuracy} and {measured.accuracy}, loss "
            f"{stored.loss} and {measured.loss}. Another processor or torch rounds differently; "
            f"beyond that, code or data are not those of the run.",
            code=1,
        )
    if not as_json:
        _out("The same to the last bit.")


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
    from attnexp.report import predict

    found = predict.readings(run_dir, predict.lines(text, file, sys.stdin.buffer), head)
    if as_json:
        texts = [predict.to_json(reading, head) for reading in found]
        _print_json({"schema": predict.SCHEMA, "texts": texts})
    else:
        console = _console()
        for reading in found:
            predict.show(reading, head, console)


@app.command()
def export(
    folders: Folders,
    to: Annotated[Tracker, typer.Option(help="The tracker, as it is installed here.")],
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
    _out(f"{num_runs} run{'s' if num_runs > 1 else ''} in {into}. To look at them: {look}")


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
    from attnexp.progress import note
    from attnexp.report import publish

    if not (dry_run or yes or sys.stdin.isatty()):
        raise UserError("Nobody is here to ask. Look with --dry-run, then send with --yes.")
    files = publish.bundle(run_dir, repo)
    if dry_run:
        for name, content in files.items():
            _out(f"{len(content):>12,} {name}")
        _out(f"\n{files[publish.CARD].decode()}", end="")
        return
    if not yes and not typer.confirm(f"Send {', '.join(files)} to {repo}?", err=True):
        note("Nothing was sent.")
        return
    _out(publish.send(files, repo, private=private))


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

    if groups:
        shown: dict[str, Any] = options.describe()
        text = _options(shown)
    elif cost:
        from attnexp.model.cost import of_model

        shown = of_model(compose(overrides or []))
        text = "\n".join(f"{name:20s}{value:,}" for name, value in shown.items())
    else:
        shown = to_dict(compose(overrides or []))
        text = yaml.safe_dump(shown, sort_keys=False).rstrip()
    if as_json:
        _print_json(shown)
    else:
        _out(text)


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
    if as_json:
        _print_json(shown)
    else:
        inventory.show(shown, _console())


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
    from attnexp.claims import run
    from attnexp.claims.claim import Conclusion
    from attnexp.progress import track

    chosen = run.choose(ids or [], everything=everything)
    found = list(track(run.check(chosen, out), total=len(chosen), label="checking claims"))
    if as_json:
        _print_json(run.to_json(found))
    else:
        run.show(found, _console())
    if figures is not None:
        from attnexp.claims.figures import draw
        from attnexp.progress import note

        for path in draw({claim.id for claim in chosen}, figures):
            note(f"Picture: {path}")
    refuted = [claim.id for claim, finding in found if finding.conclusion is Conclusion.refuted]
    if refuted:
        _stop(f"refuted: {', '.join(refuted)}", code=1)


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
    from attnexp.report import doctor

    if folder is None:
        around = doctor.look_around()
        _print_json(around) if as_json else doctor.show(around, _console())
        return
    found = doctor.examine(folder)
    _print_json(found) if as_json else doctor.show_tree(found, _console())
    if found["troubles"]:
        _stop(f"{len(found['troubles'])} to be made again; each with its command.", code=1)


def main() -> None:
    """The console script."""
    # Threads of GNU OpenMP spin for milliseconds while they wait, which on cores shared with other
    # work makes a run many times slower. A short spin costs an idle machine little. It is read when
    # torch is imported; OMP_WAIT_POLICY, where the user set it, wins.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing is lost
    if sys.stderr is None:  # 2>&-
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:  # >&-
        _stop("the standard output is closed. Send it somewhere: > FILE, or > /dev/null.", code=2)
    try:
        # Pieces of one's own lie beside the caller, as with `python -m`; last, so they hide none.
        sys.path.append(os.getcwd())
    except FileNotFoundError:
        _stop("the folder that you are in was deleted. Change to another: cd.", code=2)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal without "±" shows "?" instead
        sys.stdout.reconfigure(errors="replace")
    if os.environ.get("_ATTNEXP_COMPLETE") == "complete_bash":
        completion.join_words_of_bash(os.environ)
    try:
        app(prog_name="attnexp")
    except SystemExit as stop:  # rich and Typer exit with 1 where the reader of our output left
        if isinstance(stop.__context__, BrokenPipeError):
            raise SystemExit(0) from None
        raise
    finally:
        _flush()


def _flush() -> None:
    """Hand over what is left of the output. Python itself would do so after our last word."""
    try:
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if not isinstance(error, BrokenPipeError):  # whose reader has what it wanted
            _stop(f"{error.strerror}: the standard output. Send it elsewhere.", code=2)


def _stop(message: str, code: int) -> NoReturn:
    from attnexp.progress import console

    console.quiet = False
    style = "bold yellow" if code == 130 else "bold red"
    console.print("Interrupted:" if code == 130 else "Error:", style=style, end=" ")
    console.print(message, markup=False, soft_wrap=True)
    raise SystemExit(code)


def _as_setting(error: TyperException, words: list[str]) -> str:
    """What to write for `--seed 3`, where that is no option but a setting; else empty."""
    option, context = getattr(error, "option_name", ""), getattr(error, "ctx", None)
    if (
        not option
        or context is None
        or all(param.name != "overrides" for param in context.command.params)
    ):
        return ""
    from attnexp.config.compose import compose
    from attnexp.config.options import groups
    from attnexp.config.schema import walk

    key = option.lstrip("-")
    if key not in {*groups(), *(name for name, _, _ in walk(compose([])))}:
        return ""
    place = next(i for i, word in enumerate(words) if word.partition("=")[0] == option)
    _, equals, value = words[place].partition("=")
    if not equals:
        value = next(iter(words[place + 1 :]), "VALUE")
    return f"{option} is no option. Settings are words, without dashes: {key}={value}"


def _console() -> "Console":
    from rich.console import Console

    # Piped output keeps the width that tables are made for, whatever $COLUMNS says.
    return Console(highlight=False, markup=False, width=None if sys.stdout.isatty() else 80)


def _out(text: str, end: str = "\n") -> None:
    sys.stdout.write(text + end)


def _options(groups: dict[str, dict[str, str]]) -> str:
    """Options with what they are, wrapped to 80 columns."""
    lines = []
    for group, options in groups.items():
        lines.append(group)
        for option, about in options.items():
            margin = f"  {option:20s}"
            lines += textwrap.wrap(
                about, 80, initial_indent=margin, subsequent_indent=" " * len(margin)
            )
    return "\n".join(lines)


def _print_json(tree: Any) -> None:
    _out(json.dumps(tree, indent=1))


def _compare(found: "list[Run]", margin: float = 0.25) -> "list[Comparison]":
    """margin: in points."""
    from attnexp.report.comparison import compare

    return compare(found, margin=_share(margin))


def _share(margin: float) -> float:
    """Points of accuracy as a share."""
    if not 0 < margin < 100:
        raise UserError(f"--margin is in points of accuracy, above 0 and below 100; got {margin}.")
    return margin / 100


def _show(found: "list[Run]", margin: float = 0.25) -> None:
    from attnexp.report import formats

    formats.show(_compare(found, margin), _console())
