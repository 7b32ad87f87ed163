"""Tables in a terminal: numbers to the right and never broken, the verdict coloured."""

from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from attnexp.base.errors import escape_name
from attnexp.report.table import CONTEXT, Table

STYLES = {"helps": "green", "hurts": "red", "equivalent": "cyan"}  # by the verdict's first word
TEXTS = {*CONTEXT, "variant", "difference", "verdict", "class", "run", "state", "settings"}
TEXTS |= {"data set"}


def print_table(table: Table, console: Console) -> None:
    """Print a table of texts."""
    cells = table.cells
    shown = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=0)
    for name in cells:
        is_text = name in TEXTS
        side = "left" if is_text else "right"
        words = " ".join([name, *map(str, cells[name])]).split()
        shown.add_column(
            escape_name(name),
            justify=side,
            no_wrap=not is_text,
            overflow="fold",
            min_width=min(max(map(cell_len, words)), console.width // 4),
        )
    for row in cells.to_numpy():
        texts = [escape_name(str(cell)) for cell in row]
        shown.add_row(*[Text(text, STYLES.get(text.split(" ")[0], "")) for text in texts])
    console.print(table.title, shown, "", sep="\n")
