"""`attnexp evaluate`."""

from dataclasses import asdict
from typing import Annotated, Literal

import typer

from attnexp.cli.app import AnyCode, AsJson, RunDir, TrustCode, app, emit, stop


@app.command()
def evaluate(
    run_dir: RunDir,
    overrides: Annotated[list[str] | None, typer.Argument(metavar="OVERRIDES")] = None,
    table: Annotated[
        Literal["errors"] | None, typer.Option(metavar="errors", help="Print texts it gets wrong.")
    ] = None,
    trust_code: TrustCode = False,
    any_code: AnyCode = False,
    as_json: AsJson = False,
) -> None:
    """Evaluate a finished run on its test set, or on other texts.

    OVERRIDES are settings as key=value: data.path, data.header, data.quotes, data.text, data.label,
    data.limit_test, train.device, train.threads.

    Example: attnexp evaluate outputs/runs/RUN data.path=my_texts/"""
    from attnexp.inspect.evaluate import list_errors, measure_again
    from attnexp.report.formats import to_records

    again = measure_again(run_dir, overrides or [], trust_code=trust_code, any_code=any_code)
    if table is not None:
        errors = list_errors(again)
        emit({"errors": to_records(errors)} if as_json else errors.to_csv(index=False).rstrip("\n"))
        return
    stored, measured = again.run.result.test, again.metrics
    if as_json:
        emit({"stored": asdict(stored), "measured": asdict(measured)})
    else:
        for name, metrics in (("stored", stored), ("measured", measured)):
            accuracy = f"accuracy {metrics.accuracy:7.2%}"
            emit(f"{name:8}  {accuracy}   loss {metrics.loss:.6f}   n {metrics.n:,}")
    if not overrides and stored != measured:
        stop("stored and measured differ: another processor or torch, else code or data.", code=1)
