"""The network of a config: the one room that knows both the settings and the pieces."""
