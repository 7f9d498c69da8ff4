"""The MCP server over one runtime: lists tools, answers calls, reports progress, gives artifacts. Knows the protocol's
two eras, and no transport.

Errors: a mistake of the model, and the failure of a tool or program, is a result with ``isError`` that the model reads.
An exception of the host goes to the log; the client learns that there was one, but never reads its text.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import anyio
import anyio.abc
from mcp.server.connection import Connection
from mcp.server.context import CallNext, HandlerResult, ServerRequestContext
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
    ListResourcesResult,
    ListToolsResult,
    PaginatedRequestParams,
    ReadResourceRequestParams,
    ReadResourceResult,
    SetLevelRequestParams,
)

from callgate.errors import CallgateError
from callgate.mcp.verbatim import Sent, on_answer
from callgate.runtime import Runtime
from callgate.runtime.answers import CallOptions
from callgate.runtime.gate.watching import origin
from callgate.runtime.model import BACKGROUND, META_TOOLS, meant
from callgate.runtime.telemetry.content import label
from callgate.tools.faults import did_you_mean
from callgate.version import __version__

from .asking import Ask, Elicitation, ask_client, asking, in_the_middle
from .clients import (
    NEW,
    Client,
    Clients,
    Context,
    Sandboxes,
    Serving,
    asks_by_form,
    connection_of,
    is_modern,
    origin_of,
)
from .listing import Listing, page
from .notes import McpSender, Notes
from .paused import Paused
from .resources import links, listed, read
from .results import MAX_HTTP_BYTES, carried, failed, passed_on, result_of

__all__ = ["Gateway"]

logger = logging.getLogger("callgate")

_LOOK_SECONDS = 1.0
"""Between two looks for changed tools and for sandboxes that are idle."""
_SETTLE_SECONDS = 0.2
"""Changes often come in several steps: clients get one notification."""
_NOTIFY_SECONDS = 5.0
"""For one client to take a notification."""
_FAILED = "callgate failed at {}; its log says why"
_RUNS = ("execute_code", "execute_tool_plan", "execute_plan", "wait_run")
"""May ask for several calls."""


@dataclass(frozen=True, slots=True)
class Lifespan:
    """What lives as long as a server runs."""

    clients: Clients
    paused: Paused


class _Server(Server[Lifespan]):
    """The SDK's server; announces on every transport that its list of tools may change."""

    def create_initialization_options(
        self, notification_options: NotificationOptions | None = None, *more: Any, **named: Any
    ) -> InitializationOptions:
        changes = notification_options or NotificationOptions(tools_changed=True)
        return super().create_initialization_options(changes, *more, **named)


