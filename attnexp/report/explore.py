"""A page on this machine on which to type a text and watch models read it, side by side."""

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from attnexp.base.errors import UserError, require
from attnexp.base.progress import note
from attnexp.inspect import insight
from attnexp.inspect.insight import Attention, Reading
from attnexp.runs import store
from attnexp.runs.identity import default_label, replicate
from attnexp.runs.result import Run

if TYPE_CHECKING:
    from PIL import Image

HOST = "127.0.0.1"
"""Address that only this machine reaches."""


def serve(run_dirs: Sequence[Path], port: int, *, trust_code: bool = False) -> None:
    """Show the page for finished runs, side by side, until Ctrl-C.

    Raises `UserError` where a run cannot read text, the port is taken or NiceGUI is missing.
    """
    require("nicegui", "attnexp explore", "explore")
    from nicegui import app, ui
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    runs = [Run(path=path, result=store.load(path)) for path in run_dirs]
    readers = [insight.reader(run, trust_code=trust_code) for run in runs]
    num_layers = max(len(read(insight.SENTENCE).layers) for read in readers)

    def page() -> None:
        box = ui.input("Text", value=insight.SENTENCE, on_change=lambda: show())
        box.props("debounce=300 outlined").classes("w-full")
        layers = {n: f"layer {n}" for n in range(1, num_layers + 1)}
        layer = ui.toggle(layers, value=1, on_change=lambda: show())
        layer.set_visibility(num_layers > 1)
        with ui.row(wrap=False).classes("w-full"):
            columns = [ui.column().classes("col") for _ in runs]
        with ui.dialog() as dialog, ui.card().style("max-width: none"):
            opened = ui.html(sanitize=False)

        def open_head(reading: Reading, at: int, head: int) -> None:
            opened.content = head_map(reading, at, head)
            dialog.open()

        def show_run(run: Run, read: Callable[[str], Reading]) -> None:
            config = run.result.config
            ui.label(f"{default_label(config)}, seed {replicate(config)}").classes("text-h6")
            reading = read(box.value)
            at = min(layer.value, len(reading.layers))
            probability = reading.probabilities.get(reading.label or "", 0)
            said = f"{reading.label}, with probability {probability:.4f}"
            ui.label(said if reading.label else "None of these words is known.")
            ui.html(coloured(reading, at), sanitize=False)
            with ui.row():
                for head in range(1, 1 + (len(reading.layers[at - 1].weights) if at else 0)):
                    image = ui.image(picture(reading.attention(at, head))).tooltip(f"head {head}")
                    image.style("width: 7rem; image-rendering: pixelated; cursor: pointer")
                    image.on("click", lambda _, of=(reading, at, head): open_head(*of))

        def show() -> None:
            for run, read, column in zip(runs, readers, columns, strict=True):
                column.clear()
                with column:
                    show_run(run, read)

        show()

    with suppress(KeyboardInterrupt):
        try:
            socket.create_server((HOST, port)).close()  # the server itself would only log it
        except OSError as error:
            raise UserError(f"Port {port}: {error.strerror}. Give another: --port.") from error
        # no page under another name that leads here may ask
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
        ui.page("/", title="attnexp explore")(page)
        note(f"http://{HOST}:{port} (Ctrl-C ends it)")
        ui.run(host=HOST, port=port, reload=False, show=False, show_welcome_message=False)


def coloured(reading: Reading, layer: int) -> str:
    """Tokens as HTML: the more they count, the darker."""
    depths = reading.shades(layer) if reading.shades().size else np.zeros(len(reading.tokens))
    style = "color: black; padding: 0 .3em; background: "
    return " ".join(
        f'<bdi style="{style}{insight.colour(depth)}">{escape(token)}</bdi>'
        for token, depth in zip(reading.marked, depths, strict=True)
    )


def picture(seen: Attention) -> "Image.Image":
    """Heat map of a head, a pixel a weight."""
    from PIL import Image

    depths = insight.shade(seen.mean, seen.num_keys)[..., None]
    return Image.fromarray((255 + depths * (np.array(insight.FULL) - 255)).astype(np.uint8))


def head_map(reading: Reading, layer: int, head: int) -> str:
    """The same as HTML with its words: queries to the left, keys above."""
    seen = reading.attention(layer, head)
    depths, tokens = insight.shade(seen.mean, seen.num_keys), [*map(escape, reading.marked)]
    above = "".join(f'<th style="writing-mode: vertical-rl">{token}</th>' for token in tokens)
    rows = "".join(
        f"<tr><th>{token}</th>"
        + "".join(f'<td style="background: {insight.colour(depth)}">&ensp;</td>' for depth in row)
        for token, row in zip(tokens, depths, strict=True)
    )
    return f"<h6>Layer {layer}, head {head}</h6><table><tr><th></th>{above}</tr>{rows}</table>"
