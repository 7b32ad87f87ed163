"""What surrounds the commands: an error becomes one message and an exit code, results go out."""

import io
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from attnexp.base.errors import RunFailed, UserError
from attnexp.cli import completion

if TYPE_CHECKING:
    from rich.console import Console


class Commands(TyperGroup):
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
        """Call a command."""
        words = [*ctx.args]  # which are taken from it
        try:
            return super().invoke(ctx)
        except TyperException as error:
            if hint := _as_setting(error, words):
                stop(hint, code=2)
            raise
        except UserError as error:
            stop(str(error), code=2)
        except RunFailed as error:
            stop(str(error), code=1)
        except BrokenPipeError:
            raise  # to `main`
        except OSError as error:
            where = error.filename or "while writing"
            stop(f"{error.strerror or error}: {where}. Free it, or give another place.", 2)
        except KeyboardInterrupt as why:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # impatience must not break the exit
            stop(str(why) or "the same command, given again, goes on.", code=130)


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


def main() -> None:
    """The console script: run the command that the process's arguments name, and exit."""
    # Threads of GNU OpenMP spin for milliseconds while they wait, which on cores shared with other
    # work makes a run many times slower. A short spin costs an idle machine little. It is read when
    # torch is imported; OMP_WAIT_POLICY, where the user set it, wins.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # as Ctrl-C: nothing is lost
    if sys.stderr is None:  # 2>&-
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    if sys.stdout is None:  # >&-
        stop("the standard output is closed. Send it somewhere: > FILE, or > /dev/null.", code=2)
    try:
        # Pieces of one's own lie beside the caller, as with `python -m`; last, so they hide none.
        sys.path.append(os.getcwd())
    except FileNotFoundError:
        stop("the folder that you are in was deleted. Change to another: cd.", code=2)
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal without "±" shows "?" instead
        sys.stdout.reconfigure(errors="replace")
    if os.environ.get("_ATTNEXP_COMPLETE") == "complete_bash":
        completion.join_words_of_bash(os.environ)
    try:
        app(prog_name="attnexp")
    except SystemExit as ending:  # rich and Typer exit with 1 where the reader of our output left
        if isinstance(ending.__context__, BrokenPipeError):
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
            stop(f"{error.strerror}: the standard output. Send it elsewhere.", code=2)


def stop(message: str, code: int) -> NoReturn:
    """Exit with a message."""
    from attnexp.base.progress import console

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


def console() -> "Console":
    """For tables, on stdout."""
    from rich.console import Console

    # Piped output keeps the width that tables are made for, whatever $COLUMNS says.
    width = None if sys.stdout.isatty() else 80
    return Console(highlight=False, markup=False, emoji=False, width=width)


def emit(result: str | dict[str, Any]) -> None:
    """Print a text, or a JSON document, on stdout."""
    text = result if isinstance(result, str) else json.dumps(result, indent=1)
    sys.stdout.write(f"{text}\n")
