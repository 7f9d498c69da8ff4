"""Tool search over a registry: from Python, from a model, and from inside a program."""
