"""Check claims, and show what came out."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnexp.base.errors import UserError
from attnexp.claims import encodings, growth, heads, masking, reach, sweeps, trials, values
from attnexp.claims.claim import Claim, Conclusion, Finding
from attnexp.claims.layers import one_thread
from attnexp.config.schema import did_you_mean

SCHEMA = 1

CLAIMS = sorted(
    itertools.chain.from_iterable(
        module.CLAIMS
        for module in (values, encodings, masking, heads, growth, reach, trials, sweeps)
    ),
    key=lambda claim: claim.id,
)

STYLES = {
    Conclusion.holds: "green",
    Conclusion.supported: "green",
    Conclusion.refuted: "bold red",
    Conclusion.not_supported: "red",
    Conclusion.inconclusive: "yellow",
    Conclusion.not_run: "dim",
}


def choose(ids: Sequence[str], *, everything: bool) -> list[Claim]:
    """The claims of these ids; without ids the fast ones, or all. `UserError` for unknown ids."""
    known = {claim.id: claim for claim in CLAIMS}
    chosen = dict.fromkeys(map(str.upper, ids))
    for given in chosen:
        if given not in known:
            near = did_you_mean(given, known)
            raise UserError(
                f"There is no claim {given}.{near} They run from C01 to {CLAIMS[-1].id}."
            )
    if ids:
        return [known[given] for given in chosen]
    return [claim for claim in CLAIMS if everything or not claim.reads_sweeps]


def check(claims: Sequence[Claim], results: Path) -> Iterator[tuple[Claim, Finding]]:
    """Each claim with what was found, one after the other. results: the root of all results."""
    # The tensors are small: threads would wait for each other longer than they work.
    with one_thread():
        for claim in claims:
            yield claim, claim.check(results)


def show(findings: Sequence[tuple[Claim, Finding]], console: Console) -> None:
    """A table for 80 columns: the claim, and under it what was measured."""
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
    """One record a claim."""
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
