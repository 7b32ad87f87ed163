"""`attnexp explore`."""

from pathlib import Path
from typing import Annotated

import typer

from attnexp.cli.app import AnyCode, TrustCode, app, run_argument


@app.command()
def explore(
    run_dirs: Annotated[list[Path], run_argument],
    port: Annotated[int, typer.Option(min=1024, max=65535, help="Port to listen on.")] = 8080,
    trust_code: TrustCode = False,
    any_code: AnyCode = False,
) -> None:
    """Serve a page, on this machine only, to type a text and see every head of one or more models.

    Example: attnexp explore outputs/runs/RUN_WITHOUT outputs/runs/RUN_WITH
    """
    from attnexp.report.explore import serve

    serve(run_dirs, port, trust_code=trust_code, any_code=any_code)
