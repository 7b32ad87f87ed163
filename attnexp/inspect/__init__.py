"""Inspection of trained models: what they make of a text, and what they use."""
