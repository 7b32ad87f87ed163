"""`attnexp runs`: what is finished, running or broken."""

from pathlib import Path
from typing import Annotated

from attnexp.cli.app import AsJson, app, console, emit, stop, studies_argument


@app.command()
def runs(
    folder: Annotated[Path, studies_argument] = Path("outputs"), as_json: AsJson = False
) -> None:
    """List runs, finished, running, stopped or broken: data, seed, settings, accuracy.

    Accuracy is that of the last epoch, or of the one that held-out data chose."""
    from attnexp.report.formats import to_records
    from attnexp.report.listing import list_runs, tabulate_runs
    from attnexp.report.table import print_table

    listed = list_runs(folder)
    if as_json:
        emit({"runs": to_records(listed)})
    else:
        print_table(tabulate_runs(listed), console())
    reasons = listed["reason"].dropna()
    if len(reasons):
        stop("\n".join(reasons), code=1)
