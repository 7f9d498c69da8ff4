"""One conversation with a server: the transport, the handshake, the listing, and the calls.

1. The handshake of today's servers (`initialize`) is tried first, then the question of 2026-07-28 (`server/discover`):
   some servers of today end when a client asks something before the handshake.
2. A listing is bounded, and each tool is taken by itself, as the server wrote it: the session checks a listing as a
   whole, and one tool without a name would lose all tools. So the session sees only the names.
3. A cancelled call is cancelled on the server at once, without a wait: by `notifications/cancelled`, or, over HTTP from
   2026-07-28 on, by closing the request.
4. A call fails with a `ToolError` in the server's own words if it has some. If the connection ended in the middle of a
   call that may have had effects, its outcome is unknown, and the error says so.
5. The tool's own contract checks results; the session does not.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import anyio.abc
import pydantic
from mcp.client.session import ClientSession
from mcp.client.subscriptions import SubscriptionLost, listen
from mcp.shared.dispatcher import CallOptions, OnNotify, OnNotifyIntercept, OnRequest, ProgressFnT
from mcp.shared.exceptions import MCPError
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp.shared.transport_context import TransportContext
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
from callgate.mcp.config import ServerConfig
from callgate.runtime.gate.events import listening
from callgate.version import __version__

from .http import BROKEN, NOT_SENT, http_streams
from .status import Fate, ServerFault, one_line
from .stdio import stdio_streams

__all__ = ["Connection", "Listing", "connected"]

MAX_TOOLS = 10_000
"""Of one server; further tools are left out."""
MAX_PAGES = 1000
MAX_LISTING_BYTES = 32 * 1024 * 1024
"""Of the tools of one listing, as JSON."""
MAX_WARNINGS = 20
MAX_ROUNDS = 10
"""Answers to one call that say *not yet*; 2026-07-28."""
ROUND_SECONDS = 0.25
LISTEN_AGAIN_SECONDS = 5.0


class Listing:
    """The tools of one server as it wrote them, page by page."""

    def __init__(self) -> None:
        self.tools: dict[str, dict[str, Any]] = {}
        """By the server's own name, in the order of the listing."""
        self.warnings: list[str] = []
        self.is_full = False
        """Whether a tool found no room; then no further page is requested."""
        self._bytes = 0

    def warn(self, text: str) -> None:
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(text)
        elif len(self.warnings) == MAX_WARNINGS:
            self.warnings.append("and more that are not listed")

    def take(self, page: dict[str, Any]) -> dict[str, Any]:
        """Keep the tools of a page; returns the page that the session may see."""
        tools = page.get("tools")
        if not isinstance(tools, list):
            self.warn("its list of tools is not a list; it is taken for empty")
            tools = []
        shown = []
        for tool in tools:
            name = tool.get("name") if isinstance(tool, dict) else None
            if not isinstance(name, str) or not name.strip():
                self.warn("a tool without a name is left out")
                continue
            if name in self.tools:
                self.warn(f"the tool {one_line(name, 60)!r} is listed twice; the first is taken")
                continue
            self._bytes += len(json.dumps(tool))
            if len(self.tools) >= MAX_TOOLS or self._bytes > MAX_LISTING_BYTES:
                self.is_full = True
                self.warn(f"it lists more than {MAX_TOOLS} tools or {MAX_LISTING_BYTES} bytes; the others are left out")
                break
            self.tools[name] = tool
            shown.append({"name": name, "inputSchema": _for_headers(tool.get("inputSchema"))})
        cursor = page.get("nextCursor")
        # from 2026-07-28 on the session requires the last two keys, which are not used here
        kept = {"tools": shown, "resultType": page.get("resultType", "complete"), "ttlMs": 0, "cacheScope": "private"}
        return kept | ({"nextCursor": cursor} if isinstance(cursor, str) else {})


class _Dispatcher(JSONRPCDispatcher[TransportContext]):
    """The SDK's dispatcher, which also takes listings apart and notices changes of the tools. It hands no notification
    to the session, which would log each invalid one, secrets included."""

    def __init__(self, streams: tuple[Any, Any], fate: Fate) -> None:
        super().__init__(*streams)
        self.fate = fate
        self.listing = Listing()
        """Takes the pages of the current listing."""
        self.tools_changed = anyio.Event()
        """Set when the server says that its tools have changed; `Connection.changed` replaces it."""

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None, **more: Any
    ) -> dict[str, Any]:
        raw = await super().send_raw_request(method, params, opts, **more)
        return self.listing.take(raw) if method == "tools/list" else raw

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        def look(method: str, params: Mapping[str, Any] | None) -> bool:
            if on_notify_intercept is not None:
                on_notify_intercept(method, params)
            if method == "notifications/tools/list_changed":
                self.tools_changed.set()
            return True  # nothing is left for the session

        try:
            await super().run(on_request, on_notify, look, task_status=task_status)
        finally:
            self.fate.over.set()


class _Session(ClientSession):
    """The SDK's session, without its own check of results: the tool's contract has checked them."""

    async def validate_tool_result(self, name: str, result: CallToolResult) -> None:
        return None


