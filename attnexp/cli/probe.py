"""`attnexp probe`."""

from typing import Annotated

import typer

from attnexp.cli.app import AnyCode, AsJson, Folders, TrustCode, app
from attnexp.cli.report import Format, Table, print_answer


@app.command()
def probe(
    folders: Folders,
    do: Annotated[str, typer.Option(metavar="NAME,...", help="As shuffle=3 (default: all).")] = "",
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Texts; else all.")] = None,
    table: Table = None,
    format: Format = "table",
    trust_code: TrustCode = False,
    any_code: AnyCode = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate finished runs under interventions: what does a trained model use?

    Results are kept in the folders of the runs; DIR may be a published study, too.

    Example: attnexp probe outputs/blog --do shuffle,no_positions,no_head --limit 2000"""
    from attnexp.analysis.answer import compare
    from attnexp.analysis.metrics import ACCURACY
    from attnexp.inspect.probe import probe_studies

    words = do.split(",") if do else []
    groups = probe_studies(folders, words, limit=limit, trust_code=trust_code, any_code=any_code)
    print_answer(compare(groups, ACCURACY), table, "json" if as_json else format)
