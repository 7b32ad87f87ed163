"""`attnexp data`."""

import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from attnexp.cli.app import AsJson, ConfigDir, app, emit_tree

if TYPE_CHECKING:
    from attnexp.config.schema import DataConfig
    from attnexp.config.settings import Tree


@app.command()
def data(
    args: Annotated[list[str] | None, typer.Argument(metavar="[prepare] [FILE] OVERRIDES")] = None,
    config_dir: ConfigDir = None,
    as_json: AsJson = False,
) -> None:
    """Print where data sets are read from; with `prepare`, read and describe them.

    After `prepare`, FILE stands for data=files data.path=FILE.

    Example: attnexp data prepare data=trec,subj"""
    from attnexp.config.compose import compose
    from attnexp.config.schema import PRESETS
    from attnexp.config.settings import expand

    words = args or [f"data={','.join(['imdb', *PRESETS])}"]
    prepare = words[0] == "prepare"
    if prepare:
        words = _name_file(words[1:])
    axes = [choices for _, choices in expand(words)]  # data=trec,subj is two data sets
    configs = [compose(choice).data for choice in itertools.product(*axes)]
    shown = {"sets": [_describe(config) for config in configs]} if prepare else _locate(configs)
    emit_tree(shown, as_json)


def _name_file(words: list[str]) -> list[str]:
    """The words, the first of which may be a file: for that data=files data.path=FILE."""
    from hydra.core.override_parser.types import Quote, QuotedString

    if words and ("=" not in words[0] or Path(words[0]).exists()):  # A name may have a =.
        path = QuotedString(words[0], Quote.double).with_quotes()
        return ["data=files", f"data.path={path}", *words[1:]]
    return words


def _locate(configs: "list[DataConfig]") -> "Tree":
    """Where data sets are read from, by title, or by path if another one has the title."""
    from attnexp.data.corpus import locate_source

    places: Tree = {}
    for config in configs:
        place = str(locate_source(config))
        is_taken = places.get(config.title, place) != place
        places[(config.path or place) if is_taken else config.title] = place
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
