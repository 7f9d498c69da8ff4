"""What a model sees of tools, in each provider's form."""

from __future__ import annotations

from .meta import BACKGROUND, META_TOOLS, DefinitionOptions, MetaTool, meant
from .providers import Provider

__all__ = ["BACKGROUND", "META_TOOLS", "DefinitionOptions", "MetaTool", "Provider", "meant"]
