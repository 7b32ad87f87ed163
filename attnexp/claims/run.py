"""Choose claims, check them, and print the findings."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnexp.base.errors import UserError
from attnexp.claims import costs, encodings, masking, sweeps, trials, uses, values  # noqa: F401
from attnexp.claims.claim import REGISTRY, Claim, Conclusion, Finding
from attnexp.claims.measure import one_thread
from attnexp.config.schema import did_you_mean

SCHEMA = 1

CLAIMS = [claim for _, claim in sorted(REGISTRY.items())]

STYLES = {
    Conclusion.holds: "green",
    Conclusion.supported: "green",
    Conclusion.refuted: "bold red",
    Conclusion.not_supported: "red",
    Conclusion.inconclusive: "yellow",
    Conclusion.not_run: "dim",
}


def choose(ids: Sequence[str], *, everything: bool) -> list[Claim]:
    """The claims of these ids; without ids those that read no sweeps, or all.

    Raises `UserError` for unknown ids.
    """
    chosen = dict.fromkeys(map(str.upper, ids))
    for given in chosen:
        if given not in REGISTRY:
            near = did_you_mean(given, REGISTRY)
            raise UserError(
                f"There is no claim {given}.{near} They run from C01 to {CLAIMS[-1].id}."
            )
    if ids:
        return [REGISTRY[given] for given in chosen]
    return [claim for claim in CLAIMS if everything or not claim.reads_sweeps]


def check(claims: Sequence[Claim], results: Path) -> Iterator[tuple[Claim, Finding]]:
    """Each claim with its finding, one after the other. results: root of all results."""
    with one_thread():  # faster for tensors this small
        for claim in claims:
            yield claim, claim.run(results)


def print_table(findings: Sequence[tuple[Claim, Finding]], console: Console) -> None:
    """Print a table for 80 columns: each claim with its finding below."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    table.add_column("id", no_wrap=True)
    table.add_column("from", no_wrap=True)
    table.add_column("claim, and what was measured", ratio=1)
    table.add_column("n", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for claim, finding in findings:
        text = Text(claim.text)
        text.append(f"\n{finding.measured}", style="dim")
        conclusion = Text(str(finding.conclusion), style=STYLES[finding.conclusion])
        table.add_row(claim.id, claim.source, text, str(finding.n or ""), conclusion)
    console.print(table)


def to_json(findings: Sequence[tuple[Claim, Finding]]) -> dict[str, Any]:
    """The document that `attnexp claims --json` prints, with one record per claim."""
    records = [
        {
            "id": claim.id,
            "source": claim.source,
            "claim": claim.text,
            "measured": finding.measured,
            "verdict": str(finding.conclusion),
            "n": finding.n,
        }
        for claim, finding in findings
    ]
    return {"schema": SCHEMA, "claims": records}
