"""Between the SDK's session and its dispatcher: one bad tool must not cost the others, and one flood not the host.

The session checks a listing as a whole: a single tool without a name, or with a schema that is no object, would lose
all. So each tool is taken by itself, as the server wrote it, and the session sees its name alone. All tools together
are bounded: a page is at most one message, but there may be a thousand pages.

Notifications are not handed to the session, which would log each that it does not like; `notifications/progress` and
`notifications/cancelled` are the dispatcher's own, and what is left is counted here.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import anyio
import anyio.abc
from mcp.shared.dispatcher import CallOptions, DispatchContext, Dispatcher, OnNotify, OnNotifyIntercept, OnRequest
from mcp.shared.exceptions import MCPError
from mcp.shared.transport_context import TransportContext
from mcp_types import INTERNAL_ERROR

from callgate.mcp.bounds import marks_in

from .faults import one_line
from .streams import Fate

__all__ = ["Listing", "ServerDispatcher"]

MAX_TOOLS = 10_000
"""Of one server; more are not taken."""
MAX_LISTING_BYTES = 32 * 1024 * 1024
"""Of the tools of one listing, as JSON; each comma and each opening bracket counts for `_BYTES_OF_A_MARK` more."""
MAX_WARNINGS = 20
MAX_HANDLED = 64
"""Requests of the server that are handled at the same time; more are refused."""
_BYTES_OF_A_MARK = 16
"""A value of a few bytes is an object of many when it is kept."""
_HEADER_KEY = "x-mcp-header"


class Listing:
    """The tools of one server as it wrote them, page by page."""

    def __init__(self) -> None:
        self.tools: dict[str, dict[str, Any]] = {}
        """By the server's own name, in the order of the listing."""
        self.warnings: list[str] = []
        self.is_full = False
        """Whether there was no room for a tool; further pages are not asked for."""
        self._room = MAX_LISTING_BYTES

    def warn(self, text: str) -> None:
        if len(self.warnings) < MAX_WARNINGS:
            self.warnings.append(text)
        elif len(self.warnings) == MAX_WARNINGS:
            self.warnings.append("and more that are not listed")

    def take(self, page: dict[str, Any]) -> dict[str, Any]:
        """Keep the tools of a page; returns what the session may see of it."""
        tools = page.get("tools")
        if not isinstance(tools, list):
            self.warn("its list of tools is not a list; it is taken for empty")
            tools = []
        seen, left_out = [], 0
        for tool in tools:
            name = tool.get("name") if isinstance(tool, dict) else None
            if not isinstance(name, str) or not name.strip():
                self.warn("a tool without a name is left out")
            elif name in self.tools:
                self.warn(f"the tool {one_line(name, 60)!r} is listed twice; the first is taken")
            elif len(self.tools) >= MAX_TOOLS:
                self.warn(f"it lists more than {MAX_TOOLS} tools; the others are left out")
                break
            elif (weight := _weight(tool)) > self._room:
                left_out += 1
            else:
                self._room -= weight
                self.tools[name] = tool
                seen.append({"name": name, "inputSchema": _for_headers(tool.get("inputSchema"))})
        cursor = page.get("nextCursor")
        if left_out:
            self.is_full = True
            others = ", and all further pages" if cursor is not None else ""
            self.warn(
                f"its list of tools has more than {MAX_LISTING_BYTES} bytes;"
                f" {left_out} tool{'' if left_out == 1 else 's'} without room left out{others}"
            )
        shown: dict[str, Any] = {"tools": seen, "resultType": page.get("resultType", "complete")}
        # required of a result from 2026-07-28 on; what they say is not used here
        shown |= {"ttlMs": 0, "cacheScope": "private"}
        return shown | ({"nextCursor": cursor} if isinstance(cursor, str) else {})


class ServerDispatcher(Dispatcher[TransportContext]):
    """Passes requests on, takes listings apart, and tells of changes.

    Args:
        inner: the SDK's.
        fate: of the connection; over when the inner one has run out.
    """

    def __init__(self, inner: Dispatcher[TransportContext], fate: Fate) -> None:
        self.listing = Listing()
        """Where the pages of a listing go; replaced before each."""
        self.tools_changed = anyio.Event()
        """Set when the server says that its tools have changed; replaced by whoever listens."""
        self._inner = inner
        self._fate = fate
        self._handled = 0

    async def send_raw_request(
        self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None
    ) -> dict[str, Any]:
        raw = await self._inner.send_raw_request(method, params, opts)
        return self.listing.take(raw) if method == "tools/list" else raw

    async def notify(self, method: str, params: Mapping[str, Any] | None, opts: CallOptions | None = None) -> None:
        await self._inner.notify(method, params, opts)

    async def run(
        self,
        on_request: OnRequest,
        on_notify: OnNotify,
        on_notify_intercept: OnNotifyIntercept | None = None,
        *,
        task_status: anyio.abc.TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        try:
            await self._inner.run(
                self._bounded(on_request), _nothing, self._look(on_notify_intercept), task_status=task_status
            )
        finally:
            self._fate.over.set()

    def _bounded(self, on_request: OnRequest) -> OnRequest:
        async def handle(
            context: DispatchContext[TransportContext], method: str, params: Mapping[str, Any] | None
        ) -> dict[str, Any]:
            if self._handled >= MAX_HANDLED:
                raise MCPError(code=INTERNAL_ERROR, message="too many requests at the same time")
            self._handled += 1
            try:
                return await on_request(context, method, params)
            finally:
                self._handled -= 1

        return handle

    def _look(self, intercept: OnNotifyIntercept | None) -> OnNotifyIntercept:
        def look(method: str, params: Mapping[str, Any] | None) -> bool:
            if intercept is not None:
                intercept(method, params)
            if method == "notifications/tools/list_changed":
                self.tools_changed.set()
            return True  # nothing is left for the session

        return look


async def _nothing(
    _context: DispatchContext[TransportContext], _method: str, _params: Mapping[str, Any] | None
) -> None: ...


def _weight(tool: dict[str, Any]) -> int:
    """Bytes of a tool as JSON, and what its values take beside them."""
    text = json.dumps(tool, ensure_ascii=False, separators=(",", ":")).encode(errors="surrogatepass")
    return len(text) + _BYTES_OF_A_MARK * marks_in(text)


def _for_headers(schema: object, levels: int = 8) -> dict[str, Any]:
    """Of a schema, what the session needs of it: which arguments are mirrored into HTTP headers (2026-07-28)."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    kept: dict[str, Any] = {}
    if isinstance(properties, dict) and levels:
        for name, each in properties.items():
            if not isinstance(each, dict):
                continue
            if _HEADER_KEY in each:
                kept[name] = {key: each[key] for key in (_HEADER_KEY, "type") if key in each}
            elif "properties" in each and (below := _for_headers(each, levels - 1)).get("properties"):
                kept[name] = below
    return {"type": "object", "properties": kept} if kept else {"type": "object"}
