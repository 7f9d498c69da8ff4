"""Which transport a server is reached by."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from callgate.mcp.config import ServerConfig

from .http import http_streams
from .process import started
from .stdio import stdio_streams
from .streams import Fate, Streams

__all__ = ["Wire", "wired"]


@dataclass(frozen=True)
class Wire:
    """What was opened."""

    streams: Streams
    words: Callable[[], str]

    @property
    def stderr(self) -> str:
        """The newest of what the server's process wrote there; empty where it has none."""
        return self.words()


@asynccontextmanager
async def wired(config: ServerConfig, fate: Fate) -> AsyncIterator[Wire]:
    """Open the transport of a server; raises `ServerFault`."""
    if config.transport == "stdio":
        async with started(config) as process, stdio_streams(process, fate) as streams:
            yield Wire(streams, lambda: process.stderr)
    else:
        async with http_streams(config, fate) as streams:
            yield Wire(streams, str)
