"""A run on disk: its id, its folder, its result and where that came from."""
