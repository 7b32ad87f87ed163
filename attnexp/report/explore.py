"""A page on this machine on which to type a text and watch models read it, side by side."""

import socket
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from pathlib import Path

import numpy as np
from PIL import Image

from attnexp.base import SENTENCE
from attnexp.base.errors import UserError, require
from attnexp.base.progress import note
from attnexp.inspect.insight import Attention, Reading
from attnexp.report.page import load_readers
from attnexp.report.reading import FULL, colour, describe_colours, shade

HOST = "127.0.0.1"  # which only this machine reaches


def serve(
    run_dirs: Sequence[Path], port: int, *, trust_code: bool = False, any_code: bool = False
) -> None:
    """Show the page for finished runs, side by side, until Ctrl-C. Raises `UserError` where a run
    cannot read text, the port is taken or NiceGUI is missing."""
    require("nicegui", "attnexp explore", "explore")
    from nicegui import app, ui
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    readers = load_readers(run_dirs, trust_code=trust_code, any_code=any_code)

    def page() -> None:
        box = ui.input("Text", value=SENTENCE, on_change=lambda: show())
        box.props("debounce=300 outlined").classes("w-full")
        columns = ui.row(wrap=False).classes("w-full")

        def show() -> None:
            columns.clear()
            for name, read in readers:
                with columns, ui.column().classes("col"):
                    ui.label(name).classes("text-h6")
                    show_reading(read(box.value))

        show()

    def show_reading(reading: Reading) -> None:
        probability = max(reading.probabilities.values())
        ui.label(f"{reading.label or 'No known word'}, with probability {probability:.4f}")
        ui.html(coloured(reading), sanitize=False)
        ui.label(describe_attention(reading))
        for layer, attention in enumerate(reading.layers, start=1):
            with ui.row():
                num_heads = len(attention.weights)
                for head in range(1, num_heads + 1):
                    of_head = reading.attention(layer, head)
                    show_head(of_head, f"layer {layer}, head {head}")

    def show_head(attention: Attention, name: str) -> None:
        with ui.column().classes("gap-0").style("width: 7rem"):
            ui.label(name)
            image = ui.image(picture(attention))
            image.style("width: 7rem; image-rendering: pixelated")
            image.tooltip("rows are queries, columns keys")
            colours = describe_colours(attention.mean, attention)
            ui.label(colours).classes("text-caption")

    with suppress(KeyboardInterrupt):
        check_port(port)
        # no page under another name that leads here may ask
        app.add_middleware(TrustedHostMiddleware, allowed_hosts=[HOST, "localhost"])
        ui.page("/", title="attnexp explore")(page)
        note(f"http://{HOST}:{port} (Ctrl-C ends it)")
        ui.run(host=HOST, port=port, reload=False, show=False, show_welcome_message=False)


def check_port(port: int) -> None:
    """Raise `UserError` for a port that is taken, which the server itself would only log."""
    try:
        socket.create_server((HOST, port)).close()
    except OSError as error:
        raise UserError(f"Port {port}: {error.strerror}. Give another: --port.") from error


def describe_attention(reading: Reading) -> str:
    """The meaning of the colours of tokens, which are those of the first layer."""
    if not reading.layers:
        return "This model has no attention to show."
    attention = reading.attention()
    return describe_colours(attention.received, attention)


def coloured(reading: Reading) -> str:
    """Tokens as HTML: the more attention they receive in the first layer, the darker."""
    depths = np.zeros(len(reading.tokens))
    if reading.layers:
        depths = shade(reading.attention().received)
    spans = []
    for token, depth in zip(reading.marked, depths, strict=True):
        style = f"color: black; padding: 0 .3em; background: {colour(depth)}"
        spans.append(f'<bdi style="{style}">{escape(token)}</bdi>')
    return " ".join(spans)


def picture(attention: Attention) -> Image.Image:
    """Heat map of a head, a pixel a weight; the largest weight has the full colour."""
    depths = shade(attention.mean)[..., None]
    full = np.array(FULL)
    pixels = 255 + depths * (full - 255)
    return Image.fromarray(pixels.astype(np.uint8))
