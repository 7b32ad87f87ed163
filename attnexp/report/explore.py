"""A page on this machine on which to type a text, move its words and watch models read it."""

import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from attnexp.analysis.variants import by_variant
from attnexp.base.errors import UserError, require
from attnexp.base.progress import note
from attnexp.inspect import insight
from attnexp.inspect.insight import Insight, Reading
from attnexp.report import html
from attnexp.report.inside import WHY, attention_map, name_of_run, show_inside
from attnexp.runs import manifest, store
from attnexp.runs.identity import default_label
from attnexp.runs.result import Run

HOST = "127.0.0.1"
"""Address that only this machine reaches."""

HEAD = """(event) => {
    const head = event.target.closest("[data-head]");
    if (head) emit(head.dataset.head);
}"""
"""JavaScript that passes on the number of the head that was clicked, and no other click."""


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
    require("nicegui", "attnexp explore", "explore")
    from nicegui import app, ui

    runs = [
        Run(path=path, result=store.load(path), label=manifest.label_beside(path))
        for path in run_dirs
    ]
    models = [
        (
            run,
            min(label, default_label(run.result.config), key=len),
            insight.reader(run, trust_code=trust_code),
        )
        for label, group in by_variant(runs).items()
        for run in group
    ]
    names = [name_of_run(run, label) for run, label, _ in models]
    num_layers = max(len(read(insight.SENTENCE).layers) for _, _, read in models)

    def page() -> None:
        readings = list[Reading]()
        ui.add_head_html(html.render("style.html"))
        with ui.element("div"):
            ui.label("attnexp explore").classes("kicker")
            with ui.element("h1").style("font-size: 1.5rem"):
                ui.label(" and ".join(names))
        box = ui.input("Text", value=insight.SENTENCE, on_change=lambda: show())
        box.props("debounce=300 outlined").classes("w-full")
        ui.label("Click a word to have it change places with the next.")
        row = ui.row()
        with ui.row().classes("items-center"):
            ui.label("Tokens coloured by")
            why = ui.toggle([*WHY], value="attention", on_change=lambda: show()).props("no-caps")
        with ui.row().classes("items-center") as choice:
            ui.label("Attention of")
            numbers = range(1, num_layers + 1)
            layer = ui.toggle({n: f"layer {n}" for n in numbers}, value=1, on_change=lambda: show())
            layer.props("no-caps")
        choice.set_visibility(num_layers > 1)
        with ui.element("section").classes("grid w-full"):
            columns = [ui.html(sanitize=False) for _ in models]
        with ui.dialog() as dialog, ui.card().classes("opened"):
            opened = ui.html(sanitize=False).classes("w-full")

        def layer_of(reading: Reading) -> int:
            """The layer that was chosen, or the last of a model with fewer."""
            chosen: int = layer.value
            return min(chosen, len(reading.layers) or 1)

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
            readings.clear()
            for i, (run, label, read) in enumerate(models):
                look = _look(read, box.value, why.value)
                assert look.reading is not None
                readings.append(look.reading)
                inside = show_inside(run, label, look, layer_of(look.reading))
                columns[i].content = html.render(
                    "inside.html", prefix=f"m{i}", inside=inside, why=WHY[why.value], opens=True
                )

        def open_head(model: int, head: int) -> None:
            figure = attention_map(readings[model], layer_of(readings[model]), head)
            opened.content = html.render(
                "opened.html", prefix="o", model=names[model], figure=figure
            )
            dialog.open()

        for i, column in enumerate(columns):
            column.on("click", lambda event, i=i: open_head(i, int(event.args)), js_handler=HEAD)
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


def _look(read: Callable[..., Reading], text: str, why: str) -> Insight:
    """What a model reads; `missing` says so where it has no relevance of that kind."""
    try:
        return Insight(reading=read(text, why))
    except UserError as error:
        return Insight(reading=read(text), missing=[str(error)])


def _expect_free(port: int) -> None:
    """Raise `UserError` if the port is taken, which the server itself would only log."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError as error:
            raise UserError(f"Port {port}: {error.strerror}. Give another with --port.") from error
