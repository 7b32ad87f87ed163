"""The typed configuration: schema, checks, composing."""
