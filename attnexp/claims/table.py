"""The claims of the sources, and how they are chosen and checked.

K: kexue.fm/archives/4765, M: mathpretty.com/15218.html; articles on the paper (N), on positional
encoding in PyTorch (P) and on scaled dot-product attention (D); own: this project."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from attnexp.base.errors import UserError
from attnexp.claims import exact, studies, trials  # noqa: F401 - each adds its claims
from attnexp.claims.finding import CHECKED, Claim, Finding

MISSING = "missing runs"  # verdict
DEFINITIONS = [
    ("C01", "D", "Q (2,3,2), K (2,8,2), V (2,8,10) give (2,3,10); Q, Q, Q (2,3,2)"),
    ("C02", "M", "Five heads keep (2,4,100) at lengths [3,2]; 50 hidden: (2,4,50)"),
    ("C03", "D", "Masked softmax takes lengths (B,) or (B,T); rows still sum to 1"),
    ("C05", "M, P, K", "PE is sin, cos of p/10000^(2i/d), in two forms, d even"),
    ("C07", "K", "Interleaved and split PE are equal up to a permutation"),
    ("C08", "M, K", "PE(p+δ) = R(δ)·PE(p), a rotation that does not depend on p"),
    ("C09", "M", "Columns 6, 7 are faster than 8, 9, a quarter period apart"),
    ("C13", "N", "Parameters d(2d_q+d), hd(d_q+d_k+2d_v), 4hdd_q, K's 3hdd_q"),
    ("C14", "N", "Causal mask: no weight above the diagonal, no leak"),
    ("C15", "N", "Dot-product scores need d_q = d_k; additive ones do not"),
    ("C16", "N", "Heads joined by W_O are a sum of low-rank maps W_up·W_down"),
    ("C17", "N", "The update is residual: E' = E + ΔE"),
    ("C19", "K, D", "Padding masked before softmax has no effect; `mul` loses weight"),
    ("C24", "K", "The feed-forward layer is a convolution of width 1"),
    ("C28", "M", "Self-attention layers stack: they keep the length"),
]
"""Claims that hold by construction: id, source, text. Their checks stand with the tests."""

REFUTED_BY = "Nothing but a piece of ours that computes otherwise."
DEFINED_AS = Finding("by construction", "checked by tests/claims and tests/model/test_oracle.py")
DEFINED = [Claim(*row, REFUTED_BY, lambda: DEFINED_AS, study="") for row in DEFINITIONS]
CLAIMS = sorted([*DEFINED, *CHECKED], key=lambda claim: claim.id)


def choose_claims(ids: Sequence[str], *, everything: bool) -> list[Claim]:
    """The claims of these ids; without ids all, or those that read no study."""
    if not ids:
        return [claim for claim in CLAIMS if everything or not claim.study]
    chosen_ids = {id.upper() for id in ids}
    known_ids = [claim.id for claim in CLAIMS]
    unknown = chosen_ids.difference(known_ids)
    if unknown:
        listed = ", ".join(sorted(unknown))
        raise UserError(f"{listed}: claims are C01 to {known_ids[-1]}.")
    return [claim for claim in CLAIMS if claim.id in chosen_ids]


def check_claim(claim: Claim, out: Path) -> dict[str, Any]:
    """Record of a claim and its finding; torch's random state stays. out: folder of studies."""
    try:
        with torch.random.fork_rng(devices=[]):
            finding = claim.check(out / claim.study) if claim.study else claim.check()
    except UserError as error:
        if not claim.study:
            raise
        command = f"attnexp sweep study={claim.study} out=DIR"
        finding = Finding(MISSING, f"{error} To make its runs: {command}, then use --out DIR.")
    return {
        "id": claim.id,
        "source": claim.source,
        "claim": claim.text,
        "refuted_by": claim.refuted_by,
        **finding._asdict(),
    }
