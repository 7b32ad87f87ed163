"""`attnexp probe`."""

from typing import Annotated

import typer

from attnexp.cli.app import AnyCode, AsJson, Folders, TrustCode, app, console, emit


@app.command()
def probe(
    folders: Folders,
    do: Annotated[str, typer.Option(metavar="NAME,...", help="As shuffle=3 (default: all).")] = "",
    limit: Annotated[int | None, typer.Option(metavar="N", min=1, help="Texts; else all.")] = None,
    trust_code: TrustCode = False,
    any_code: AnyCode = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate finished runs under interventions: what does a trained model use?

    Results are kept in the folders of the runs; DIR may be a published study, too.

    Example: attnexp probe outputs/blog --do shuffle,no_positions,no_head --limit 2000
    """
    from attnexp.inspect.effects import estimate_effects, note_on_heads
    from attnexp.inspect.probe import probe_studies
    from attnexp.report.difference_tables import tabulate_effects
    from attnexp.report.formats import SCHEMA, to_records
    from attnexp.report.print_table import print_table

    words = do.split(",") if do else []
    rows, notes = probe_studies(
        folders, words, limit=limit, trust_code=trust_code, any_code=any_code
    )
    effects = estimate_effects(rows)
    notes += note_on_heads(effects)
    if as_json:
        emit({"schema": SCHEMA, "effects": to_records(effects), "notes": notes})
        return
    for _, effects_of_variant in effects.groupby(["variant", "data", "num_texts"], sort=False):
        print_table(tabulate_effects(effects_of_variant), console())
    emit("\n".join(notes))