class Connection:
    """One open session."""

    def __init__(self, session: ClientSession, dispatcher: _Dispatcher, hide: Callable[[str], str]) -> None:
        self.fate = dispatcher.fate
        self._hide = hide
        self._session = session
        self._dispatcher = dispatcher
        self._listing = anyio.Lock()

    @property
    def about(self) -> str:
        """The server's own name and version, and the protocol version."""
        info = self._session.server_info
        name = f"{info.name} {info.version}" if info is not None else "a server without a name"
        return one_line(f"{name}, protocol {self._session.protocol_version}", 120)

    @property
    def is_over(self) -> bool:
        return self.fate.over.is_set()

    async def tools(self) -> Listing:
        """List all tools, page by page; raises `ServerFault`."""
        async with self._listing:
            self._dispatcher.listing = listing = Listing()
            cursors: list[str] = []
            known: set[str] = set()
            while True:
                try:
                    page = await self._session.list_tools(
                        params=PaginatedRequestParams(cursor=cursors[-1]) if cursors else None
                    )
                except (MCPError, pydantic.ValidationError, RuntimeError) as error:
                    capabilities = self._session.server_capabilities
                    if not self.is_over and capabilities is not None and capabilities.tools is None:
                        listing.warn("it offers no tools")
                        return listing
                    raise self._fault("it did not list its tools", error) from None
                known.update(tool.name for tool in page.tools)
                if page.next_cursor is None or listing.is_full:
                    break
                if page.next_cursor in cursors or len(cursors) == MAX_PAGES:
                    listing.warn("its list of tools does not end; it is taken as far as it came")
                    break
                cursors.append(page.next_cursor)
        for name in [name for name in listing.tools if name not in known]:
            listing.warn(f"the tool {one_line(name, 60)!r} is left out: its x-mcp-header annotations are invalid")
            del listing.tools[name]
        return listing

    async def changed(self) -> None:
        """Wait until the server says that its tools have changed."""
        await self._dispatcher.tools_changed.wait()
        self._dispatcher.tools_changed = anyio.Event()

    async def follow_changes(self) -> None:
        """Subscribe to changes of the tools: from 2026-07-28 on a server reports them only to subscribers."""
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
            self._dispatcher.tools_changed.set()  # changes in the meantime were not reported

    async def call(self, tool: str, arguments: dict[str, Any], *, repeatable: bool) -> CallToolResult:
        """Make a call.

        Raises:
            ToolError: the call failed, or the answer is not valid MCP. The message may hold words of the server.
        """
        state: str | None = None
        try:
            for _ in range(MAX_ROUNDS):
                result: Result = await self._session.call_tool(
                    tool, arguments, progress_callback=self._progress(), request_state=state,
                    allow_input_required=True, allow_claimed=True,
                )  # fmt: skip
                if not isinstance(result, InputRequiredResult) or result.input_requests:
                    break
                state = result.request_state
                await anyio.sleep(ROUND_SECONDS)
        except MCPError as error:
            if error.code == HEADER_MISMATCH:  # other arguments belong into headers now
                self._dispatcher.tools_changed.set()
            raise self._call_failed(error, repeatable) from None
        except pydantic.ValidationError as error:
            raise ToolError(f"its answer is not valid MCP: {_first(error)}") from None
        if isinstance(result, CallToolResult):
            return result
        raise ToolError("it asks for input before it goes on, and callgate has nobody to ask")

    async def read_resource(self, uri: str) -> list[TextResourceContents | BlobResourceContents]:
        """Read a resource; raises `ToolError`."""
        try:
            return (await self._session.read_resource(uri)).contents
        except MCPError as error:
            raise self._call_failed(error, True) from None
        except (pydantic.ValidationError, RuntimeError) as error:
            raise ToolError(f"its answer is not valid MCP: {_first(error)}") from None

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
            unknown = "; it is not known whether the tool did its work: find out before you call it again"
            what = error.message
            if what == "Connection closed":
                what = "it ended in the middle of the call" + (f": {self.fate.reason}" if self.fate.reason else "")
            return ToolError(what if repeatable else what + unknown, retryable=repeatable)
        return ToolError(error.message or "it failed and did not say why", data=error.error.data)

    def _fault(self, what: str, error: Exception) -> ServerFault:
        if self.is_over and self.fate.reason:
            return ServerFault(self.fate.reason)
        if isinstance(error, MCPError) and error.code == CONNECTION_CLOSED:
            return ServerFault(f"{what}: it closed the connection")
        return ServerFault(f"{what}: {_first(error)}")


@asynccontextmanager
async def connected(config: ServerConfig, fate: Fate, hide: Callable[[str], str]) -> AsyncIterator[Connection]:
    """Open a connection, handshake included; raises `ServerFault`. Put a time limit around entering.

    Args:
        config: of the server.
        fate: of the connection.
        hide: replaces secrets in the server's progress messages.
    """
    opened = stdio_streams if config.transport == "stdio" else http_streams
    us = Implementation(name="callgate", version=__version__)
    async with opened(config, fate) as streams:
        dispatcher = _Dispatcher(streams, fate)
        async with _Session(dispatcher=dispatcher, client_info=us) as session:
            connection = Connection(session, dispatcher, hide)
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


def _for_headers(schema: object) -> dict[str, Any]:
    """The part of a schema that the session needs: which arguments are mirrored into HTTP headers (2026-07-28)."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    given = properties.items() if isinstance(properties, dict) else ()
    return {"type": "object", "properties": {name: each for name, each in given if isinstance(each, dict)}}


def _first(error: Exception) -> str:
    if isinstance(error, pydantic.ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"][-3:])
        return one_line(f"{where}: {first['msg']}" if where else first["msg"], 200)
    if isinstance(error, MCPError):
        return one_line(error.message, 300)
    return one_line(str(error), 300)
