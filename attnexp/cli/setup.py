"""Commands about settings and data."""

import itertools
from collections.abc import Mapping
from pathlib import Path
from textwrap import TextWrapper
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnexp.base.errors import UserError
from attnexp.cli.app import AsJson, ConfigDir, Overrides, app, console, emit

if TYPE_CHECKING:
    from attnexp.config.schema import DataConfig


@app.command()
def config(
    overrides: Overrides = None,
    config_dir: ConfigDir = None,
    groups: Annotated[bool, typer.Option("--groups", help="List all there is to choose.")] = False,
    cost: Annotated[bool, typer.Option("--cost", help="Count parameters and FLOPs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the settings of a run, the available options, or the cost of a model.

    Example: attnexp config experiment=blog_pe model.heads=4 --cost
    """
    from attnexp.config import options
    from attnexp.config.compose import compose
    from attnexp.config.schema import meanings, to_dict

    if groups and (cost or overrides):
        raise UserError("--groups lists all options. Use it without others.")
    if groups:
        _emit_tree(options.describe(), as_json)
        return
    config = compose(overrides or [])
    if cost:
        from attnexp.network.build import build_model
        from attnexp.network.cost import cost_of

        _emit_tree(cost_of(build_model(config), config.data.max_len), as_json)
    else:
        _emit_tree(to_dict(config), as_json, meanings(config))


def _emit_tree(
    tree: dict[str, Any], as_json: bool, meanings: Mapping[str, str] | None = None
) -> None:
    """Print a tree as JSON, or as YAML with the meaning of each key beside it. Lines that are wider
    than the terminal are wrapped within their column."""
    import yaml

    if as_json:
        emit(tree)
        return
    wrapper = TextWrapper(console().width, break_long_words=False, break_on_hyphens=False)
    path: list[str] = []
    text = yaml.safe_dump(tree, sort_keys=False, allow_unicode=True, width=1000)
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        path[depth // 2 :] = [line.strip().partition(":")[0]]
        wrapper.subsequent_indent = " " * (depth + 4)
        meaning = (meanings or {}).get(".".join(path))
        if meaning:
            line = f"{line:40}  # {meaning}"
            wrapper.subsequent_indent = " " * 42 + "# "
        emit(wrapper.fill(line))


@app.command()
def data(
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="[prepare] [FILE] OVERRIDES")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print where data sets are read from; `prepare` reads those of OVERRIDES and describes them;
    after it, FILE stands for data=files data.path=FILE.

    Example: attnexp data prepare data=trec,subj
    """
    from attnexp.config.compose import compose
    from attnexp.config.schema import PRESETS
    from attnexp.config.words import expand
    from attnexp.data.sources import locate_source

    words = overrides or []
    prepare = words[:1] == ["prepare"]
    if prepare:
        words = words[1:]
        if words and Path(words[0]).exists():
            words[:1] = ["data=files", f"data.path={words[0]}"]
    elif not words:
        words = [f"data={','.join(['imdb', *PRESETS])}"]
    configs = [compose(point).data for point in itertools.product(*expand(words))]
    if prepare:
        shown: dict[str, Any] = {"sets": [_describe(config) for config in configs]}
    else:
        shown = {config.title: str(locate_source(config)) for config in configs}
    _emit_tree(shown, as_json)


def _describe(config: "DataConfig") -> dict[str, Any]:
    """Read and encode a data set, and say what is in it."""
    from attnexp.data import encode, text

    dataset = encode.load_dataset(config)
    splits = {"train": dataset.train, "test": dataset.test}
    if dataset.val:
        splits["val"] = dataset.val
    classes: dict[str, dict[str, int]] = {}
    for label, name in enumerate(dataset.classes):
        classes[name] = {split: int((part.labels == label).sum()) for split, part in splits.items()}
    is_full = (dataset.train.ids != text.PAD).all(1)
    return {
        "name": config.title,
        "source": dataset.source,
        "read": dataset.files,
        "fingerprint": dataset.fingerprint,
        "classes": classes,
        "problems": [f"{count:,} {problem}" for problem, count in dataset.quality.items()],
        "full": f"{is_full.mean():.1%} of train fill data.max_len",
        "first": dataset.read(dataset.train.ids[0]),
    }
