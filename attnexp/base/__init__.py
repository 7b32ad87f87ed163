"""Helpers that every other room may use and that import none of them."""
