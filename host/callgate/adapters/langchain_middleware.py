"""callgate for LangChain's agents: a middleware for `create_agent`, with the patterns *filter* and *interrupt*.

1. *Filter*: before each turn the model gets the conversation's tools of that moment: the meta-tools, `direct`, and what
   its searches found. The agent is made once, without callgate's tools; calls of them come here.
2. *Interrupt on new tools*: after a search that changed the list, the graph stops before the model's next turn. The
   host makes another agent, in any process, and resumes.
3. *Interrupt on approval*: a program or a plan is a durable run whose key is the tool call's. When the run waits for a
   person, the graph stops. LangGraph then runs the tool call from its beginning: the key finds the run, which goes on.

Needs the extra ``langchain``. Thin: tools are those of `langchain_tools`, approvals those of `Runtime.runs`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import keyword
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Unpack

from callgate.extras import how_to_install

try:
    from langchain.agents.middleware import AgentMiddleware, AgentState, ModelRequest, ModelResponse, ToolCallRequest
    from langchain_core.messages import AIMessage, ToolMessage
    from langgraph.types import Command, interrupt
except ModuleNotFoundError as missing:
    words = f"{missing.name} is not installed: {how_to_install('langchain')}"
    raise ModuleNotFoundError(words, name=missing.name) from missing

import anyio

from callgate.errors import AlreadyDecided, ConfigurationError, RunNotFound
from callgate.runtime import Answer, Conversation, Event, Run, Runtime
from callgate.runtime.model import DefinitionOptions
from callgate.runtime.opening import in_its_loop, open_while

from .answering import Answering
from .langchain import CallgateTool, blocking, made_tools

__all__ = ["CallgateMiddleware"]

Given = str | dict[str, Any]
"""A program, or a plan."""
Made = ToolMessage | Command[Any]


class CallgateMiddleware(AgentMiddleware[AgentState[Any], Any, Any]):
    """Shows the model callgate's tools as they are found, and stops the graph where a person or the host has to act.

    ``create_agent(model, middleware=[CallgateMiddleware(conversation)])``; tools of your own may stand beside it. For
    one user and one thread: each has a conversation of its own, and an agent made with it.

    Args:
        source: a conversation; or a runtime, whose list of tools stays as it is.
        interrupt_on_new_tools: stops the graph when the model's list of tools has changed. The interrupt's value has
            ``found``, the names of all found tools, and ``state``, for `Runtime.conversation(state=...)`. Any value
            resumes.
        interrupt_on_approval: stops the graph while a call waits for an approval, whoever makes it: the model, a
            program or a plan. The interrupt's value has ``run``, ``reason`` and ``calls``, each with ``call``,
            ``tool`` and ``arguments``. Resume with a dictionary by ``call``: True allows the call, False or a text,
            the reason, denies it. Anything else decides nothing, and the question comes again. Needs
            `Runtime(durable=...)`, and a checkpointer. `Runtime(approve=...)` is not asked about such calls.
        on_event: receives prints, steps, call starts and call ends as they happen; not of durable runs.
        pictures: see `langchain_tools`; not of durable runs.
        options: with a runtime: what to define, as for `Runtime.tool_definitions`.

    Raises:
        ConfigurationError: an option is wrong, the runtime is not durable, or the conversation has a session.
    """

    def __init__(
        self,
        source: Runtime | Conversation,
        *,
        interrupt_on_new_tools: bool = False,
        interrupt_on_approval: bool = False,
        on_event: Callable[[Event], None] | None = None,
        pictures: bool = False,
        **options: Unpack[DefinitionOptions],
    ) -> None:
        super().__init__()
        self._answering = Answering(source, options, "openai", on_event, pictures=pictures)
        if interrupt_on_new_tools and not isinstance(source, Conversation):
            raise ConfigurationError("interrupt_on_new_tools is for conversations: a runtime's list stays as it is")
        if interrupt_on_approval and self._answering.runtime._durable is None:
            raise ConfigurationError(
                'interrupt_on_approval needs Runtime(durable="runs.db"): a run that waits must outlive its process'
            )
        if interrupt_on_approval and isinstance(source, Conversation) and source._has_session:
            raise ConfigurationError(
                "interrupt_on_approval goes without a session: a program that continues in another process has no "
                "variables of earlier ones"
            )
        self._conversation = source if isinstance(source, Conversation) and interrupt_on_new_tools else None
        self._asks = interrupt_on_approval
        self.tools = []

    # filter

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Ask the model with the tools of this moment."""
        return handler(self._shown(request))

    async def awrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]]
    ) -> ModelResponse[Any]:
        """Ask the model with the tools of this moment."""
        return await handler(self._shown(request))

    def _shown(self, request: ModelRequest[Any]) -> ModelRequest[Any]:
        return request.override(tools=[*request.tools, *made_tools(self._answering)])

    def wrap_tool_call(self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Made]) -> Made:
        """Answer a call of a tool that the agent itself does not have."""
        given = self._run_of(request)
        if given is not None:
            return blocking(request.tool_call["name"], self._answered(request, given))
        return handler(self._with_tool(request))

    async def awrap_tool_call(
        self, request: ToolCallRequest, handler: Callable[[ToolCallRequest], Awaitable[Made]]
    ) -> Made:
        """Answer a call of a tool that the agent itself does not have."""
        given = self._run_of(request)
        if given is not None:
            return await self._answered(request, given)
        return await handler(self._with_tool(request))

    def _with_tool(self, request: ToolCallRequest) -> ToolCallRequest:
        """The request with a tool of callgate, unless the agent has one of that name. callgate has words for a tool
        that the model does not see, and for one that does not exist."""
        if request.tool is not None:
            return request
        return request.override(tool=CallgateTool.of(self._answering, request.tool_call["name"]))

    # interrupt on new tools

    def before_model(self, state: AgentState[Any], runtime: Any) -> None:
        """Stop the graph if the last calls changed the model's list of tools."""
        if self._conversation is None:
            return
        for message in reversed(state["messages"]):
            if not isinstance(message, ToolMessage):
                return
            if isinstance(message.artifact, Mapping) and message.artifact.get("tools_changed") is True:
                interrupt({"found": list(self._conversation.found), "state": self._conversation.state()})
                return

    # interrupt on approval

    def _run_of(self, request: ToolCallRequest) -> Given | None:
        """The program or plan that is to be a durable run; None for calls that need none."""
        name, arguments = request.tool_call["name"], request.tool_call["args"]
        if not self._asks or request.tool is not None:
            return None
        if name not in [each["function"]["name"] for each in self._answering.definitions()]:
            return None  # the model does not have it, and gets the words for that
        if name == "execute_code":
            code = arguments.get("code")
            return code if isinstance(code, str) else None
        if name == "execute_tool_plan":
            return arguments
        registry = self._answering.runtime.registry
        known = registry.resolve(name)
        if known is None or not (tool := registry.get(known)).requires_approval or "code" not in tool.allowed_callers:
            return None
        return f"await {registry.callable_name(known)}({_written(arguments)})"

    async def _answered(self, request: ToolCallRequest, given: Given) -> ToolMessage:
        """The answer of a durable run, which stops the graph while the run waits for people."""
        call, key, runtime = request.tool_call, _key(request), self._answering.runtime
        decided: Any = None
        while True:
            async with open_while(runtime):
                rested = await in_its_loop(runtime, partial(self._rested, given, key, decided))
            if isinstance(rested, Answer):
                return CallgateTool.of(self._answering, call["name"]).message(rested, call["id"])
            decided = interrupt(rested)  # returns earlier answers first: they decide nothing any more

    async def _rested(self, given: Given, key: str, decided: Any) -> Answer | dict[str, Any]:
        """Decide about calls, and let the run go on: its answer, or what it waits for. Cancelling this ends the run."""
        run: Run[Any] = await self._answering.start(given, key)
        try:
            return await self._decided(run, decided, key)
        except anyio.get_cancelled_exc_class():
            with anyio.CancelScope(shield=True):
                await run.stop()
            raise

    async def _decided(self, run: Run[Any], decided: Any, by: str) -> Answer | dict[str, Any]:
        """See `_rested`."""
        runs = self._answering.runtime.runs
        for call, word in decided.items() if isinstance(decided, Mapping) else ():
            with contextlib.suppress(AlreadyDecided, RunNotFound):
                if word is True:
                    await runs.approve(run.id, call, by=by)
                elif word is False or isinstance(word, str):
                    await runs.deny(run.id, call, by=by, reason=word or "")
        while (result := await run.rest()) is None:
            waiting = await runs.pending(run=run.id)
            if waiting or run.status == "needs_attention":
                calls = [{"call": each.call, "tool": each.tool, "arguments": each.arguments} for each in waiting]
                return {"run": run.id, "reason": run.reason, "calls": calls}
        return Answer(name=run.kind, text=result.for_model(), ok=result.ok, result=result)


def _key(request: ToolCallRequest) -> str:
    """Names one tool call: the same each time that LangGraph runs it, and no other's."""
    thread = request.runtime.config.get("configurable", {}).get("thread_id")
    turn = next((each.id for each in reversed(request.state["messages"]) if isinstance(each, AIMessage)), None)
    parts = json.dumps([thread, turn, request.tool_call["id"]], default=str)
    return f"langgraph {hashlib.sha256(parts.encode()).hexdigest()}"


def _written(arguments: Mapping[str, Any]) -> str:
    """JSON values as the arguments of a call in a program: by name, so that the program is a graph where it can be."""
    if all(name.isidentifier() and not keyword.iskeyword(name) for name in arguments):
        return ", ".join(f"{name}={value!r}" for name, value in arguments.items())
    return f"**{dict(arguments)!r}"
