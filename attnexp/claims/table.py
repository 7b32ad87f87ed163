"""The claims of the sources, and how they are chosen, checked and printed.

K: kexue.fm/archives/4765, M: mathpretty.com/15218.html; articles on the paper (N), on positional
encoding in PyTorch (P) and on scaled dot-product attention (D); own: this project.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from attnexp.base.errors import UserError
from attnexp.claims import costs, exact, studies, trials
from attnexp.claims.exact import Finding


class Claim(NamedTuple):
    """A statement of a source and its check, which takes the path of the study, if there is one."""

    id: str
    source: str
    text: str
    check: Callable[..., Finding]
    study: str = ""


CLAIMS = [
    Claim("C01", "D", "Q (2,3,2), K (2,8,2), V (2,8,10) give (2,3,10); Q, Q, Q (2,3,2)", exact.c01),
    Claim("C02", "M", "Five heads keep (2,4,100) at lengths [3,2]; 50 hidden: (2,4,50)", exact.c02),
    Claim("C03", "D", "Masked softmax takes lengths (B,) or (B,T); rows still sum to 1", exact.c03),
    Claim("C04", "M, K", "Attention is permutation-equivariant without PE, not with it", exact.c04),
    Claim("C05", "M, P, K", "PE is sin, cos of p/10000^(2i/d), in two forms, d even", exact.c05),
    Claim("C06", "P", "Embeddings are scaled by √d before PE; a step has its own PE", exact.c06),
    Claim("C07", "K", "Interleaved and split PE are equal up to a permutation", exact.c07),
    Claim("C08", "M, K", "PE(p+δ) = R(δ)·PE(p), a rotation that does not depend on p", exact.c08),
    Claim("C09", "M", "Columns 6, 7 are faster than 8, 9, a quarter period apart", exact.c09),
    Claim("C10", "K", "Learned and sinusoidal PE are close", studies.c10, "position"),
    Claim("C11", "K", "Adding and concatenating PE both work", studies.c11, "position"),
    Claim("C12", "N", "Var(q·k) = d_k, over √d_k 1; else softmax saturates", exact.c12),
    Claim("C13", "N", "Parameters d(2d_q+d), hd(d_q+d_k+2d_v), 4hdd_q, K's 3hdd_q", exact.c13),
    Claim("C14", "N", "Causal mask: no weight above the diagonal, no leak", exact.c14),
    Claim("C15", "N", "Dot-product scores need d_q = d_k; additive ones do not", exact.c15),
    Claim("C16", "N", "Heads joined by W_O are a sum of low-rank maps W_up·W_down", exact.c16),
    Claim("C17", "N", "The update is residual: E' = E + ΔE", exact.c17),
    Claim("C18", "K", "All heads in one operation equal a loop, and are faster", costs.c18),
    Claim(
        "C19", "K, D", "Padding masked before softmax has no effect; `mul` loses weight", exact.c19
    ),
    Claim("C20", "K", "The published table of ten epochs is reproduced", studies.c20, "blog"),
    Claim("C21", "K", "Attention's best is slightly above an LSTM's", studies.c21, "baselines"),
    Claim("C22", "K", "PE raises accuracy and reduces over-fitting", studies.c22, "blog"),
    Claim("C23", "K", "QKV cost O(n), as a convolution; products O(n²); ±r O(n·r)", costs.c23),
    Claim("C24", "K", "The feed-forward layer is a convolution of width 1", exact.c24),
    Claim("C25", "K", "Attention is poor at sequence labelling; PE only eases it", trials.c25),
    Claim("C26", "K", "Attention gains from CNN or RNN and back", studies.c26, "baselines"),
    Claim("C27", "K", "Attention reaches all tokens, an RNN back, L CNN layers ±L", costs.c27),
    Claim("C28", "M", "Self-attention layers stack: they keep the length", exact.c28),
    Claim("C29", "K", "Shown train accuracy is a running mean, at first too low", trials.c29),
    Claim("C30", "own", "Shuffled words cost more than PE gives", studies.c30, "blog"),
    Claim("C31", "own", "Most heads can be removed, one at a time", studies.c31, "blog"),
    Claim("C32", "P", "√d keeps PE from drowning words", studies.c32, "position_x_embedding"),
]

BY_CONSTRUCTION = {"C01", "C02", "C05", "C06", "C13", "C15", "C17", "C24", "C28"}
"""Shapes, counts and formulas that define a piece: these claims test our code and nothing else."""


def choose(ids: Sequence[str], *, everything: bool) -> list[Claim]:
    """The claims of these ids; without ids all, or those that read no study."""
    wanted, known = {id.upper() for id in ids}, {claim.id for claim in CLAIMS}
    if unknown := wanted - known:
        raise UserError(f"There is no claim {min(unknown)}. They run from C01 to {max(known)}.")
    return [c for c in CLAIMS if c.id in wanted or not (wanted or (c.study and not everything))]


def check(claim: Claim, out: Path) -> dict[str, Any]:
    """Record of a claim and its finding; torch's random state stays. out: folder of studies."""
    try:
        with torch.random.fork_rng(devices=[]):
            found = claim.check(out / claim.study) if claim.study else claim.check()
    except UserError as error:
        command = f"attnexp sweep study={claim.study} out=DIR"
        found = Finding("missing runs", f"{error} Make them: {command}, then use --out DIR.")
    if claim.id in BY_CONSTRUCTION and found.verdict == "holds":
        found = found._replace(verdict="holds by construction")
    return {"id": claim.id, "source": claim.source, "claim": claim.text, **found._asdict()}


def print_table(records: Sequence[dict[str, Any]], console: Console) -> None:
    """Print each claim with its verdict, and below what was measured."""
    table = Table("id", "from", "claim, and what was measured", "n", "verdict", box=box.SIMPLE_HEAD)
    for row in records:
        text = Text.assemble(row["claim"], "\n", (row["measured"], "dim"))
        table.add_row(row["id"], row["source"], text, str(row["n"] or ""), row["verdict"])
    console.print(table)
