"""Tools for programs that are graphs. They keep a log of what began and ended, and some wait for company."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anyio
import anyio.lowlevel

from callgate import CallEnded, CallStarted, CodeResult, Event, Printed, Tool, ToolError, tool

__all__ = ["World", "known", "told"]


class World:
    """Tools of one test.

    Args:
        company: how many calls of `meet` have to be open before any of them ends.
    """

    def __init__(self, company: int = 1) -> None:
        self.log: list[str] = []
        self.open = 0
        self.most = 0
        self.company = company
        self.all_there = anyio.Event()
        self.told = anyio.Event()
        """Set by a test that listens."""
        self.notes: list[str] = []

    def tools(self) -> list[Tool]:
        @tool(read_only=True)
        async def look(n: int) -> int:
            """Reads, and waits a moment."""
            self.log.append(f"look {n}")
            await anyio.lowlevel.checkpoint()
            await anyio.lowlevel.checkpoint()
            self.log.append(f"looked {n}")
            return n

        @tool(read_only=True)
        async def meet(n: int) -> int:
            """Reads, once so many are open."""
            self.open += 1
            self.most = max(self.most, self.open)
            if self.open >= self.company:
                self.all_there.set()
            await self.all_there.wait()
            self.open -= 1
            return n

        @tool(read_only=True)
        async def watch(entries: int) -> int:
            """Reads, once the log has so many entries."""
            while len(self.log) < entries:
                await anyio.lowlevel.checkpoint()
            return entries

        @tool(read_only=True)
        async def hang(n: int = 0) -> int:
            """Reads, and never comes back."""
            self.log.append(f"hang {n}")
            try:
                await anyio.sleep_forever()
            finally:
                self.log.append(f"given up {n}")
            return n

        @tool
        async def note(text: str) -> int:
            """Writes; returns how many there are."""
            self.log.append(f"note {text}")
            await anyio.lowlevel.checkpoint()
            self.notes.append(text)
            self.log.append(f"noted {text}")
            return len(self.notes)

        @tool
        async def stall(text: str) -> None:
            """Writes, and does not come back."""
            self.notes.append(text)
            await self.told.wait()

        @tool(read_only=True)
        async def row(n: int) -> dict[str, Any]:
            """Reads a small object."""
            return {"n": n, "name": f"row {n}", "parts": [n, n + 1]}

        @tool(read_only=True)
        async def big(size: int) -> str:
            """Reads much."""
            return "x" * size

        @tool(read_only=True)
        async def fail(why: str) -> None:
            """Fails, after a moment."""
            await anyio.lowlevel.checkpoint()
            raise ToolError(why, data={"why": why})

        @tool
        async def refuse(why: str) -> None:
            """Fails at once."""
            raise ToolError(why)

        @tool(read_only=True, requires_approval=True)
        async def secret(n: int) -> int:
            """Reads, if somebody allows it."""
            return n

        @tool(read_only=True, fallback="note")
        async def unsafe(text: str) -> int:
            """Reads; where it fails, something is written."""
            raise ToolError("no")

        @tool
        async def echo(value: Any) -> Any:
            """Gives back what it was given."""
            return value

        return [look, meet, watch, hang, note, stall, row, big, fail, refuse, secret, unsafe, echo]


def told(event: Event) -> str:
    """An event in a few words."""
    if isinstance(event, Printed):
        return event.text
    assert isinstance(event, (CallStarted, CallEnded))
    return f"{'start' if isinstance(event, CallStarted) else 'end'} {event.record.tool}"


def known(result: CodeResult) -> Mapping[str, Any]:
    """What must not depend on the path."""
    error = result.error
    return {
        "ok": result.ok,
        "value": result.value,
        "value_repr": result.value_repr,
        "logs": result.logs,
        "error": error and (error.kind, error.message, error.line, error.limit, error.tool),
        "calls": [(call.tool, call.arguments, call.status, call.error) for call in result.calls],
        "truncated": result.truncated,
    }
