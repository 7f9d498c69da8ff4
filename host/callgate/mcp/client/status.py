"""How a server is doing: its faults, how its connection ended, and its status in words for people and programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import anyio

__all__ = ["CannotStart", "Fate", "ServerFault", "ServerState", "ServerStatus", "one_line"]

MAX_CHARACTERS = 400
MAX_STDERR_BYTES = 16 * 1024
"""Of the newest stderr."""

ServerState = Literal["starting", "running", "restarting", "failed", "disabled", "stopped"]
"""*starting*: for the first time. *restarting*: the server went away and is started again. *failed*: not started again
until a call needs it or `McpServers.restart` is called. *stopped*: the runtime is not entered."""


class ServerFault(Exception):
    """The server does not work, or not any more.

    Attributes:
        remedy: what the operator may do; empty if that is plain.
    """

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class CannotStart(ServerFault):
    """Trying again would not help."""


def one_line(text: str, most: int = MAX_CHARACTERS) -> str:
    """Foreign text on one line: printable, with single blanks, cut at `most` characters."""
    kept = "".join(c if c.isprintable() else " " for c in text[: most * 4])
    line = " ".join(kept.split())
    return line if len(line) <= most else f"{line[: most - 3]}..."


class Fate:
    """How one connection goes and ends. The transport and the session write it, `Server` reads it."""

    def __init__(self) -> None:
        self.reason = ""
        """Why the connection is over; the first reason that was recorded."""
        self.remedy = ""
        """What the operator may do about the reason."""
        self.over = anyio.Event()
        """Set when nothing more can come."""
        self.noise_lines = 0
        """Number of lines on stdout that are not messages: programs print banners."""
        self.noise_example = ""
        """The first of these lines."""
        self._stderr = bytearray()
        self._stderr_cut = False

    def explain(self, reason: str) -> None:
        """Record why the connection will be over; the first reason wins."""
        self.reason = self.reason or reason

    def seal(self, reason: str) -> None:
        """The connection is over, for this reason."""
        self.explain(reason)
        self.over.set()

    def hear_noise(self, line: bytes) -> None:
        """Count a line on stdout that is not a message."""
        self.noise_lines += 1
        self.noise_example = self.noise_example or one_line(line[:400].decode(errors="replace"), 80)

    def hear_stderr(self, chunk: bytes) -> None:
        """Keep the newest `MAX_STDERR_BYTES` of stderr."""
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
    """One server at one moment, without secrets."""

    name: str
    state: ServerState
    transport: Literal["stdio", "http", "sse"]
    about: str = ""
    """The server's own name and version, and the protocol version."""
    tools: tuple[str, ...] = ()
    """The names of its tools in the registry."""
    error: str | None = None
    """Why the server is not running, in one line; for a running server, why it was restarted last."""
    remedy: str | None = None
    """What may be done about the error."""
    restarts: int = 0
    """How often the server came back after it had gone."""
    next_attempt_seconds: float | None = None
    """Time until the next start; None when no start is planned."""
    warnings: tuple[str, ...] = ()
    """Oddities of the configuration, the tools, and the messages."""
    stderr: str = ""
    """The newest output of the process on stderr."""

    def why_absent(self) -> str | None:
        """Why the tools of a server that has not run yet are missing, in words for models. None in any other state."""
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
