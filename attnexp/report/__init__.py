"""Results for readers."""
