"""The application: errors as a message and an exit code, `main`, output, and shared options."""

import io
import json
import os
import re
import signal
import sys
from contextlib import redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TextIO

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from attnexp import __version__
from attnexp.base.errors import RunFailed, UserError, escape_controls

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = 7  # of the JSON documents of all commands
OUT_OF_MEMORY = re.compile("can't allocate memory|out of memory|size calculation overflowed")
"""What torch says where an array does not fit; on a CPU the class of its error does not tell."""


class Commands(TyperGroup):
    """Group of commands that turns an error of the user's into one message and an exit code."""

    def invoke(self, ctx: Any) -> Any:
        """Call a command. Raises `SystemExit` for errors that the user can mend."""
        try:
            return super().invoke(ctx)
        except TyperException as error:
            if hasattr(error, "possibilities"):  # of an unknown option
                error.message += ". If it is a setting, leave out the dashes, as in train.epochs=3."
            raise
        except BrokenPipeError:
            raise  # Typer makes a `SystemExit` of it, which `main` takes for no error.
        except (UserError, OSError, UnicodeDecodeError) as error:
            stop(str(error), code=2)
        except RunFailed as error:
            stop(str(error), code=1)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and not OUT_OF_MEMORY.search(str(error)):
                raise  # an error of the program
            reason = str(error).partition("\n")[0]
            stop(f"Memory does not suffice. {reason}", code=2)
        except KeyboardInterrupt as why:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # Further Ctrl-C must not break the exit.
            stop(str(why) or "Run the same command again to resume.", code=130)


app = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",  # joins the lines of a paragraph
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="""Run controlled experiments on attention for text classification.

    Settings are given as key=value, for example `position=sinusoidal model.heads=4`. `attnexp
    config` lists them.""",
)


def _say_version(asked: bool) -> None:
    if asked:
        print(f"attnexp {__version__}")
        raise typer.Exit


@app.callback()
def _options_of_all(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Print the version."),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")] = False,
) -> None:
    from attnexp.base import progress

    progress.console.quiet = quiet


def main() -> None:
    """The console script: run the command that the process's arguments name, and exit."""
    # Waiting threads of GNU OpenMP spin for milliseconds, which slows runs many times on shared
    # cores. Read when torch is imported; the user's OMP_WAIT_POLICY takes precedence.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    os.environ["MPLBACKEND"] = "agg"
    # Worker processes leave the current folder out of `sys.path`; user code is found without it.
    os.environ["PYTHONSAFEPATH"] = "1"
    for name in ("SIGTERM", "SIGHUP"):  # They end a command as Ctrl-C does; Windows has no SIGHUP.
        number = getattr(signal, name, signal.SIGTERM)
        if signal.getsignal(number) is not signal.SIG_IGN:  # nohup lets a command ignore SIGHUP.
            signal.signal(number, signal.default_int_handler)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # A terminal without "±" shows "?" instead.
    try:
        app(prog_name="attnexp")
    except SystemExit as ending:
        has_reader = not isinstance(ending.__context__, BrokenPipeError)
        with suppress(BrokenPipeError):  # The flush raises it if the reader has left since.
            sys.stdout.flush()
            if has_reader:
                raise
        # A reader such as `head` has closed the pipe, which is no error. Python flushes once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(0) from None


def stop(message: str, code: int) -> NoReturn:
    """Print an error message and exit."""
    from attnexp.base import progress

    progress.console.quiet = False
    title = "Interrupted:" if code == 130 else "Error:"
    progress.console.print(title, style="bold red", end=" ")
    progress.console.print(message, soft_wrap=True)
    raise SystemExit(code)


_result_stream: TextIO = sys.stdout  # `emit` writes here; set for each command by its --json.


def _redirect_prints(context: typer.Context, as_json: bool) -> bool:
    """Keep stdout for `emit`. With --json, prints of libraries and user code go to stderr."""
    global _result_stream
    _result_stream = sys.stdout
    if as_json:
        context.with_resource(redirect_stdout(sys.stderr))
    return as_json


AsJson = Annotated[
    bool,
    typer.Option("--json", callback=_redirect_prints, help="Print one JSON document on stdout."),
]


def console() -> "Console":
    """Console for tables on stdout; 80 columns wide where it is no terminal."""
    from attnexp.base.progress import PlainConsole

    return PlainConsole(width=None if sys.stdout.isatty() else 80)


def emit(result: str | dict[str, Any]) -> None:
    """Print a text, or a JSON document, on stdout."""
    text = result if isinstance(result, str) else json.dumps({"schema": SCHEMA, **result}, indent=1)
    _result_stream.write(f"{escape_controls(text)}\n")


def emit_tree(tree: dict[str, Any], as_json: bool) -> None:
    """Print a tree of settings or facts, as YAML or as a JSON document."""
    import yaml

    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=56)
    emit(tree if as_json else text.rstrip())


def _add_config_dirs(folders: list[Path] | None) -> None:
    from attnexp.config import options

    options.own_dirs += folders or []


def _name_experiments(words: list[str] | None) -> list[str]:
    """Replace words that name a finished run by experiment= and the path of its config."""
    from hydra.core.override_parser.types import Quote, QuotedString

    from attnexp.runs.find import find_run
    from attnexp.runs.store import CONFIG, RUN_ID

    named = []
    for word in words or []:
        if "=" not in word and (RUN_ID.fullmatch(word) or "/" in word):
            path = QuotedString(str(find_run(Path(word)) / CONFIG), Quote.double).with_quotes()
            word = f"experiment={path}"
        named.append(word)
    return named


Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="OVERRIDES",
        help="Settings as key=value; a finished run's folder stands for its settings.",
        callback=_name_experiments,
    ),
]
RunDir = Annotated[Path, typer.Argument(metavar="RUN_DIR", help="Folder or id of a finished run.")]
studies_argument = typer.Argument(metavar="DIR", help="Studies, runs, or folders with runs.")
Folders = Annotated[list[Path], studies_argument]
ConfigDir = Annotated[
    list[Path] | None,
    typer.Option(
        exists=True,
        callback=_add_config_dirs,
        expose_value=False,  # No command reads it: it is kept in `options.own_dirs`.
        help="Folder with options of your own.",
    ),
]
Margin = Annotated[float | None, typer.Option(help="Smallest difference that matters.")]
TrustCode = Annotated[
    bool, typer.Option("--trust-code", help="Run the code of others that a stored run names.")
]
AnyCode = Annotated[bool, typer.Option("--any-code", help="Take results or models of older code.")]
Until = Literal["decided"] | None
