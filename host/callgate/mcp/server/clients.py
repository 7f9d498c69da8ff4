"""What lives as long as one client session: its log level, and the sandboxes that it keeps. Knows how the SDK tells
sessions apart, and nothing of tools.

Which session a request belongs to depends on the protocol and on the transport:

- up to 2025-11-25 a connection begins with a handshake, on stdio and over HTTP; it is the session;
- from 2026-07-28 on every request stands alone. On stdio the pipe is the session; over HTTP there is none, and what is
  kept is found by a handle that cannot be guessed, and ends when it is idle.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Iterator
from typing import Any

import anyio
from mcp.server.connection import Connection, allowed_log_levels
from mcp.server.context import ServerRequestContext
from mcp_types import (
    ElicitationCapability,
    LoggingLevel,
    LoggingMessageNotification,
    LoggingMessageNotificationParams,
)
from mcp_types import Tool as McpTool
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from callgate.runtime import Conversation

from .notes import Level
from .sandboxes import Sandboxes

__all__ = ["Client", "Clients", "Context", "McpTeller", "asks_by_form", "is_modern"]

Context = ServerRequestContext[Any, Any]

logger = logging.getLogger("callgate")
_LEVELS: tuple[LoggingLevel, ...] = (
    "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency",
)  # fmt: skip


class Client:
    """One client session."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self.sandboxes = sandboxes
        self.conversation: Conversation | None = None
        """What its model has searched for and found; made when it is first needed."""
        self.direct: tuple[str, ...] = ()
        """The tools passed through that the conversation knows of."""
        self.listed: tuple[list[McpTool], tuple[str, ...], list[McpTool]] | None = None
        """The list of tools that is its own, and what that was made of."""
        self.level: LoggingLevel = "info"
        """What `logging/setLevel` asked for; up to 2025-11-25."""
        self.asking = anyio.Lock()
        """Held while a person is asked: one question at a time."""


class Clients:
    """Finds the client session of a request.

    Args:
        open_sandboxes: makes what keeps one session's sandboxes.
        shared: keeps those of requests that stand alone.
    """

    def __init__(self, open_sandboxes: Callable[[], Sandboxes], shared: Sandboxes) -> None:
        self._open_sandboxes = open_sandboxes
        self._shared = shared
        self._connections: dict[Connection, Client] = {}
        self._pipe = Client(open_sandboxes())

    def of(self, context: Context) -> Client:
        """The client session that a request belongs to."""
        if is_modern(context):
            # over HTTP nothing says that two requests come from one user: what one found is not shown to another
            return self._pipe if context.request is None else Client(self._shared)
        connection = _connection(context)
        client = self._connections.get(connection)
        if client is None:
            client = self._connections[connection] = Client(self._open_sandboxes())
            connection.exit_stack.push_async_callback(self._leave, connection)
        return client

    def connections(self) -> Iterator[Connection]:
        """Those that began with a handshake."""
        return iter(tuple(self._connections))

    def sandboxes(self) -> Iterator[Sandboxes]:
        """Of every client session."""
        own = [client.sandboxes for client in (self._pipe, *self._connections.values())]
        return iter([*own, self._shared])

    async def _leave(self, connection: Connection) -> None:
        client = self._connections.pop(connection)
        await client.sandboxes.close()


class McpTeller:
    """Sends notes on the stream of one request, as far as its client wants them."""

    def __init__(self, context: Context, client: Client) -> None:
        self._context = context
        self._client = client

    def _wanted(self, level: Level) -> bool:
        if is_modern(self._context):
            return level in allowed_log_levels(self._context.protocol_version, self._context.meta)
        return _LEVELS.index(level) >= _LEVELS.index(self._client.level)

    async def log(self, level: Level, logger: str, text: str) -> None:
        """One `notifications/message`."""
        if self._wanted(level):
            params = LoggingMessageNotificationParams(level=level, logger=logger, data=text)
            with _advisory():
                await self._context.session.send_notification(
                    LoggingMessageNotification(params=params), related_request_id=self._context.request_id
                )

    async def progress(self, done: float, message: str) -> None:
        """One `notifications/progress`, where the request carried a token."""
        with _advisory():
            await self._context.session.report_progress(done, None, message)


@contextlib.contextmanager
def _advisory() -> Iterator[None]:
    """A note that cannot be sent harms no run."""
    try:
        yield
    except Exception as error:
        logger.debug("a note to the client was lost: %r", error)


def is_modern(context: Context) -> bool:
    """Whether the request stands alone (2026-07-28 and later)."""
    return context.protocol_version in MODERN_PROTOCOL_VERSIONS


def asks_by_form(context: Context) -> bool:
    """Whether the client can ask its user with a form."""
    capabilities = context.session.client_capabilities
    elicitation: ElicitationCapability | None = None if capabilities is None else capabilities.elicitation
    # an empty declaration stands for forms: the other mode came later
    return elicitation is not None and (elicitation.form is not None or elicitation.url is None)


def _connection(context: Context) -> Connection:
    # 2.3.0 hands a request its connection in no other way; tests/with_mcp/server/test_sessions.py would tell
    return context.session._connection
