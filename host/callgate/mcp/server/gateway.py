"""The MCP server over one runtime: lists tools, answers calls, tells of what goes on. Knows the protocol's two eras,
and no transport.

Errors: what a model did wrong, and what a tool or a program came to, is a result that the model reads, with
``isError``. An exception of the host's is logged, and the client is told that there was one, never its text.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import dataclass
from typing import Any

import anyio
import anyio.abc
from mcp.server.lowlevel.server import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolRequestParams,
    CallToolResult,
    EmptyResult,
    InputRequiredResult,
    ListToolsResult,
    PaginatedRequestParams,
    SetLevelRequestParams,
)
from mcp_types import Tool as McpTool

from callgate import __version__
from callgate.errors import CallgateError
from callgate.runtime import Runtime
from callgate.runtime.conversation import Conversation
from callgate.tools.faults import did_you_mean

from .asking import Asker, Elicitation, InTheMiddle, asking
from .clients import Client, Clients, Context, McpTeller, asks_by_form, is_modern
from .definitions import chosen, definitions
from .notes import Notes
from .options import Serving
from .paused import Paused
from .results import failed, result_of
from .sandboxes import NEW, Sandboxes

__all__ = ["INSTRUCTIONS", "Gateway"]

logger = logging.getLogger("callgate")

_LOOK_SECONDS = 1.0
"""How often the registry is looked at for changes, and kept sandboxes for their age."""
_TELL_SECONDS = 5.0
_SHARES = 8
"""Sandboxes for requests that belong to no client session: as many as so many client sessions may keep."""
_RUNS = ("execute_code", "execute_tool_plan")

INSTRUCTIONS = (
    "callgate stands in front of many tools. Find them with search_tools, read their parameters with describe_tools, "
    "and do the whole job in one call: execute_code runs Python that calls the tools, execute_tool_plan runs a JSON "
    "plan of calls."
)


@dataclass(frozen=True, slots=True)
class House:
    """What lives as long as a server runs."""

    clients: Clients
    paused: Paused


class _Server(Server[House]):
    """The SDK's server; says to clients of every transport that its list of tools may change."""

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        return super().create_initialization_options(
            notification_options or NotificationOptions(tools_changed=True), experimental_capabilities, extensions
        )


