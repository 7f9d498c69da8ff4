"""The MCP server over one runtime: lists tools, answers calls, tells of what goes on. Knows the protocol's two eras,
and no transport.

Errors: what a model did wrong, and what a tool or a program came to, is a result that the model reads, with
``isError``. An exception of the host's is logged, and the client is told that there was one, never its text.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import AsyncIterator, Awaitable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.abc
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
from mcp_types import Tool as McpTool

from callgate.errors import CallgateError
from callgate.mcp.verbatim import Heard, heard
from callgate.runtime import Runtime
from callgate.runtime.model import META_TOOLS, meant
from callgate.tools.faults import did_you_mean
from callgate.version import __version__

from .asking import Asker, Elicitation, InTheMiddle, asking
from .clients import NEW, Client, Clients, Context, Sandboxes, Serving, asks_by_form, is_modern
from .listing import Listing, NoPage, page
from .notes import McpTeller, Notes
from .paused import Paused
from .results import MAX_HTTP_BYTES, carried, failed, passed_on, result_of

__all__ = ["Gateway"]

logger = logging.getLogger("callgate")

_LOOK_SECONDS = 1.0
"""How often the registry is looked at for changes, and kept sandboxes for their age."""
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
            except NoPage as error:
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
                    await anyio.sleep(self.listing.wait())
                try:
                    await clients.sandboxes.sweep()
                    now = self.listing.tools()
                    if now is not before and now != before:
                        await self._tell_of_change(clients)
                    before = now
                except Exception:
                    logger.exception("looking after the clients failed; it is tried again")
        finally:
            unsubscribe()

    async def _tell_of_change(self, clients: Clients) -> None:
        await self._bus.publish(ToolsListChanged())
        for connection in clients.connections():
            with anyio.move_on_after(_TELL_SECONDS):  # one that does not read holds nobody up for long
                await connection.send_tool_list_changed()

    async def _tell_of_found(self, context: Context) -> None:
        """One client's list has grown by what it found. Who cannot be told has the answer all the same."""
        try:
            with anyio.move_on_after(_TELL_SECONDS):
                if is_modern(context):
                    await self._bus.publish(ToolsListChanged())
                else:
                    await context.session.send_tool_list_changed()
        except Exception as error:
            logger.debug("a client could not be told that its list has grown: %r", error)

    # what is called

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        with _told_apart("this call"):
            house: House = context.lifespan_context
            client = house.clients.of(context)
            teller = McpTeller(context, client)
            if params.request_state is not None:
                return await house.paused.go_on(params, teller)

            def work(asker: Asker | None, notes: Notes) -> Awaitable[CallToolResult]:
                return self._answer(context, client, params, Elicitation(asker, repeats=params.name in _RUNS), notes)

            if is_modern(context) and asks_by_form(context):
                return await house.paused.begin(params, teller, work)
            asker = InTheMiddle(context, client, self._serving.approval_seconds) if asks_by_form(context) else None
            notes = Notes()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(notes.deliver, teller)
                result = await work(asker, notes)
                notes.finish()
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
        http = context.request is not None
        token = asking.set(elicitation)
        try:
            arguments = dict(params.arguments or {})
            if params.name == "execute_code" and "session" in arguments:
                sandboxes = context.lifespan_context.clients.sandboxes
                return carried(await self._in_session(client, sandboxes, arguments, notes), http=http)
            tools = {tool.name: tool for tool in self.listing.tools_of(client)}
            listed = tools.get(meant(params.name, tools))
            if listed is None:
                return failed(self._not_listed(params.name))
            if listed.name not in META_TOOLS:
                return carried(await self._passed(client, listed, arguments, notes, http=http), http=http)
            answer = await self.listing.conversation(client).answer(listed.name, arguments, on_event=notes.put)
            if answer.tools_changed:
                await self._tell_of_found(context)
            return carried(result_of(answer), http=http)
        except CallgateError as error:
            return failed(str(error))
        except Exception:
            logger.exception("the call of %r failed on the host", params.name[:100])
            return failed(_FAILED.format("this call"))
        finally:
            asking.reset(token)

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

    async def _passed(
        self, client: Client, listed: McpTool, arguments: dict[str, Any], notes: Notes, *, http: bool
    ) -> CallToolResult:
        """A tool that is called by itself: its server's own answer, where it has a server and can be sent."""
        listener = Heard()
        token = heard.set(listener)
        try:
            answer = await self.listing.conversation(client).answer(listed.name, arguments, on_event=notes.put)
        finally:
            heard.reset(token)
        most = min(self._runtime.limits.max_message_bytes, MAX_HTTP_BYTES if http else sys.maxsize)
        outputs = listed.output_schema is not None
        passed = listener.sent and passed_on(answer, listener.sent, outputs=outputs, most_bytes=most)
        return passed or result_of(answer)

    async def _in_session(
        self, client: Client, sandboxes: Sandboxes, arguments: dict[str, Any], notes: Notes
    ) -> CallToolResult:
        handle = arguments.pop("session")
        conversation = self.listing.conversation(client)
        if handle is None:
            return result_of(await conversation.answer("execute_code", arguments, on_event=notes.put))
        if not isinstance(handle, str):
            return failed(f'session is text: "{NEW}", or the name of a session that was begun')
        if handle == NEW:
            handle = await sandboxes.open(client.owner)
        async with sandboxes.use(handle, client.owner) as session:
            answer = await conversation.answer("execute_code", arguments, on_event=notes.put, session=session)
        if handle in sandboxes:
            return result_of(answer, session=handle, note=f'Session: "{handle}" (pass it to go on with its variables).')
        return result_of(answer, note="The session has ended; its variables are gone.")


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
