"""The application: options of every command, errors as one message and an exit code, output."""

import io
import json
import os
import re
import signal
import sys
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn, TYPE_CHECKING, TextIO

import typer
from typer.core import TyperGroup
from typer.exceptions import TyperException

from attnexp.base.errors import RunFailed, UserError, escape_controls, name_allocation
from attnexp.cli import completion

if TYPE_CHECKING:
    from rich.console import Console


OUT_OF_MEMORY = re.compile("can't allocate memory|out of memory")
"""What torch says where an array does not fit; on a CPU the class of its error does not tell."""


class Commands(TyperGroup):
    """Group of commands that turns an error into one message and an exit code."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """The command of the first word."""
        if args[0] in ("help", "version"):
            stop(f"Write attnexp --{args[0]}.", code=2)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Call a command. Raises `SystemExit` for errors that the user can mend."""
        words = [*ctx.args]  # a copy: parsing empties the list
        try:
            return super().invoke(ctx)
        except TyperException as error:
            _explain(error, words)
            raise
        except UserError as error:
            stop(str(error), code=2)
        except RunFailed as error:
            stop(str(error), code=1)
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and not OUT_OF_MEMORY.search(str(error)):
                raise
            stop(_describe_shortage(error), code=2)
        except BrokenPipeError:
            raise  # to `main`
        except OSError as error:
            stop(_describe_place(error), code=2)
        except KeyboardInterrupt as why:
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # ignore further Ctrl-C while exiting
            stop(str(why) or "Run the same command again to resume.", code=130)


def _describe_shortage(error: Exception) -> str:
    """How much memory there was too little of, and what to take less of."""
    reason = str(error).partition("\n")[0]
    allocation = name_allocation(reason)
    if allocation:
        reason = f"{allocation} at once, for parameters or a batch"
    return (
        f"Memory does not suffice: {reason}. Take less of what it is needed for: data.max_len, "
        f"data.limit_train, train.batch_size, model.d_model or model.d_head."
    )


def _describe_place(error: OSError) -> str:
    """What is wrong with a place, and what to do."""
    place = repr(error.filename) if error.filename else "while writing"
    remedy = "Free it"
    if isinstance(error, FileNotFoundError):
        remedy = "Make its folder"
    elif isinstance(error, IsADirectoryError):
        remedy = "Name a file in it"
    elif isinstance(error, PermissionError):
        remedy = "Get access to it"
    return f"{error.strerror or error}: {place}. {remedy}, or give another place."


def _explain(error: Any, words: list[str]) -> None:
    """Say what to write instead of these words of the command line, where Typer does not."""
    from attnexp.config.choose import option_as_setting
    from attnexp.config.options import did_you_mean

    if hasattr(error, "possibilities"):  # no such option, or no such command
        instead = option_as_setting(getattr(error, "option_name", ""), words)
        if instead:
            stop(instead, code=2)
    else:  # a wrong value, which pydantic describes, or a missing one, which its help does
        message = error.message.removeprefix("Value error, ")
        if " is not one of " in message:
            typed, *names = re.findall("'([^']*)'", message)
            message += did_you_mean(typed, names)
        if message.startswith("Got unexpected extra") and error.ctx.info_name == "predict":
            message += ". Quote a text, or give one text a line on stdin."
        error.message = message or error.param.help


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


def _version(asked: bool) -> None:
    if asked:
        from attnexp import __version__

        emit(f"attnexp {__version__}")
        raise typer.Exit


def _config_dir(folders: list[Path] | None) -> None:
    from attnexp.config import options

    options.own_dirs += folders or []


def _name_experiments(words: list[str] | None) -> list[str]:
    """Words in which a finished run is `experiment=` with its config. Raises `UserError` for the
    name of a setting alone."""
    named = []
    for word in words or []:
        if "=" not in word and not word.startswith("~"):
            from attnexp.config.choose import choices_by_key
            from attnexp.config.options import did_you_mean
            from attnexp.runs.manifest import NAME_OF_RUN, find_run

            if NAME_OF_RUN.fullmatch(word) or "/" in word:
                word = f"experiment={find_run(Path(word)) / 'config.json'}"
            elif word.replace(".", "").isidentifier():
                near = did_you_mean(f"{word}=", [f"{key}=" for key in choices_by_key()])
                if near:
                    raise UserError(f"'{word}' is not understood.{near}")
        named.append(word)
    return named


@app.callback()
def _options_of_all(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print no progress.")] = False,
) -> None:
    from attnexp.base.progress import console

    console.quiet = quiet