class Gateway:
    """Serves one runtime; `server` is what a transport drives.

    Args:
        runtime: open for as long as the server runs.
        serving: what the operator set.
    """

    def __init__(self, runtime: Runtime, serving: Serving) -> None:
        self._runtime = runtime
        self._serving = serving
        self._bus = InMemorySubscriptionBus()
        self._listed: list[McpTool] | None = None
        self._listed_of: object = None
        self._direct: tuple[str, ...] = ()
        self.server = _Server(
            serving.name,
            version=__version__,
            title="callgate",
            instructions=INSTRUCTIONS,
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
        runtime, serving, idle = self._runtime, self._serving, self._serving.session_idle_seconds
        shared = Sandboxes(runtime, serving.sessions * _SHARES, idle, shared=True)
        clients = Clients(lambda: Sandboxes(runtime, serving.sessions, idle), shared)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._look, clients)
            try:
                yield House(clients, Paused(tasks, serving.approval_seconds))
            finally:
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    for sandboxes in clients.sandboxes():
                        await sandboxes.close()

    # what is listed

    def tools(self) -> list[McpTool]:
        """What every client sees."""
        now = self._runtime.registry.tools()
        if self._listed is None or now is not self._listed_of:
            self._direct = chosen(self._runtime.registry, self._serving.direct)
            self._listed = definitions(self._runtime, self._runtime.tool_definitions("mcp", direct=self._direct))
            self._listed_of = now
        return self._listed

    def _tools_of(self, client: Client) -> list[McpTool]:
        """What one client sees."""
        if not self._serving.reveal:
            return self.tools()
        return definitions(self._runtime, self._conversation(client).tool_definitions("mcp"))

    def _conversation(self, client: Client) -> Conversation:
        """What its model has searched for; searches are learned from, whether or not the list grows by them."""
        self.tools()
        before = client.conversation
        if before is None or client.direct != self._direct:
            client.direct = self._direct
            state = None if before is None else before.state()
            before = client.conversation = self._runtime.conversation(
                direct=self._direct, grows=self._serving.reveal, state=state
            )
        return before

    async def _list_tools(self, context: Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        return ListToolsResult(tools=self._tools_of(context.lifespan_context.clients.of(context)))

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        return next((tool.input_schema for tool in self.tools() if tool.name == name), None)

    async def _set_level(self, context: Context, params: SetLevelRequestParams) -> EmptyResult:
        context.lifespan_context.clients.of(context).level = params.level
        return EmptyResult()

    async def _look(self, clients: Clients) -> None:
        """Tell clients when the list has changed, and end sandboxes that nobody uses."""
        changed = anyio.Event()

        def note() -> None:
            changed.set()

        unsubscribe = self._runtime.registry.subscribe(note)
        before = self.tools()
        try:
            while True:
                with anyio.move_on_after(_LOOK_SECONDS):
                    await changed.wait()
                    changed = anyio.Event()
                for sandboxes in clients.sandboxes():
                    await sandboxes.sweep()
                try:
                    now = self.tools()
                except CallgateError:
                    logger.exception("the list of tools could not be made")
                    continue
                if now is not before and now != before:
                    await self._tell_of_change(clients)
                before = now
        finally:
            unsubscribe()

    async def _tell_of_change(self, clients: Clients) -> None:
        await self._bus.publish(ToolsListChanged())
        for connection in clients.connections():
            with anyio.move_on_after(_TELL_SECONDS):  # one that does not read holds nobody up for long
                await connection.send_tool_list_changed()

    async def _tell_of_found(self, context: Context) -> None:
        """One client's list has grown by what it found."""
        if is_modern(context):
            await self._bus.publish(ToolsListChanged())
        else:
            await context.session.send_tool_list_changed()

    # what is called

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        house: House = context.lifespan_context
        client = house.clients.of(context)
        teller = McpTeller(context, client)
        try:
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
        except MCPError:
            raise
        except Exception:
            logger.exception("the call of %r failed on the host", params.name)
            return failed("callgate failed at this call; its log says why")

    async def _answer(
        self,
        context: Context,
        client: Client,
        params: CallToolRequestParams,
        elicitation: Elicitation,
        notes: Notes,
    ) -> CallToolResult:
        """One call from beginning to end; raises nothing but cancellation."""
        token = asking.set(elicitation)
        try:
            arguments = dict(params.arguments or {})
            if params.name == "execute_code" and "session" in arguments:
                return await self._in_session(client, arguments, notes)
            if not any(tool.name == params.name for tool in self._tools_of(client)):
                return failed(self._not_listed(params.name))
            answer = await self._conversation(client).answer(params.name, arguments, on_event=notes.put)
            if answer.tools_changed:
                await self._tell_of_found(context)
            return result_of(answer)
        except CallgateError as error:
            return failed(str(error))
        except Exception:
            logger.exception("the call of %r failed on the host", params.name)
            return failed("callgate failed at this call; its log says why")
        finally:
            asking.reset(token)

    def _not_listed(self, name: str) -> str:
        known = self._runtime.registry.resolve(name)
        if known is None:
            hint = did_you_mean(name, [tool.name for tool in self.tools()]) or "; search_tools finds tools"
            return f"there is no tool {name[:60]!r}{hint}"
        callers = self._runtime.registry.get(known).allowed_callers
        if "code" in callers:
            return f"the tool {name[:60]!r} is not called by itself here: call it in a program, with execute_code"
        if "plan" in callers:
            return (
                f"the tool {name[:60]!r} is not called by itself here: make it a step of a plan, with execute_tool_plan"
            )
        return f"the tool {name[:60]!r} is not offered here"

    async def _in_session(self, client: Client, arguments: dict[str, Any], notes: Notes) -> CallToolResult:
        handle = arguments.pop("session")
        conversation = self._conversation(client)
        if handle is None:
            return result_of(await conversation.answer("execute_code", arguments, on_event=notes.put))
        if not isinstance(handle, str):
            return failed(f'session is text: "{NEW}", or the name of a session that was begun')
        if handle == NEW:
            handle = await client.sandboxes.open()
        async with client.sandboxes.use(handle) as session:
            answer = await conversation.answer("execute_code", arguments, on_event=notes.put, session=session)
        if handle in client.sandboxes:
            return result_of(answer, session=handle, note=f'Session: "{handle}" (pass it to go on with its variables).')
        return result_of(answer, note="The session has ended; its variables are gone.")
