"""`attnexp runs`: what is finished, running or broken."""

from pathlib import Path
from typing import Annotated

import typer

from attnexp.cli.app import AsJson, app, console, emit, stop, studies_argument


@app.command()
def runs(
    folder: Annotated[Path, studies_argument] = Path("outputs"),
    forget: Annotated[
        str | None, typer.Option(metavar="ID", help="Take a run out of its study; files stay.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List runs, finished, running, stopped, failed or broken: data, seed, settings, accuracy.

    Accuracy is that of the last epoch, or of the one that held-out data chose.
    """
    from attnexp.base import progress
    from attnexp.report.formats import to_records
    from attnexp.report.listing import list_runs, tabulate_runs
    from attnexp.report.print_table import print_table
    from attnexp.runs import manifest

    if forget:
        study = manifest.forget_run(folder, forget)
        progress.note(f"{study} has {forget} no more. The run's files stay.")
    listed = list_runs(folder)
    if as_json:
        emit({"runs": to_records(listed)})
    else:
        print_table(tabulate_runs(listed), console())
    broken = listed[listed["state"] == "broken"].fillna("")
    if len(broken):
        lines = broken["folder"] + ": " + broken["reason"] + " " + broken["again"]
        stop("\n".join(["Some runs cannot be read.", *lines]), code=1)
