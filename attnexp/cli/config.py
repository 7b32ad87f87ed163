"""`attnexp config`."""

from typing import Annotated

import typer

from attnexp.cli.app import AsJson, ConfigDir, Overrides, app, console, emit, emit_tree


@app.command()
def config(
    overrides: Overrides = None,
    config_dir: ConfigDir = None,
    groups: Annotated[bool, typer.Option("--groups", help="List all there is to choose.")] = False,
    cost: Annotated[bool, typer.Option("--cost", help="Count parameters and FLOPs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the settings of a run, the available options, or the cost of a model.

    Example: attnexp config experiment=blog_pe model.heads=4 --cost"""
    from attnexp.config import options
    from attnexp.config.schema import meanings, to_dict
    from attnexp.config.settings import flatten

    if groups:
        emit_tree(options.describe(), as_json)
        return
    from attnexp.config.compose import compose  # and with it torch

    config = compose(overrides or [])
    settings = to_dict(config)
    if cost:
        from attnexp.network.build import build_model
        from attnexp.network.cost import cost_of

        emit_tree(cost_of(build_model(config), config.data.max_len), as_json)
    elif as_json:
        emit(settings)
    else:
        from rich.table import Table

        from attnexp.runs.labels import as_word

        meaning_of = meanings(config)
        table = Table.grid(padding=(0, 2, 0, 0))
        table.add_column(no_wrap=True)
        for key, value in flatten(settings).items():
            table.add_row(as_word(key, value), meaning_of.get(key.removesuffix(".kind")))
        console().print(table)
