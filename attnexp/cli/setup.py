"""Commands about settings, data, claims and this machine."""

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
    groups: Annotated[
        bool, typer.Option("--groups", help="List the options of every group.")
    ] = False,
    cost: Annotated[
        bool,
        typer.Option(
            "--cost", help="Print the parameters and FLOPs of the model, for two classes."
        ),
    ] = False,
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
    if groups:
        shown: dict[str, Any] = options.describe()
        text = "\n".join(
            "\n".join([group, *(f"  {one:20}{about}" for one, about in listed.items())])
            for group, listed in shown.items()
        )
    elif cost:
        from attnexp.model.classifier import cost_of

        shown = cost_of(compose(overrides or []))
        text = "\n".join(f"{name:20s}{value:,}" for name, value in shown.items())
    else:
        config = compose(overrides or [])
        shown = to_dict(config)
        text = "\n".join(_with_meanings(shown, meanings(config)))
    emit(shown if as_json else text)


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
    overrides: Annotated[
        list[str] | None, typer.Argument(metavar="prepare OVERRIDES", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print where each data set would be read from; `prepare` reads those of OVERRIDES.

    `prepare` prints classes, problems, lengths and three texts of what it read.

    Example: attnexp data

    Example: attnexp data prepare data.path=aclImdb_v1.tar.gz

    Example: attnexp data prepare data=trec,subj
    """
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
        described = [_describe(one) for one in settings]
        emit({"sets": described} if as_json else "\n".join(map(_format_description, described)))
        return
    places = {one.title: locate(one) for one in settings}
    found = {
        name: f"{of}: {place}" if place else f"hub: {of}" for name, (place, of) in places.items()
    }
    emit(found if as_json else "\n".join(f"{name:16s}{place}" for name, place in found.items()))


def _describe(config: "DataConfig") -> dict[str, Any]:
    """Read and encode a data set, and say what is in it."""
    import numpy as np

    from attnexp.data import encode
    from attnexp.data.corpus import find_problems, some
    from attnexp.data.load import load_corpus

    corpus = load_corpus(config)
    ranks, words = encode.rank_corpus(corpus, config)
    lengths = np.diff(ranks.offsets) + 1  # with the start token
    rows = corpus.rows.assign(name=[corpus.classes[label] for label in corpus.rows.label])
    middle = rows.iloc[[len(rows) * sixth // 6 for sixth in (1, 3, 5)]]
    return {
        "name": config.title,
        "source": corpus.source,
        "fingerprint": encode.fingerprint(corpus, ranks, words),
        "texts": rows.split.value_counts(sort=False).to_dict(),
        "classes": {
            name: rows.split[rows.name == name].value_counts(sort=False).to_dict()
            for name in corpus.classes
        },
        "quality": find_problems(corpus, ranks) if words else {},
        "tokens": {str(share): int(np.quantile(lengths, share)) for share in (0.5, 0.95, 1)},
        "max_len": config.max_len,
        "share_cut": float(np.mean(lengths > config.max_len)),
        "samples": [f"{row.name}: {some([row.text])}" for row in middle.itertuples() if words],
    }


def _format_description(described: dict[str, Any]) -> str:
    from attnexp.data.corpus import format_quality

    def sizes(of: dict[str, int]) -> str:
        return " + ".join(f"{number:,} {split}" for split, number in of.items())

    classes = "; ".join(f"{name} {sizes(of)}" for name, of in described["classes"].items())
    median, most, longest = described["tokens"].values()
    return "\n  ".join([
        f"{described['name']}: {described['source']}, fingerprint {described['fingerprint']}",
        f"{sizes(described['texts'])} texts, {len(described['classes'])} classes: {classes:.400s}",
        f"{median} tokens in the median, 95 % up to {most}, at most {longest}; "
        f"data.max_len={described['max_len']} cuts {described['share_cut']:.1%} of the texts",
        *filter(None, [format_quality(described["quality"])]),
        *(sample[:76] for sample in described["samples"]),
    ])  # fmt: skip


@app.command()
def claims(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Claim, such as C04.", show_default=False),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Check also the claims that read studies.")
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
