"""Commands about settings, data and claims."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from attnexp.base.errors import UserError
from attnexp.cli.app import AsJson, Overrides, app, console, emit, stop

if TYPE_CHECKING:
    from attnexp.config.schema import DataConfig


@app.command()
def config(
    overrides: Overrides = None,
    groups: Annotated[bool, typer.Option("--groups", help="List all there is to choose.")] = False,
    cost: Annotated[bool, typer.Option("--cost", help="Count parameters and FLOPs.")] = False,
    as_json: AsJson = False,
) -> None:
    """Print the settings of a run, the available options, or the cost of a model.

    Example: attnexp config experiment=blog_pe model.heads=4

    Example: attnexp config --cost model=lstm
    """
    from attnexp.config import options
    from attnexp.config.compose import compose
    from attnexp.config.schema import meanings, to_dict

    if groups and (cost or overrides):
        raise UserError("--groups lists all options. Use it without others.")
    shown: dict[str, Any]
    if groups:
        shown = options.describe()
        lines = [
            "\n".join([group, *(f"  {one:20}{about}" for one, about in listed.items())])
            for group, listed in shown.items()
        ]
    elif cost:
        from attnexp.model.classifier import cost_of

        shown = cost_of(compose(overrides or []))
        lines = [f"{name:20s}{value:,}" for name, value in shown.items()]
    else:
        config = compose(overrides or [])
        shown = to_dict(config)
        lines = [*_with_meanings(shown, meanings(config))]
    emit(shown if as_json else "\n".join(lines))


def _with_meanings(tree: dict[str, Any], meanings: dict[str, str]) -> Iterator[str]:
    """Settings as YAML, a line each, with the meaning of each key beside it."""
    import yaml

    path: list[str] = []
    for line in yaml.safe_dump(tree, sort_keys=False, width=1000).splitlines():
        depth = len(line) - len(line.lstrip())
        path[depth // 2 :] = [line.strip().partition(":")[0]]
        about = meanings.get(".".join(path))
        yield f"{line:40}  # {about}" if about else line


@app.command()
def data(
    overrides: Annotated[list[str] | None, typer.Argument(metavar="prepare OVERRIDES")] = None,
    as_json: AsJson = False,
) -> None:
    """Print where each data set would be read from; `prepare` reads those of OVERRIDES.

    `prepare` prints classes, problems, and the first text as the model reads it.

    Example: attnexp data

    Example: attnexp data prepare data.path=aclImdb_v1.tar.gz

    Example: attnexp data prepare data=trec,subj
    """
    import yaml

    from attnexp.config.compose import compose
    from attnexp.config.schema import PRESETS
    from attnexp.config.words import expand
    from attnexp.data.load import locate

    words = overrides or []
    prepare = words[:1] == ["prepare"]
    named = [] if prepare else [f"data={','.join(['imdb', *PRESETS])}"]
    axes = [[word for _, word in axis] for axis in expand(words[prepare:] or named)]
    settings = [compose(one).data for one in itertools.product(*axes)]
    if prepare:
        shown: dict[str, Any] = {"sets": [_describe(one) for one in settings]}
        text = yaml.safe_dump(
            shown["sets"], sort_keys=False, default_flow_style=None, allow_unicode=True, width=79
        )
    else:
        places = {one.title: locate(one) for one in settings}
        shown = {name: f"{of}: {at}" if at else f"hub: {of}" for name, (at, of) in places.items()}
        text = "\n".join(f"{name:16s}{place}" for name, place in shown.items())
    emit(shown if as_json else text.rstrip("\n"))


def _describe(config: "DataConfig") -> dict[str, Any]:
    """Read and encode a data set, and say what is in it."""
    from attnexp.data import encode, text

    found = encode.load(config)
    parts = {"train": found.train, "test": found.test} | ({"val": found.val} if found.val else {})
    first, shift = found.train.ids[0], text.INDEX_FROM + 1
    return {
        "name": config.title,
        "source": found.source,
        "fingerprint": found.fingerprint,
        "classes": {
            name: {split: int((of.labels == label).sum()) for split, of in parts.items()}
            for label, name in enumerate(found.classes)
        },
        "problems": [f"{count:,} {what}" for what, count in found.quality.items()],
        "words": len(found.words),
        "full": f"{(found.train.ids != text.PAD).all(1).mean():.1%} of train fill data.max_len",
        "first": " ".join(
            found.words[i - shift] for i in first if 0 <= i - shift < len(found.words)
        ),
    }


@app.command()
def claims(
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="As C04.")] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Also those that read studies.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of studies.")] = Path("outputs/published"),
    as_json: AsJson = False,
) -> None:
    """Check the claims of the sources: print each claim, its measurement and a verdict.

    Example: attnexp claims

    Example: attnexp claims C04 C20
    """
    from attnexp.base.progress import track
    from attnexp.claims import table

    chosen = table.choose(ids or [], everything=everything)
    records = [
        table.check(claim, out) for claim in track(chosen, total=len(chosen), label="claims")
    ]
    if as_json:
        emit({"schema": 2, "claims": records})
    else:
        table.print_table(records, console())
    if refuted := [record["id"] for record in records if record["verdict"] == "refuted"]:
        stop(f"refuted: {', '.join(refuted)}", code=1)
