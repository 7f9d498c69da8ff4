"""The version, where every room can read it without importing the public names."""

__all__ = ["__version__"]

__version__ = "0.1.0"
