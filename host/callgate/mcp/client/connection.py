"""One conversation with a server: the handshake, the listing, the calls, until it is over.

1. The handshake of today's servers (`initialize`) is tried first, and where it is refused the question of 2026-07-28
   (`server/discover`): some servers of today end when they are asked something before the handshake.
2. A call that is cancelled is told to the server (`notifications/cancelled`; over HTTP from 2026-07-28 on, by closing
   the request), at once and without waiting for it.
3. A call fails with a `ToolError`: the server's own words where it has some. When the connection ended in the middle,
   the outcome of a call that may have had effects is unknown, and the error says so.
4. Results are checked by the tool's own contract, not by the session.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pydantic
from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.dispatcher import ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types import (
    CONNECTION_CLOSED,
    HEADER_MISMATCH,
    BlobResourceContents,
    CallToolResult,
    Implementation,
    InputRequiredResult,
    PaginatedRequestParams,
    Result,
    TextResourceContents,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from callgate.errors import ToolError
from callgate.runtime.gate.events import listening
from callgate.version import __version__

from .dispatch import Listing, ServerDispatcher
from .faults import ServerFault, one_line
from .streams import BROKEN, NOT_SENT, Fate, Streams

__all__ = ["Connection", "connected"]

MAX_PAGES = 1000
MAX_CURSOR_CHARACTERS = 8 * 1024
"""Of what the server wants to be asked for its next page with."""
MAX_ROUNDS = 10
"""Of answers that say *not yet*; 2026-07-28."""
ROUND_SECONDS = 0.25
LISTEN_AGAIN_SECONDS = 5.0


class _Session(ClientSession):
    """The SDK's, without its second check of results: the tool's contract is the first."""

    async def validate_tool_result(self, name: str, result: CallToolResult) -> None:
        return None


class Connection:
    """One open session."""

    def __init__(
        self, session: ClientSession, dispatcher: ServerDispatcher, fate: Fate, hide: Callable[[str], str]
    ) -> None:
        self.fate = fate
        self._hide = hide
        self._session = session
        self._dispatcher = dispatcher
        self._listing = anyio.Lock()

    @property
    def about(self) -> str:
        """What the server calls itself: name, version, protocol."""
        info = self._session.server_info
        name = f"{info.name} {info.version}" if info is not None else "a server without a name"
        return one_line(f"{name}, protocol {self._session.protocol_version}", 120)

    @property
    def is_over(self) -> bool:
        return self.fate.over.is_set()

    async def tools(self) -> Listing:
        """All tools, page by page; raises `ServerFault`."""
        async with self._listing:
            return await self._list()

    async def _list(self) -> Listing:
        capabilities = self._session.server_capabilities
        self._dispatcher.listing = listing = Listing()
        cursor: str | None = None
        cursors: set[str] = set()
        known: set[str] = set()
        for _ in range(MAX_PAGES):
            params = None if cursor is None else PaginatedRequestParams(cursor=cursor)
            try:
                page = await self._session.list_tools(params=params)
            except (MCPError, pydantic.ValidationError, RuntimeError) as error:
                if not self.is_over and capabilities is not None and capabilities.tools is None:
                    listing.warn("it offers no tools")
                    return listing
                raise self._fault("it did not list its tools", error) from None
            known.update(tool.name for tool in page.tools)
            cursor = page.next_cursor
            if cursor is None or listing.is_full:
                break
            if len(cursor) > MAX_CURSOR_CHARACTERS:
                listing.warn(
                    f"its list of tools has a cursor of more than {MAX_CURSOR_CHARACTERS} characters;"
                    " the pages after it are left out"
                )
                break
            if cursor in cursors:
                listing.warn("its list of tools goes in a circle; it is taken as far as it came")
                break
            cursors.add(cursor)
        else:
            listing.warn(f"its list of tools has more than {MAX_PAGES} pages; the others are left out")
        for name in [name for name in listing.tools if name not in known]:
            listing.warn(f"the tool {one_line(name, 60)!r} is left out: its x-mcp-header annotations are invalid")
            del listing.tools[name]
        return listing

    async def changed(self) -> None:
        """Wait until the server says that its tools have changed."""
        await self._dispatcher.tools_changed.wait()
        self._dispatcher.tools_changed = anyio.Event()

    async def follow_changes(self) -> None:
        """From 2026-07-28 on a server tells of changes only while it is asked to."""
        capabilities = self._session.server_capabilities
        if self._session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return
        if capabilities is None or capabilities.tools is None or not capabilities.tools.list_changed:
            return
        while not self.is_over:
            try:
                async with listen(self._session, tools_list_changed=True) as subscription:
                    async for _ in subscription:
                        self._dispatcher.tools_changed.set()
            except (SubscriptionLost, MCPError):
                pass
            await anyio.sleep(LISTEN_AGAIN_SECONDS)
            self._dispatcher.tools_changed.set()  # what changed meanwhile was not told

    async def call(self, tool: str, arguments: dict[str, Any], *, repeatable: bool) -> CallToolResult:
        """Make a call.

        Raises:
            ToolError: it failed, or the answer is no MCP. Its message may hold what the server wrote.
        """
        progress = self._progress()
        state: str | None = None
        for _ in range(MAX_ROUNDS):
            try:
                result = await self._call_once(tool, arguments, state, progress)
            except MCPError as error:
                raise self._call_failed(error, repeatable) from None
            except pydantic.ValidationError as error:
                raise ToolError(f"its answer is no MCP: {_first(error)}") from None
            if isinstance(result, CallToolResult):
                return result
            if not isinstance(result, InputRequiredResult):
                raise ToolError("its answer is of a kind that callgate does not know")
            if result.input_requests:
                raise ToolError("it asks a person for input before it goes on, and callgate has nobody to ask")
            state = result.request_state
            await anyio.sleep(ROUND_SECONDS)
        raise ToolError(f"it said {MAX_ROUNDS} times that it needs another round", retryable=repeatable)

    async def _call_once(
        self, tool: str, arguments: dict[str, Any], state: str | None, progress: ProgressFnT | None
    ) -> Result:
        async def send() -> Result:
            return await self._session.call_tool(
                tool,
                arguments,
                progress_callback=progress,
                request_state=state,
                allow_input_required=True,
                allow_claimed=True,
            )

        try:
            return await send()
        except MCPError as error:
            if error.code != HEADER_MISMATCH or self._session.protocol_version not in MODERN_PROTOCOL_VERSIONS:
                raise
        self._dispatcher.tools_changed.set()
        await self.tools()  # which arguments belong into headers has changed
        return await send()

    async def read_resource(self, uri: str) -> list[TextResourceContents | BlobResourceContents]:
        """Read a resource; raises `ToolError`."""
        try:
            return (await self._session.read_resource(uri)).contents
        except MCPError as error:
            raise self._call_failed(error, True) from None
        except (pydantic.ValidationError, RuntimeError) as error:
            raise ToolError(f"its answer is no MCP: {_first(error)}") from None

    def _progress(self) -> ProgressFnT | None:
        listener = listening.get()
        if listener is None:
            return None

        async def passed_on(progress: float, total: float | None, message: str | None) -> None:
            listener(progress, total, None if message is None else one_line(self._hide(message)))

        return passed_on

    def _call_failed(self, error: MCPError, repeatable: bool) -> ToolError:
        if error.code == NOT_SENT:
            return ToolError(f"{error.message}; the call was not made", retryable=True)
        if error.code in (CONNECTION_CLOSED, BROKEN):
            unknown = "" if repeatable else "; whether it did its work is not known: find out before you call it again"
            what = error.message
            if what == "Connection closed":
                what = "it ended in the middle of the call" + (f": {self.fate.reason}" if self.fate.reason else "")
            return ToolError(f"{what}{unknown}", retryable=repeatable)
        return ToolError(error.message or "it failed and did not say why", data=error.error.data)

    def _fault(self, what: str, error: Exception) -> ServerFault:
        if self.is_over and self.fate.reason:
            return ServerFault(self.fate.reason)
        if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
            return ServerFault(f"{what}: it closed the connection")
        return ServerFault(f"{what}: {_first(error)}")


@asynccontextmanager
async def connected(streams: Streams, fate: Fate, hide: Callable[[str], str]) -> AsyncIterator[Connection]:
    """A session over these streams, after the handshake; raises `ServerFault`. Put a time limit around entering.

    Args:
        streams: from a transport.
        fate: of the connection.
        hide: takes what is secret out of the server's words about its progress.
    """
    dispatcher = ServerDispatcher(JSONRPCDispatcher(*streams), fate)
    us = Implementation(name="callgate", version=__version__)
    async with _Session(dispatcher=dispatcher, client_info=us) as session:
        connection = Connection(session, dispatcher, fate, hide)
        try:
            await session.initialize()
        except (MCPError, pydantic.ValidationError, RuntimeError) as error:
            if not isinstance(error, MCPError) or error.code == CONNECTION_CLOSED:
                raise connection._fault("it did not answer as an MCP server", error) from None
            try:
                await session.discover()
            except (MCPError, pydantic.ValidationError, RuntimeError):
                raise connection._fault("it refused the handshake", error) from None
        yield connection


def _first(error: Exception) -> str:
    if isinstance(error, pydantic.ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"][-3:])
        return one_line(f"{where}: {first['msg']}" if where else first["msg"], 200)
    if isinstance(error, MCPError):
        return one_line(error.message, 300)
    return one_line(str(error), 300)
