"""What an imported server said, word for word, for a client to whom its tools are passed through: a tool's title and
hints, and the blocks of an answer. Programs, plans and models elsewhere do not see it.

The client's room writes it, the server's room reads it. Calls nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mcp_types import CallToolResult

from callgate.tools import Tool

__all__ = ["HINTS", "Heard", "ImportedTool", "Sent", "flags_of", "heard"]

HINTS = ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")


@dataclass(frozen=True, kw_only=True, eq=False)
class ImportedTool(Tool):
    """A server's tool, with what it said for people."""

    title: str | None = None
    """Its name for people."""
    annotations: Mapping[str, Any] = field(default_factory=dict)
    """MCP's annotations: those of `HINTS` that the server gave, and ``title``."""

    @property
    def keeps_its_hints(self) -> bool:
        """Whether `read_only`, `idempotent` and `destructive` are as the server said, and not as the operator did."""
        said = flags_of(self.annotations)
        return said == {name: getattr(self, name) for name in said}


def flags_of(annotations: Mapping[str, Any]) -> dict[str, bool]:
    """A tool's options by MCP's annotations, and by MCP's defaults: what does not say that it is harmless may
    destroy."""
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
    """What was made of it, for programs."""


@dataclass(slots=True)
class Heard:
    """The newest answer while a tool is called directly: retries and fallbacks may bring several."""

    sent: Sent | None = None


heard: ContextVar[Heard | None] = ContextVar("heard", default=None)
"""Set where somebody wants to know."""
