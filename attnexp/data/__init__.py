"""Texts with labels: where they come from, and how they become ids."""
