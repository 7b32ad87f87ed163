"""Many runs: planned, carried out, watched."""
