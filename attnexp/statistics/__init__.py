"""Numbers in, numbers out: paired differences and the verdicts they allow."""
