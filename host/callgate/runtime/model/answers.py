"""A model's calls, answered: of the meta-tools, and of tools. What the model got wrong is part of the answer, in words.

1. The model's mistakes, a tool's failures and a program's are answers. What is raised is the operator's mistake
   (`ConfigurationError`) or the machine's (`SandboxError`).
2. Names come in any form, arguments as an object or as its JSON text.
3. Every call of a tool passes the gate, as one of kind ``direct``; or of kind ``code``, where the provider's own code
   made it.
4. A call of one tool is bounded by `wall_seconds`, as a program and a plan are: retries, fallbacks and a person who is
   asked included.
5. No answer names a meta-tool that the model does not have.
6. A model reads a text that a tool returned as it is; the provider's own code gets JSON of everything, to parse.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

import anyio

from callgate.errors import ConfigurationError, LimitReached, ToolError, ToolNotAllowed
from callgate.limits import Limits
from callgate.runtime.core import Core
from callgate.runtime.gate import RunGate
from callgate.runtime.gate.events import Event
from callgate.runtime.session import Session
from callgate.tools import CALLERS, Caller, Tool
from callgate.tools.faults import did_you_mean

from .answer import Answer, error_text, value_text
from .decoding import CUT_OFF, as_object, decoded, is_cut_off, source
from .meta import META_TOOLS, MetaTool, meant, validated, without_nulls
from .names import ModelNames
from .schemas import own_arguments, promises_object

__all__ = ["Answers", "Call", "caller_of"]

_PROVIDERS_CODE = ("program", "code_execution_")
"""How Anthropic and OpenAI name callers that are programs of theirs, or begin to."""


def caller_of(caller: str) -> Caller:
    """The kind of caller: ours, or one as a provider names it (``program``, ``code_execution_20260120``).

    Raises:
        ConfigurationError: there is no such kind.
    """
    if caller in CALLERS:
        return caller
    if caller.startswith(_PROVIDERS_CODE):
        return "code"
    raise ConfigurationError(
        f"there is no caller {caller!r}; the callers are: {', '.join(CALLERS)}, and of a provider's own code "
        "program and code_execution_..., e.g. code_execution_20260120"
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Call:
    """How a model's call is to be answered: see `Runtime.answer`."""

    caller: Caller = "direct"
    tools: Collection[str] | None = None
    meta: Collection[str] = META_TOOLS
    limits: Limits | None = None
    on_event: Callable[[Event], None] | None = None
    session: Session | None = None


