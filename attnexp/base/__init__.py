"""Helpers that every other module may use and that import none of them."""

SENTENCE = "the cast was superb but the plot was dreadful"
"""Example of a text: its words are in the embedded corpus and in most film reviews."""
