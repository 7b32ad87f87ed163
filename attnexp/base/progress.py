"""Progress for a waiting user, on stderr: plain lines, and on a terminal a live bar."""

from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType
from rich.progress import Progress, ProgressColumn, Task
from rich.segment import Segment
from rich.text import Text

from attnexp.base.errors import escape_controls

T = TypeVar("T")


class PlainConsole(Console):
    """Console that shows texts of others as they are: nothing in them is markup, and what a
    terminal would obey is escaped. A notebook gets plain lines, as a pipe does."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, force_jupyter=False, **options)

    @property
    def is_terminal(self) -> bool:
        """Whether a terminal shows it."""
        if self.stderr and not self.file.isatty():
            return False  # A notebook sets FORCE_COLOR, which rich would take for a terminal.
        return super().is_terminal

    def render(
        self, renderable: RenderableType, options: ConsoleOptions | None = None
    ) -> Iterator[Segment]:
        """The parts of which all output is made."""
        for part in super().render(renderable, options):
            yield part if part.control else part._replace(text=escape_controls(part.text))


console = PlainConsole(stderr=True)
"""Console of everything that is not a result."""


def note(line: str) -> None:
    """Print a plain line for the user, as it is: no wrapping when piped."""
    console.print(line, soft_wrap=True)


class _Rate(ProgressColumn):
    """Items a second."""

    def render(self, task: Task) -> Text:
        return Text(f"{task.speed:,.0f}/s" if task.speed else "")


def track(items: Sequence[T], label: str) -> Iterator[T]:
    """Yield the items; on a terminal, show the share done, the rate and the time left."""
    if not console.is_terminal:
        yield from items
        return
    columns = (*Progress.get_default_columns(), _Rate())
    with Progress(*columns, console=console, transient=True) as bar:
        yield from bar.track(items, description=label)


def duration(seconds: float) -> str:
    """`45 s`, `12 min`, `3 h 20 min`."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min"
