"""Tool search over a registry: from Python, from a model, and from inside a program."""

from __future__ import annotations

from .builtins import search_builtins
from .result import Described, Detail, Found, SearchResult
from .tool_search import ToolSearch

__all__ = ["Described", "Detail", "Found", "SearchResult", "ToolSearch", "search_builtins"]
