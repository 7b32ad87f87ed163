"""Commands about settings and data."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnexp.cli.app import AsJson, ConfigDir, Overrides, app, console, emit

if TYPE_CHECKING:
    from attnexp.config.options import Tree
    from attnexp.config.schema import DataConfig, RunConfig


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
    from attnexp.config.schema import to_dict

    if groups:
        _emit_tree(options.describe(), as_json)
        return
    from attnexp.config.compose import compose  # and with it torch

    config = compose(overrides or [])
    if cost:
        from attnexp.network.build import build_model
        from attnexp.network.cost import cost_of

        _emit_tree(cost_of(build_model(config), config.data.max_len), as_json)
    elif as_json:
        emit(to_dict(config))
    else:
        _print_settings(config)


def _print_settings(config: "RunConfig") -> None:
    """Print every setting as one types it, with its meaning beside it."""
    from rich.table import Table

    from attnexp.config.options import flatten
    from attnexp.config.schema import meanings, to_dict
    from attnexp.runs.labels import as_word

    meaning_of = meanings(config)
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    for key, value in flatten(to_dict(config)).items():
        table.add_row(as_word(key, value), meaning_of.get(key.removesuffix(".kind")))
    console().print(table)


def _emit_tree(tree: "Tree", as_json: bool) -> None:
    import yaml

    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=56)
    emit(tree if as_json else text.rstrip())


@app.command()
def data(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[prepare] [FILE] OVERRIDES")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print where data sets are read from; with `prepare`, read and describe them.

    After `prepare`, FILE stands for data=files data.path=FILE.

    Example: attnexp data prepare data=trec,subj"""
    from hydra.core.override_parser.types import Quote, QuotedString

    from attnexp.config.compose import compose
    from attnexp.config.schema import PRESETS
    from attnexp.config.words import expand

    words = overrides or []
    prepare = words[:1] == ["prepare"]
    if prepare:
        words = words[1:]
        if words and ("=" not in words[0] or Path(words[0]).exists()):
            path = QuotedString(words[0], Quote.double).with_quotes()
            words[:1] = ["data=files", f"data.path={path}"]
    elif not words:
        words = [f"data={','.join(['imdb', *PRESETS])}"]
    axes = [axis for _, axis in expand(words)]
    configs = [compose(point).data for point in itertools.product(*axes)]
    shown = {"sets": [_describe(config) for config in configs]} if prepare else _locate(configs)
    _emit_tree(shown, as_json)


def _locate(configs: "list[DataConfig]") -> "Tree":
    """Where data sets are read from, by title, or by path if another one has the title."""
    from attnexp.data.corpus import locate_source

    places: Tree = {}
    for config in configs:
        place = str(locate_source(config))
        if places.setdefault(config.title, place) != place:
            places[config.path or place] = place
    return places


def _describe(config: "DataConfig") -> "Tree":
    """Read and encode a data set, and say what is in it."""
    from attnexp.data.encode import load_dataset
    from attnexp.data.text import to_text

    dataset = load_dataset(config)
    splits = {"train": dataset.train, "test": dataset.test}
    if dataset.val is not None:
        splits["val"] = dataset.val
    classes = {}
    for label, name in enumerate(dataset.classes):
        classes[name] = {split: int((part.labels == label).sum()) for split, part in splits.items()}
    return {
        "name": config.title,
        "source": dataset.source,
        "read": dataset.files,
        "fingerprint": dataset.fingerprint,
        "classes": classes,
        "problems": [f"{count:,} {problem}" for problem, count in dataset.quality.items()],
        "first": to_text(dataset.train.ids[0], dataset.words),
    }
