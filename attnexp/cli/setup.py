"""Commands about settings, data, claims and this machine."""

import itertools
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
    import yaml

    from attnexp.config import options
    from attnexp.config.compose import compose
    from attnexp.config.schema import to_dict

    if groups and (cost or overrides):
        raise UserError("--groups lists all options. Use it without others.")
    if groups:
        shown: dict[str, Any] = options.describe()
        text = options.format_groups(shown)
    elif cost:
        from attnexp.model.classifier import cost_of

        shown = cost_of(compose(overrides or []))
        text = "\n".join(f"{name:20s}{value:,}" for name, value in shown.items())
    else:
        shown = to_dict(compose(overrides or []))
        text = yaml.safe_dump(shown, sort_keys=False).rstrip()
    emit(shown if as_json else text)


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
