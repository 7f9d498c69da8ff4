"""How a server is doing: what goes wrong with it, how its connection ended, and what people and programs are told."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import anyio

__all__ = ["CannotStart", "Fate", "ServerFault", "ServerState", "ServerStatus", "one_line"]

MAX_CHARACTERS = 400
MAX_STDERR_BYTES = 16 * 1024
"""Of the newest stderr."""

ServerState = Literal["starting", "running", "restarting", "failed", "disabled", "stopped"]
"""*starting*: for the first time. *restarting*: it went away and is brought back. *failed*: given up until it is needed
or `McpServers.restart` is called. *stopped*: the runtime is not entered."""


class ServerFault(Exception):
    """The server does not work, or not any more.

    Attributes:
        remedy: what the operator may do; empty where that is plain.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class CannotStart(ServerFault):
    """Trying again would not help."""


def one_line(text: str, most: int = MAX_CHARACTERS) -> str:
    """Foreign text as it may stand in a line: printable, its white space as single blanks, cut at `most` characters."""
    kept = "".join(c if c.isprintable() else " " for c in text[: most * 4])
    line = " ".join(kept.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


class Fate:
    """One connection from its opening to its end. The transport and the session write it, the server reads it."""

    def __init__(self) -> None:
        self.reason = ""
        """Why it is over; the first reason that was given."""
        self.remedy = ""
        """What the operator may do about that."""
        self.over = anyio.Event()
        """Set when nothing more can come."""
        self.noise_lines = 0
        """Lines on stdout that are no messages: programs print banners."""
        self.noise_example = ""
        """The first of them."""
        self._stderr = bytearray()
        self._stderr_cut = False

    def explain(self, reason: str) -> None:
        """Record why it will be over; the first reason wins."""
        self.reason = self.reason or reason

    def seal(self, reason: str) -> None:
        """The connection is over, for this reason."""
        self.explain(reason)
        self.over.set()

    def hear_noise(self, line: bytes) -> None:
        """A line on stdout that is no message."""
        self.noise_lines += 1
        self.noise_example = self.noise_example or one_line(line[:400].decode(errors="replace"), 80)

    def hear_stderr(self, chunk: bytes) -> None:
        """What the process wrote to stderr; its newest `MAX_STDERR_BYTES` are kept."""
        self._stderr += chunk
        self._stderr_cut = self._stderr_cut or len(self._stderr) > MAX_STDERR_BYTES
        del self._stderr[:-MAX_STDERR_BYTES]

    @property
    def stderr(self) -> str:
        """The newest of stderr, from the beginning of a line."""
        text = self._stderr.decode(errors="replace")
        return text.partition("\n")[2] if self._stderr_cut else text


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
        else:
            words += [each for each in (self.error, self.remedy) if each]
        if self.next_attempt_seconds is not None:
            words.append(f"tried again in {self.next_attempt_seconds:.1f} s")
        if self.warnings:
            words.append(f"{len(self.warnings)} warning{'' if len(self.warnings) == 1 else 's'}")
        return "; ".join(words)
