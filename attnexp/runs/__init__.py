"""Runs on disk: id, folder, result and provenance."""
