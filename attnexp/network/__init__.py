"""The network of a config: the one folder that joins settings and pieces."""
