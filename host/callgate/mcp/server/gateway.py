"""The MCP server over one runtime: lists tools, answers calls, tells of what goes on. Knows the protocol's two eras,
and no transport.

Errors: what a model did wrong, and what a tool or a program came to, is a result that the model reads, with
``isError``. An exception of the host's is logged, and the client is told that there was one, never its text.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.abc
from mcp.server.connection import Connection
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    SetLevelRequestParams,
)

from callgate.errors import CallgateError
from callgate.mcp.verbatim import Heard, heard
from callgate.runtime import Runtime
from callgate.runtime.model import META_TOOLS, meant
from callgate.tools.faults import did_you_mean
from callgate.version import __version__

from .asking import Ask, Elicitation, asking, in_the_middle
from .clients import NEW, Client, Clients, Context, Sandboxes, Serving, asks_by_form, connection_of, is_modern
from .listing import Listing, page
from .notes import McpTeller, Notes
from .paused import Paused
from .results import MAX_HTTP_BYTES, carried, failed, passed_on, result_of

__all__ = ["Gateway"]

logger = logging.getLogger("callgate")

_LOOK_SECONDS = 1.0
"""How often the registry is looked at for changes, and kept sandboxes for their age."""
_SETTLE_SECONDS = 0.2
"""Changes often come in several steps: clients get one notification."""
_TELL_SECONDS = 5.0
_FAILED = "callgate failed at {}; its log says why"
_RUNS = ("execute_code", "execute_tool_plan", "execute_plan")


@dataclass(frozen=True, slots=True)
class House:
    """What lives as long as a server runs."""

    clients: Clients
    paused: Paused


class _Server(Server[House]):
    """The SDK's server; says to clients of every transport that its list of tools may change."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *more: Any, **named: Any
    ) -> InitializationOptions:
        changes = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(changes, *more, **named)