_settings = typer.Argument(
    metavar="OVERRIDES",
    help="Settings as key=value, or a finished run for its own.",
    autocompletion=completion.settings,
    callback=_name_experiments,
)
Overrides = Annotated[list[str] | None, _settings]
run_argument = typer.Argument(
    metavar="RUN_DIR",
    help="A finished run: its folder, or its id as attnexp runs lists it.",
    autocompletion=completion.runs,
)
RunDir = Annotated[Path, run_argument]
studies_argument = typer.Argument(
    metavar="DIR", help="Studies, runs, or folders with runs.", autocompletion=completion.studies
)
Folders = Annotated[list[Path], studies_argument]
_config_dirs = typer.Option(
    exists=True, callback=_config_dir, expose_value=False, help="Folder with options of your own."
)
ConfigDir = Annotated[list[Path] | None, _config_dirs]
points = typer.Option(metavar="POINTS", min=0.001, max=100, help="Smallest gain that matters.")
_trust_code = typer.Option("--trust-code", help="Run the code of others that a stored run names.")
TrustCode = Annotated[bool, _trust_code]
AnyCode = Annotated[bool, typer.Option("--any-code", help="Take results or models of older code.")]
Until = Literal["decided"] | None


def _leave_stdout(context: typer.Context, as_json: bool) -> bool:
    """Leave stdout to the document: what else is printed, by user code too, goes to stderr."""
    global _stdout
    if as_json:
        _stdout, sys.stdout = sys.stdout, sys.stderr
        context.call_on_close(_take_stdout_back)
    return as_json


def _take_stdout_back() -> None:
    global _stdout
    sys.stdout, _stdout = _stdout or sys.stdout, None


_stdout: TextIO | None = None
_as_json = typer.Option("--json", callback=_leave_stdout, help="Print one JSON document on stdout.")
AsJson = Annotated[bool, _as_json]


def main() -> None:
    """The console script: run the command that the process's arguments name, and exit."""
    # Waiting threads of GNU OpenMP spin for milliseconds, which slows runs many times on shared
    # cores; a short spin costs little on idle ones. Read when torch is imported; the user's
    # OMP_WAIT_POLICY takes precedence.
    os.environ.setdefault("GOMP_SPINCOUNT", "20000")
    os.environ.pop("MPLBACKEND", None)  # pictures need none, and an unknown one is an error
    if os.environ.get("COLUMNS") == "0":  # as some tools that start others set it
        del os.environ["COLUMNS"]
    _open_closed_streams()
    try:
        os.getcwd()
    except FileNotFoundError:  # at which the import of torch ends the process
        stop("The current folder was deleted. Go to another one.", code=2)
    # Nothing in the current folder is imported but the user's pieces; see `pieces.load`.
    os.environ["PYTHONSAFEPATH"] = "1"  # nor by worker processes, when they start
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # handled like Ctrl-C
    if hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.default_int_handler)  # unless started by nohup
    if isinstance(sys.stdout, io.TextIOWrapper):  # a terminal without "±" shows "?" instead
        sys.stdout.reconfigure(errors="replace")
    if os.environ.get("_ATTNEXP_COMPLETE") == "complete_bash":
        completion.join_words_of_bash(os.environ)
    try:
        try:
            app(prog_name="attnexp")
        finally:
            sys.stdout.flush()
            signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is done, but for Python's exit
    except (BrokenPipeError, SystemExit) as ending:
        # `| head` has closed the pipe, of which Typer makes a SystemExit: all is well
        if not isinstance(ending.__context__ or ending, BrokenPipeError):
            raise
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for Python's last flush
        raise SystemExit(0) from None


def _open_closed_streams() -> None:
    """Put the null device in place of a stdin, stdout or stderr that was closed, as by `>&-`: else
    the next file that is opened would take its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # until the process ends


def stop(message: str, code: int) -> NoReturn:
    """Print an error message and exit."""
    from attnexp.base.progress import console

    console.quiet = False
    style = "bold yellow" if code == 130 else "bold red"
    console.print("Interrupted:" if code == 130 else "Error:", style=style, end=" ")
    console.print(message, soft_wrap=True)
    raise SystemExit(code)


def console() -> "Console":
    """Console for tables on stdout; 80 columns wide where it is no terminal."""
    from attnexp.base.progress import PlainConsole

    return PlainConsole(width=None if sys.stdout.isatty() else 80)


def emit(result: str | dict[str, Any]) -> None:
    """Print a text, or a JSON document, on stdout."""
    text = result if isinstance(result, str) else json.dumps(result, indent=1)
    stdout = _stdout or sys.stdout
    stdout.write(f"{escape_controls(text)}\n")
