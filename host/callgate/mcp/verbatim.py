"""Tools and answers of an imported server, word for word, for a client that sees its tools passed through: a tool's
title and hints, and the blocks of an answer. Programs, plans and other models do not see them.

`client` writes these values and `server` reads them. Calls nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mcp_types import CallToolResult

from callgate.tools import Tool

__all__ = ["HINTS", "ImportedTool", "Sent", "flags_of", "on_answer"]

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True, kw_only=True, eq=False)
class ImportedTool(Tool):
    """A server's tool, with the server's words for people."""

    title: str | None = None
    """The tool's name for people."""
    annotations: Mapping[str, Any] = field(default_factory=dict)
    """MCP's annotations: the `HINTS` that the server gave, and ``title``."""

    @property
    def keeps_its_hints(self) -> bool:
        """Whether the operator left `read_only`, `idempotent` and `destructive` as the server gave them."""
        flags = flags_of(self.annotations)
        return flags == {name: getattr(self, name) for name in flags}


def flags_of(annotations: Mapping[str, Any]) -> dict[str, bool]:
    """A tool's options by MCP's annotations and defaults: a tool that does not say that it is harmless may destroy."""
    read_only = annotations.get("readOnlyHint") is True
    return {
        "read_only": read_only,
        "idempotent": read_only or annotations.get("idempotentHint") is True,
        "destructive": not read_only and annotations.get("destructiveHint") is not False,
    }


@dataclass(frozen=True, slots=True)
class Sent:
    """One answer of a server."""

    result: CallToolResult
    value: Any
    """The value that programs get."""


on_answer: ContextVar[Callable[[Sent], None] | None] = ContextVar("on_answer", default=None)
"""Called with each answer while a tool is passed through. Retries and fallbacks may bring several; the last counts."""