class Gateway:
    """Serves one runtime; `server` is what a transport drives.

    Args:
        runtime: open for as long as the server runs.
        serving: the operator's settings.
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
            lifespan=self._lifespan,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
            on_subscriptions_listen=ListenHandler(self._bus),
            get_tool_input_schema=self._input_schema,
        )
        self.server.add_request_handler("logging/setLevel", SetLevelRequestParams, self._set_level)
        self.server.middleware.insert(0, _labelled)  # before the SDK's own, which makes the spans

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Server[Lifespan]) -> AsyncIterator[Lifespan]:
        """Open from before the first request until after the last."""
        serving = self._serving
        sandboxes = Sandboxes(self._runtime, serving.sessions, serving.session_idle_seconds)
        clients = Clients(sandboxes, self._runtime.artifacts, self._end_runs)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._look, clients)
            try:
                yield Lifespan(clients, Paused(tasks, serving.approval_seconds))
            finally:
                tasks.cancel_scope.cancel()
                with anyio.CancelScope(shield=True):
                    await clients.sandboxes.close()

    async def _end_runs(self, owner: str) -> None:
        if self._serving.background:
            from callgate.runtime.background import end_runs

            await end_runs(self._runtime, owner)

    # listing

    async def _list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        with _exceptions_logged("this request"):
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
        """Notify clients when the list has changed, and end idle sandboxes, until the server ends. Failures are
        logged."""
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
                        await self._notify_of_change(clients.connections(), modern=True)
                    before = now
                except Exception:
                    logger.exception("looking after the clients failed; it is tried again")
        finally:
            unsubscribe()

    async def _notify_of_change(self, connections: Iterable[Connection], *, modern: bool) -> None:
        """Notify clients that the list has changed. A client that fails costs nothing, one that does not read costs
        `_NOTIFY_SECONDS`."""
        try:
            if modern:
                await self._bus.publish(ToolsListChanged())
            for connection in connections:
                with anyio.move_on_after(_NOTIFY_SECONDS):
                    await connection.send_tool_list_changed()
        except Exception as error:
            logger.debug("a client could not be notified that its list has changed: %r", error)

    # artifacts

    async def _list_resources(self, context: Context, params: PaginatedRequestParams | None) -> ListResourcesResult:
        with _exceptions_logged("this request"):
            client: Client = context.lifespan_context.clients.of(context)
            # artifacts without an owner belong to several users, who must not learn each other's
            shelf = client.artifacts if client.owner is not None else ()
            return listed(shelf, None if params is None else params.cursor)

    async def _read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        with _exceptions_logged("this request"):
            client: Client = context.lifespan_context.clients.of(context)
            return read(client.artifacts, params.uri, http=context.request is not None)

    # calls

    async def _call_tool(self, context: Context, params: CallToolRequestParams) -> CallToolResult | InputRequiredResult:
        with _exceptions_logged("this call"):
            lifespan: Lifespan = context.lifespan_context
            client = lifespan.clients.of(context)
            sender = McpSender(context, client)
            if params.request_state is not None:
                return await lifespan.paused.go_on(params, sender)

            redaction = self._runtime.redaction

            def elicitation(ask: Ask | None) -> Elicitation:
                return Elicitation(ask, repeats=params.name in _RUNS, redaction=redaction)

            def work(ask: Ask | None, notes: Notes) -> Awaitable[CallToolResult]:
                return self._answer(context, client, params, elicitation(ask), notes)

            if is_modern(context) and asks_by_form(context):
                return await lifespan.paused.begin(params, sender, work, Notes(redaction.run(self._runtime.registry)))
            ask = in_the_middle(context, client, self._serving.approval_seconds) if asks_by_form(context) else None
            notes = Notes(redaction.run(self._runtime.registry))
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(notes.deliver, sender)
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
        token, before = asking.set(elicitation), origin.get()
        origin.set(origin_of(context, client))
        try:
            return carried(await self._outcome(context, client, params, notes), http=context.request is not None)
        except CallgateError as error:
            return failed(str(error))
        except Exception:
            logger.exception("the call of %r failed on the host", params.name[:100])
            return failed(_FAILED.format("this call"))
        finally:
            origin.set(before)
            asking.reset(token)

    async def _outcome(
        self, context: Context, client: Client, params: CallToolRequestParams, notes: Notes
    ) -> CallToolResult:
        arguments = dict(params.arguments or {})
        http = context.request is not None
        message = partial(result_of, http=http, links=partial(links, protocol_version=context.protocol_version))
        conversation = self.listing.conversation(client)
        handle = arguments.pop("session", None) if params.name == "execute_code" else None
        if handle is not None:
            sandboxes: Sandboxes = context.lifespan_context.clients.sandboxes
            if not isinstance(handle, str):
                return failed(f'session is text: "{NEW}", or the name of a session that was begun')
            if handle == NEW:
                handle = await sandboxes.open(client)
            async with sandboxes.use(handle, client.owner) as session:
                answer = await conversation.answer("execute_code", arguments, on_event=notes.put, session=session)
            if handle not in sandboxes:
                return message(answer, note="The session has ended; its variables are gone.")
            return message(answer, session=handle, note=f'Session: "{handle}" (pass it to go on with its variables).')
        tools = {tool.name: tool for tool in self.listing.tools_of(client)}
        listed = tools.get(meant(params.name, tools))
        if listed is None:
            return failed(self._not_listed(params.name))
        sent: deque[Sent] = deque(maxlen=1)
        on_answer.set(None if listed.name in (*META_TOOLS, *BACKGROUND) else sent.append)
        answer = await conversation.answer(listed.name, arguments, **self._how_runs(notes))
        if answer.tools_changed:
            alone = is_modern(context)
            await self._notify_of_change([] if alone else [connection_of(context)], modern=alone)
        if not sent:
            return message(answer)
        # the imported server's own answer, if it can be sent
        most = min(self._runtime.limits.max_message_bytes, MAX_HTTP_BYTES if http else sys.maxsize)
        outputs = listed.output_schema is not None
        return passed_on(answer, sent[0], outputs=outputs, most_bytes=most) or message(answer)

    def _how_runs(self, notes: Notes) -> CallOptions:
        """How programs and plans of a call run, and who is asked about runs in the background."""
        if not self._serving.background:
            return {"on_event": notes.put}
        elicitation, durable = asking.get(), self._runtime._durable is not None
        if elicitation is None or self._runtime.gate.approve is not ask_client:
            return {"on_event": notes.put, "as_run": durable}
        # nobody but this client can decide about a run in memory: where the client cannot ask, the call is refused
        ask = elicitation.decide if durable or elicitation.can_ask else None
        return {"on_event": notes.put, "as_run": durable, "approve": ask}

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


async def _labelled(ctx: ServerRequestContext[Any, Any], call_next: CallNext) -> HandlerResult:
    """Cut a request's method, id and name to a short line, as every label of a span. No tool has a longer name."""
    id, params = ctx.request_id, ctx.params
    if isinstance(id, str):
        id = label(id)
    if params and isinstance(name := params.get("name"), str):
        params = {**params, "name": label(name)}
    return await call_next(replace(ctx, method=label(ctx.method), request_id=id, params=params))


@contextlib.contextmanager
def _exceptions_logged(what: str) -> Iterator[None]:
    """Let errors of the protocol pass. Log any other exception; the client learns only that there was one."""
    try:
        yield
    except MCPError:
        raise
    except Exception:
        logger.exception("%s failed on the host", what)
        raise MCPError(INTERNAL_ERROR, _FAILED.format(what)) from None
