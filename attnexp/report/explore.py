"""A page on this machine on which to type a text, move its words and watch models read it."""

import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnexp.analysis.variants import by_variant
from attnexp.base import modules
from attnexp.base.errors import UserError
from attnexp.base.progress import note
from attnexp.inspect import insight
from attnexp.inspect.insight import Insight
from attnexp.report import html
from attnexp.report.inside import show_inside
from attnexp.runs import store
from attnexp.runs.result import Run

HOST = "127.0.0.1"
"""Address that only this machine reaches."""


class OwnPageOnly:
    """ASGI middleware that refuses requests under another host name, or from another page.

    A page of anyone's in the same browser could otherwise reach this one, by its address or by a
    name of its own that leads here.
    """

    def __init__(self, app: Any, port: int) -> None:
        self.app = app
        self.hosts = {f"{name}:{port}" for name in (HOST, "localhost")}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Pass the request on, or answer 403."""
        from starlette.responses import PlainTextResponse

        headers = {name: value.decode("latin-1") for name, value in scope.get("headers", ())}
        host, origin = headers.get(b"host"), headers.get(b"origin")
        is_own = host in self.hosts and origin in (None, f"http://{host}")
        answer = self.app if is_own or scope["type"] == "lifespan" else PlainTextResponse("", 403)
        await answer(scope, receive, send)


def serve(run_dirs: Sequence[Path], port: int, *, trust_code: bool = False) -> None:
    """Show the page for finished runs, side by side, until Ctrl-C.

    Raises `UserError` where a run cannot read text, the port is taken or NiceGUI is missing.
    """
    modules.require("nicegui", "attnexp explore", "explore")
    from nicegui import app, ui

    runs = [Run(path=path, result=store.load(path)) for path in run_dirs]
    models = [
        (run, label, insight.reader(run, trust_code=trust_code))
        for label, group in by_variant(runs).items()
        for run in group
    ]

    def shown(text: str) -> list[str]:
        """HTML of each model."""
        return [
            html.render("inside.html", prefix=f"m{i}", inside=show_inside(run, label, look))
            for i, (run, label, read) in enumerate(models)
            for look in [Insight(reading=read(text))]
        ]

    def page() -> None:
        ui.add_head_html(html.render("style.html"))
        box = ui.input("Text", value=insight.SENTENCE, on_change=lambda: show())
        box.props("debounce=300 outlined").classes("w-full")
        ui.label("Click a word to have it change places with the next.")
        row = ui.row()
        with ui.element("section").classes("grid w-full"):
            columns = [ui.html(sanitize=False) for _ in models]

        def swap(words: list[str], place: int) -> None:
            words[place : place + 2] = reversed(words[place : place + 2])
            box.value = " ".join(words)

        def show() -> None:
            words = box.value.split()
            row.clear()
            with row:
                for place, word in enumerate(words):
                    button = ui.button(word, on_click=lambda _, place=place: swap(words, place))
                    button.props("flat dense no-caps")
            for column, content in zip(columns, shown(box.value), strict=True):
                column.content = content

        show()

    app.add_middleware(OwnPageOnly, port=port)
    ui.page("/", title="attnexp explore")(page)
    _expect_free(port)
    note(f"http://{HOST}:{port} (Ctrl-C ends it)")
    with suppress(KeyboardInterrupt):
        ui.run(
            host=HOST,
            port=port,
            dark=None,
            reload=False,
            show=False,
            show_welcome_message=False,
            uvicorn_logging_level="warning",
        )


def _expect_free(port: int) -> None:
    """Raise `UserError` if the port is taken, which the server itself would only log."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise UserError(f"Port {port}: {error.strerror}. Give another with --port.") from error
