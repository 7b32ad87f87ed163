"""The network of a config: the one folder that knows both settings and pieces."""
