"""What becomes of MCP servers while they are served, for people: one line on stderr for each change of state.

1. Nothing is told before the start-up report, which has how each is then.
2. A server that has failed and is tried again is told of when that has come to something else.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

from .words import one_line, say

if TYPE_CHECKING:
    from callgate.mcp import ServerStatus

__all__ = ["News", "why"]


class News:
    """Tells of changes, each once."""

    def __init__(self) -> None:
        self._told: dict[str, str] | None = None

    def begin(self, states: Iterable[ServerStatus]) -> None:
        """From here on; these have been told of."""
        self._told = {status.name: status.state for status in states}

    def note(self, status: ServerStatus) -> None:
        """A server has changed."""
        if self._told is None:
            return
        before, now = self._told.get(status.name), status.state
        if now == before or now not in ("running", "restarting", "failed") or (now, before) == ("restarting", "failed"):
            return
        self._told[status.name] = now
        with contextlib.suppress(OSError):
            say(f"MCP server {one_line(status.name, 100)}: {_line(status, before)}")


def _line(status: ServerStatus, before: str | None) -> str:
    if status.state == "running":
        return f"up{'' if before == 'starting' else ' again'}, {_tools(len(status.tools))}"
    return f"{'went away: ' if status.state == 'restarting' else ''}{why(status)}"


def why(status: ServerStatus) -> str:
    """How a server is that does not run: what was wrong, what may be done, and what comes next."""
    told = [one_line(each, 300) for each in (status.error, status.remedy) if each]
    if status.next_attempt_seconds is not None:
        told.append(f"starts again in {status.next_attempt_seconds:.1f} s")
    elif status.state == "starting":
        told.append("its tools come when it is up")
    ended = status.state in ("starting", "restarting") and status.next_attempt_seconds is not None
    return "; ".join(told if ended and told else [status.state, *told])


def _tools(number: int) -> str:
    return f"{number} tool{'' if number == 1 else 's'}"
