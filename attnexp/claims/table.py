"""The claims of the sources, and how they are chosen and checked.

K: kexue.fm/archives/4765, M: mathpretty.com/15218.html; articles on the paper (N), on positional
encoding in PyTorch (P) and on scaled dot-product attention (D); own: this project.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from attnexp.base.errors import UserError
from attnexp.claims import costs, layer, positions, studies, trials
from attnexp.claims.definitions import DEFINITIONS
from attnexp.claims.finding import Claim, Finding

MISSING = "missing runs"  # verdict
MODULES = (costs, layer, positions, studies, trials)
CHECKED = [value for module in MODULES for value in vars(module).values()]
CLAIMS = sorted(value for value in (*DEFINITIONS, *CHECKED) if isinstance(value, Claim))


def choose_claims(ids: Sequence[str], *, everything: bool) -> list[Claim]:
    """The claims of these ids; without ids all, or those that read no study."""
    if not ids:
        return [claim for claim in CLAIMS if everything or not claim.study]
    chosen_ids = {id.upper() for id in ids}
    unknown_ids = chosen_ids - {claim.id for claim in CLAIMS}
    if unknown_ids:
        unknown = min(unknown_ids)
        last = CLAIMS[-1].id
        raise UserError(f"There is no claim {unknown}. They run from C01 to {last}.")
    return [claim for claim in CLAIMS if claim.id in chosen_ids]


def check_claim(claim: Claim, out: Path) -> dict[str, Any]:
    """Record of a claim and its finding; torch's random state stays. out: folder of studies."""
    try:
        with torch.random.fork_rng(devices=[]):
            paths = [out / claim.study] if claim.study else []
            finding = claim.check(*paths)
    except UserError as error:
        if not claim.study:
            raise
        command = f"attnexp sweep study={claim.study} out=DIR"
        finding = Finding(MISSING, f"{error} Make them: {command}, then use --out DIR.")
    return {
        "id": claim.id,
        "source": claim.source,
        "claim": claim.text,
        "refuted_by": claim.refuted_by,
        **finding._asdict(),
    }
