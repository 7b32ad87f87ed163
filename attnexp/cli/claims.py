"""`attnexp claims`."""

from pathlib import Path
from typing import Annotated

import typer

from attnexp.cli.app import AsJson, app, console, emit, stop


@app.command()
def claims(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="Such as C04.")] = None,
    everything: Annotated[bool, typer.Option("--all", help="Also those of studies.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of studies.")] = Path("outputs/published"),
    as_json: AsJson = False,
) -> None:
    """Check the claims of the sources: print each claim, its measurement and a verdict.

    Example: attnexp claims C04 C20"""
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from attnexp.base import progress
    from attnexp.claims.table import MISSING, check_claim, choose_claims

    claims_to_check = choose_claims(ids or [], everything=everything)
    records = []
    for number, claim in enumerate(claims_to_check, 1):  # some train small models, for minutes
        progress.note(f"Checking {claim.id}, {number} of {len(claims_to_check)}")
        records.append(check_claim(claim, out))
    if as_json:
        emit({"claims": records})
    else:
        columns = ("id", "from", "claim, and what was measured", "n", "verdict")
        table = Table(*columns, box=box.SIMPLE_HEAD)
        for record in records:
            text = Text.assemble(record["claim"], "\n", (record["measured"], "dim"))
            n = str(record["n"] or "")  # Not all claims are of seeds or data sets.
            table.add_row(record["id"], record["source"], text, n, record["verdict"])
        console().print(table)
    failures = [record for record in records if record["verdict"] in ("refuted", MISSING)]
    if failures:
        listed = [f"{record['id']} {record['verdict']}" for record in failures]
        stop("; ".join(listed), code=1)
