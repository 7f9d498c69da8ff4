"""What the host offers: tools, their contracts, their names. Pure: no clock, no event loop, no I/O."""

from __future__ import annotations

from .names import RESERVED_NAMES, imported_name, is_reserved, python_name
from .registry import Registry
from .retry import Retry
from .secret import Secret
from .tool import CALLERS, Caller, Tool, ToolOptions, tool

__all__ = [
    "CALLERS",
    "RESERVED_NAMES",
    "Caller",
    "Registry",
    "Retry",
    "Secret",
    "Tool",
    "ToolOptions",
    "imported_name",
    "is_reserved",
    "python_name",
    "tool",
]