class Gateway:
    """Serves one runtime; `server` is what a transport drives.

    Args:
        runtime: open for as long as the server runs.
        serving: what the operator set.
    """

    def __init__(self, runtime: Runtime, serving: Serving) -> None:
        self._runtime = runtime
        self._serving = serving
        self.listing = Listing(runtime, serving)
        self._bus = InMemorySubscriptionBus()
        self.server = _Server(
            serving.name,
            version=__version__,
            title="callgate",
            instructions=self.listing.instructions(),
            lifespan=self._living,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_subscriptions_listen=ListenHandler(self._bus),
            get_tool_input_schema=self._input_schema,
        )
        self.server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_level)

    @contextlib.asynccontextmanager
    async def _living(self, _: Server[House]) -> AsyncIterator[House]:
        """From before the first request until after the last."""
        serving = self._serving
        clients = Clients(Sandboxes(self._runtime, serving.sessions, serving.session_idle_seconds))
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._look, clients)
            try:
                yield House(clients, Paused(tasks, serving.approval_seconds))
            finally:
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await clients.sandboxes.close()

    # what is listed

    async def _list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        with _told_apart("this request"):
            tools = self.listing.tools_of(context.lifespan_context.clients.of(context))
            if context.request is None:
                return ListToolsResult(tools=tools)
            try:
                tools, following = page(tools, None if params is None else params.cursor)
            except ValueError as error:
                raise MCPError(INVALID_PARAMS, str(error)) from None
            return ListToolsResult(tools=tools, next_cursor=following)

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        return next((tool.input_schema for tool in self.listing.tools() if tool.name == name), None)

    async def _set_level(self, context: Context, params: SetLevelRequestParams) -> EmptyResult:
        context.lifespan_context.clients.of(context).level = params.level
        return EmptyResult()

    async def _look(self, clients: Clients) -> None:
        """Tell clients when the list has changed, and end sandboxes that nobody uses. Nothing ends it but the server's
        end: one thing that goes wrong is logged."""
        changed = anyio.Event()
        unsubscribe = self._runtime.registry.subscribe(lambda: changed.set())
        before = self.listing.tools()
        try:
            while True:
                with anyio.move_on_after(_LOOK_SECONDS):
                    await changed.wait()
                    changed = anyio.Event()
                    await anyio.sleep(_SETTLE_SECONDS)
                try:
                    await clients.sandboxes.sweep()
                    now = self.listing.tools()
                    if now is not before and now != before:
                        await self._tell_of_change(clients.connections(), modern=True)
                    before = now
                except Exception:
                    logger.exception("looking after the clients failed; it is tried again")
        finally:
            unsubscribe()

    async def _tell_of_change(self, connections: Iterable[Connection], *, modern: bool) -> None:
        """Who cannot be told has the list all the same; one that does not read holds nobody up for long."""
        try:
            if modern:
                await self._bus.publish(ToolsListChanged())
            for connection in connections:
                with anyio.move_on_after(_TELL_SECONDS):
                    await connection.send_tool_list_changed()
        except Exception as error:
            logger.debug("a client could not be told that its list has changed: %r", error)

    # what is called

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        with _told_apart("this call"):
            house: House = context.lifespan_context
            client = house.clients.of(context)
            teller = McpTeller(context, client)
            if params.request_state is not None:
                return await house.paused.go_on(params, teller)

            def work(ask: Ask | None, notes: Notes) -> Awaitable[CallToolResult]:
                return self._answer(context, client, params, Elicitation(ask, repeats=params.name in _RUNS), notes)

            if is_modern(context) and asks_by_form(context):
                return await house.paused.begin(params, teller, work)
            ask = in_the_middle(context, client, self._serving.approval_seconds) if asks_by_form(context) else None
            notes = Notes()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(notes.deliver, teller)
                result = await work(ask, notes)
                notes.stop()
            return result

    async def _answer(
        self,
        context: Context,
        client: Client,
        params: CallToolRequestParams,
        elicitation: Elicitation,
        notes: Notes,
    ) -> CallToolResult:
        """One call from beginning to end; raises nothing but cancellation."""
        tokens = asking.set(elicitation), heard.set(listener := Heard())
        try:
            result = await self._outcome(context, client, params, listener, notes)
            return carried(result, http=context.request is not None)
        except CallgateError as error:
            return failed(str(error))
        except Exception:
            logger.exception("the call of %r failed on the host", params.name[:100])
            return failed(_FAILED.format("this call"))
        finally:
            asking.reset(tokens[0])
            heard.reset(tokens[1])

    async def _outcome(
        self, context: Context, client: Client, params: CallToolRequestParams, listener: Heard, notes: Notes
    ) -> CallToolResult:
        arguments = dict(params.arguments or {})
        conversation = self.listing.conversation(client)
        handle = arguments.pop("session", None) if params.name == "execute_code" else None
        if handle is not None:
            sandboxes: Sandboxes = context.lifespan_context.clients.sandboxes
            if not isinstance(handle, str):
                return failed(f'session is text: "{NEW}", or the name of a session that was begun')
            if handle == NEW:
                handle = await sandboxes.open(client.owner)
            async with sandboxes.use(handle, client.owner) as session:
                answer = await conversation.answer("execute_code", arguments, on_event=notes.put, session=session)
            if handle not in sandboxes:
                return result_of(answer, note="The session has ended; its variables are gone.")
            return result_of(answer, session=handle, note=f'Session: "{handle}" (pass it to go on with its variables).')
        tools = {tool.name: tool for tool in self.listing.tools_of(client)}
        listed = tools.get(meant(params.name, tools))
        if listed is None:
            return failed(self._not_listed(params.name))
        answer = await conversation.answer(listed.name, arguments, on_event=notes.put)
        if answer.tools_changed:
            alone = is_modern(context)
            await self._tell_of_change([] if alone else [connection_of(context)], modern=alone)
        if listed.name in META_TOOLS or listener.sent is None:
            return result_of(answer)
        # its server's own answer, where that can be sent
        most = min(self._runtime.limits.max_message_bytes, sys.maxsize if context.request is None else MAX_HTTP_BYTES)
        outputs = listed.output_schema is not None
        return passed_on(answer, listener.sent, outputs=outputs, most_bytes=most) or result_of(answer)

    def _not_listed(self, name: str) -> str:
        known = self._runtime.registry.resolve(name)
        if known is None:
            absent = self._runtime.registry.vocabulary().why_absent(name)
            near = did_you_mean(name, [tool.name for tool in self.listing.tools()]) or "; search_tools finds tools"
            return f"there is no tool {name[:60]!r}{f'; {absent}' if absent else near}"
        callers = self._runtime.registry.get(known).allowed_callers
        if "code" in callers:
            return f"the tool {name[:60]!r} is not called by itself here: call it in a program, with execute_code"
        if "plan" in callers:
            return (
                f"the tool {name[:60]!r} is not called by itself here: make it a step of a plan, with execute_tool_plan"
            )
        return f"the tool {name[:60]!r} is not offered here"


@contextlib.contextmanager
def _told_apart(what: str) -> Iterator[None]:
    """The protocol's errors pass; of any other exception the client is told that there was one, the log its text."""
    try:
        yield
    except MCPError:
        raise
    except Exception:
        logger.exception("%s failed on the host", what)
        raise MCPError(INTERNAL_ERROR, _FAILED.format(what)) from None
