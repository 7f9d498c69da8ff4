"""What a model is told of tools, and how its calls are answered."""

from __future__ import annotations

from .answer import Answer
from .meta import META_TOOLS, MetaTool, meant
from .options import DefinitionOptions, Provider

__all__ = ["META_TOOLS", "Answer", "DefinitionOptions", "MetaTool", "Provider", "meant"]
