"""Claims that define a piece: shapes, counts and formulas, which hold by construction.

A check of them could test our code and nothing else. It stands with the other tests of that code:
tests/model/test_oracle.py holds each piece to its definition in plain loops.
"""

from attnexp.claims.finding import Claim, Finding

REFUTED_BY = "Nothing but a piece of ours that computes otherwise."
FINDING = Finding("by construction", "a definition, checked by tests/model/test_oracle.py")


def define(id: str, source: str, text: str) -> Claim:
    """A claim whose finding is that it is a definition."""
    return Claim(id, source, text, REFUTED_BY, lambda: FINDING, study="")


DEFINITIONS = [
    define("C01", "D", "Q (2,3,2), K (2,8,2), V (2,8,10) give (2,3,10); Q, Q, Q (2,3,2)"),
    define("C02", "M", "Five heads keep (2,4,100) at lengths [3,2]; 50 hidden: (2,4,50)"),
    define("C05", "M, P, K", "PE is sin, cos of p/10000^(2i/d), in two forms, d even"),
    define("C06", "P", "Embeddings are scaled by √d before PE; a step has its own PE"),
    define("C13", "N", "Parameters d(2d_q+d), hd(d_q+d_k+2d_v), 4hdd_q, K's 3hdd_q"),
    define("C15", "N", "Dot-product scores need d_q = d_k; additive ones do not"),
    define("C17", "N", "The update is residual: E' = E + ΔE"),
    define("C24", "K", "The feed-forward layer is a convolution of width 1"),
    define("C28", "M", "Self-attention layers stack: they keep the length"),
]
