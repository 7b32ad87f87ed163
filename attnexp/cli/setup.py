"""Commands about settings, data, claims and this machine."""

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from attnexp.base.errors import UserError
from attnexp.cli.app import AsJson, Overrides, app, console, emit, stop


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
        from attnexp.model.cost import of_config

        shown = of_config(compose(overrides or []))
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
    """Print where each data set comes from and what is cached; `prepare` fills the cache.

    `prepare` prints classes, problems, lengths and three texts of what it read.

    Example: attnexp data

    Example: attnexp data prepare data.path=aclImdb_v1.tar.gz

    Example: attnexp data prepare data=trec,subj
    """
    from attnexp.config.compose import compose
    from attnexp.config.words import expand
    from attnexp.data import inventory

    words = overrides or []
    prepare = words[:1] == ["prepare"]
    axes = [[word for _, word in axis] for axis in expand(words[prepare:])]
    settings = [compose(one).data for one in itertools.product(*axes)]
    prepared = [found for one in settings for found in inventory.prepare(one)] if prepare else []
    shown = {**inventory.take(*settings), "prepared": prepared}
    emit(shown) if as_json else inventory.show(shown, console())


@app.command()
def claims(
    ids: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID", help="Claim, such as C04.", show_default=False),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="Check also the claims that read finished sweeps.")
    ] = False,
    out: Annotated[Path, typer.Option(help="Folder of all results.")] = Path("outputs"),
    as_json: AsJson = False,
) -> None:
    """Check the claims of the sources: print each claim, its measurement and a verdict.

    Example: attnexp claims

    Example: attnexp claims C04 C20
    """
    from attnexp.base.progress import track
    from attnexp.claims import run
    from attnexp.claims.claim import Conclusion

    chosen = run.choose(ids or [], everything=everything)
    found = list(track(run.check(chosen, out), total=len(chosen), label="checking claims"))
    emit(run.to_json(found)) if as_json else run.print_table(found, console())
    refuted = [claim.id for claim, finding in found if finding.conclusion is Conclusion.refuted]
    if refuted:
        stop(f"refuted: {', '.join(refuted)}", code=1)


@app.command()
def doctor(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="Folder with runs.", show_default=False)
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Print versions, devices and data; or, for DIR, the damaged runs and how to repeat them.

    Example: attnexp doctor outputs
    """
    from attnexp.inspect import doctor

    if folder is None:
        around = doctor.describe_installation()
        emit(around) if as_json else doctor.print_installation(around, console())
        return
    found = doctor.examine(folder)
    emit(found) if as_json else doctor.print_tree(found, console())
    if found["troubles"]:
        stop(f"{len(found['troubles'])} must be made again. Their commands are above.", code=1)
