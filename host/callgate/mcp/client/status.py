"""How a server is doing, for people and programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .faults import one_line

__all__ = ["ServerState", "ServerStatus"]

ServerState = Literal["starting", "running", "restarting", "failed", "disabled", "stopped"]
"""*starting*: for the first time. *restarting*: it went away and is brought back. *failed*: given up until it is needed
or `McpServers.restart` is called. *stopped*: the runtime is not entered."""


@dataclass(frozen=True, kw_only=True)
class ServerStatus:
    """One server at one moment. Nothing secret is in it."""

    name: str
    state: ServerState
    transport: Literal["stdio", "http", "sse"]
    about: str = ""
    """What it calls itself, and the protocol that is spoken."""
    tools: tuple[str, ...] = ()
    """The names under which its tools are in the registry."""
    error: str | None = None
    """Why it is not running, in one line; of a running one, why it was restarted last."""
    remedy: str | None = None
    """What may be done about it."""
    restarts: int = 0
    """How often it came back after it had gone."""
    next_attempt_seconds: float | None = None
    """Until it is tried again; None when that is not planned."""
    warnings: tuple[str, ...] = ()
    """What was odd about its configuration, its tools, and what it sent."""
    stderr: str = ""
    """The newest that its process wrote there."""

    def why_absent(self) -> str | None:
        """For models, of a server that has not run yet: why its tools are not there. None of one in any other state."""
        server = f"the MCP server {one_line(self.name, 60)!r}"
        why = f": {one_line(self.error, 200)}" if self.error else ""
        match self.state:
            case "failed":
                return f"{server} has failed{why}"
            case "starting" | "restarting" if why:
                return f"{server} did not start, and is tried again{why}"
            case "starting" | "restarting":
                return f"{server} is still starting: its tools come when it is up, try again in a moment"
        return None

    def line(self) -> str:
        """One line for people."""
        words = [f"{self.name}: {self.state}"]
        if self.state == "running":
            words.append(f"{len(self.tools)} tool{'' if len(self.tools) == 1 else 's'}")
        if self.error and self.state != "running":
            words.append(self.error)
        if self.remedy and self.state != "running":
            words.append(self.remedy)
        if self.next_attempt_seconds is not None:
            words.append(f"tried again in {self.next_attempt_seconds:.1f} s")
        if self.warnings:
            words.append(f"{len(self.warnings)} warning{'' if len(self.warnings) == 1 else 's'}")
        return "; ".join(words)
