"""Sweeps: many runs, planned, executed and displayed."""