class Answers:
    """Answers calls over one set of tools.

    Args:
        core: the tools, and what runs over them.
        names: what a model calls them.
    """

    def __init__(self, core: Core, names: ModelNames) -> None:
        self._core = core
        self._names = names
        self._reach: tuple[tuple[Tool, ...], frozenset[str] | None, frozenset[str] | None] | None = None

    async def answer(self, name: str, arguments: Mapping[str, Any] | str | None, call: Call) -> Answer:
        """See `Runtime.answer`."""
        name = str(name)
        if self._names.resolve(name) is None:
            name = meant(name, call.meta)
        shown = name[:256]
        try:
            given = decoded(name, arguments, self._core.limits.max_message_bytes)
            if name in META_TOOLS:
                if name not in call.meta:
                    raise ToolError(f"{name} is not in your list of tools", tool=name)
                return await self._meta(name, given, call)
            return await self._tool(name, given, call)
        except ToolError as error:
            return Answer(name=shown, text=error_text(error.message), ok=False, mistake=True)
        except LimitReached as error:
            return Answer(name=shown, text=f"Error: {error}", ok=False)

    async def _meta(self, name: MetaTool, given: Any, call: Call) -> Answer:
        if call.caller != "direct":
            raise ToolError(f"{name} may be called by the model itself, and not by a program", tool=name)
        if name == "execute_tool_plan":  # it reads what it is given in more forms than a schema says
            plan = await self._core.plan(tools=call.tools, limits=call.limits, on_event=call.on_event).execute(given)
            mistake = plan.error is not None and plan.error.kind == "PlanRefused" and not plan.changed
            text = plan.for_model()
            if mistake and any(fault.code == "not-json" for fault in plan.faults) and is_cut_off(given):
                text = f"{text}\n- {CUT_OFF}."
            return Answer(name=name, text=text, ok=plan.ok, mistake=mistake, result=plan)
        if name == "execute_code":
            return await self._code(source(given), call)
        arguments = validated(name, without_nulls(name, as_object(name, given)))
        among = self.reachable(call.tools)
        if name == "describe_tools":
            described_tools = self._core.search.describe(
                [self._names.resolve(each) or each for each in arguments["names"]],
                among=among,
                hint="search_tools" in call.meta,
            )
            found = tuple(tool.name for tool in described_tools.tools)
            return Answer(name=name, text=described_tools.for_model(), result=described_tools, found=found)
        result = await self._core.search.ask(arguments.pop("query", ""), among=among, **arguments)
        found = tuple(each.tool.name for each in result.found)
        text = result.for_model(describe="describe_tools" in call.meta)
        return Answer(name=name, text=text, result=result, found=found)

    async def _code(self, code: str, call: Call) -> Answer:
        if call.session is not None:
            run = await call.session.execute_code(code, tools=call.tools, on_event=call.on_event)
        else:
            run = await self._core.execute_code(code, tools=call.tools, limits=call.limits, on_event=call.on_event)
        refused = run.error is not None and run.error.kind == "CheckFailed"
        return Answer(name="execute_code", text=run.for_model(), ok=run.ok, mistake=refused, result=run)

    async def _tool(self, given_name: str, given: Any, call: Call) -> Answer:
        name = self._names.resolve(given_name) or given_name
        limits = self._core.limits if call.limits is None else call.limits
        gate = self._core.gate.open(caller=call.caller, limits=limits, allowed=call.tools, on_event=call.on_event)
        tool = self._core.registry.get(name) if name in self._core.registry else None
        arguments = as_object(name, given) if tool is None else own_arguments(tool, as_object(name, given))
        text: str | None = None
        with anyio.move_on_after(limits.wall_seconds) as scope:
            try:
                text = await gate.call(name, arguments)
            except ToolError as error:
                if not scope.cancel_called:  # else the tool made something of its own of being cancelled
                    return self._failed(gate, name, given_name, tool, call, error)
        assert tool is not None
        if text is None:
            return Answer(name=name, text=f"Error: {_given_up(tool, gate, limits)}", ok=False)
        value = json.loads(text)
        shown = text if call.caller == "code" else value_text(value, text)
        return Answer(name=name, text=shown, value=value, bare=promises_object(tool))

    def _failed(self, gate: RunGate, name: str, given: str, tool: Tool | None, call: Call, error: ToolError) -> Answer:
        asked = name in gate.offer.by_name and isinstance(error, ToolNotAllowed)  # a person, or nobody was there
        refused = gate.records[-1].status == "refused" and not asked
        text = error_text(f"{error.message}{self._hint(error, given, tool, call)}")
        return Answer(name=name[:256], text=text, ok=False, mistake=refused)

    def _hint(self, error: ToolError, given: str, tool: Tool | None, call: Call) -> str:
        """What the model may do instead."""
        if tool is None and "did you mean" not in error.message:
            search = "; search_tools finds the tools that there are" if "search_tools" in call.meta else ""
            return did_you_mean(given, call.meta) or search
        if tool is not None and call.caller not in tool.allowed_callers:
            if "code" in tool.allowed_callers and "execute_code" in call.meta:
                return "; call it in a program, with execute_code"
            if "plan" in tool.allowed_callers and "execute_tool_plan" in call.meta:
                return "; make it a step of a plan, with execute_tool_plan"
        return ""

    def reachable(self, allowed: Collection[str] | None) -> frozenset[str] | None:
        """Names of the tools that a model can call in any way; None where these are all."""
        tools = self._core.registry.tools()
        wanted = None if allowed is None else frozenset(self._names.resolve(name) or name for name in allowed)
        if self._reach is None or self._reach[0] is not tools or self._reach[1] != wanted:
            within = frozenset(t.name for t in tools if t.allowed_callers and (wanted is None or t.name in wanted))
            self._reach = (tools, wanted, None if len(within) == len(tools) else within)
        return self._reach[2]


def _given_up(tool: Tool, gate: RunGate, limits: Limits) -> str:
    """Why the time was over, and what became of the call."""
    over = LimitReached("wall_seconds", limits.wall_seconds)
    last = gate.records[-1]  # the tool's own call, or that of its fallback
    called = gate.offer.by_name.get(last.tool, tool)
    if called.requires_approval and not last.attempts:
        return f"{over}: tool {called.name!r} was not called, since nobody had approved it by then"
    unknown = "; it may have done its work all the same: the outcome is unknown, find out before you call it again"
    return f"{over}: tool {called.name!r} had not answered by then{'' if called.repeatable else unknown}"
