"""The list of tools that a client sees: the meta-tools, and the tools passed through. Knows what the server adds to the
runtime's definitions: sessions, the calls made, and hints by what the tools are.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from mcp_types import Tool as McpTool
from mcp_types import ToolAnnotations

from callgate.errors import ConfigurationError
from callgate.mcp.verbatim import ImportedTool
from callgate.runtime import Runtime
from callgate.runtime.model.foreign import ModelNames
from callgate.tools import Caller, Registry, Tool
from callgate.tools.faults import printable

from .carrying import MAX_LEVELS, too_deep
from .options import Serving
from .results import CALLS_SCHEMA, SESSION_SCHEMA
from .sandboxes import NEW

__all__ = ["chosen", "definitions", "instructions"]

logger = logging.getLogger("callgate")

_SESSION = {
    "type": "string",
    "description": (
        f'Leave it out for a program that starts afresh. "{NEW}" starts afresh, too, and keeps variables, functions '
        "and imports after the program ends; the answer names the session. Pass that name to go on with them."
    ),
}
_AFRESH = "Each program starts afresh."
_AFRESH_OR_NOT = "Each program starts afresh, unless it goes on in a session (see there)."


def chosen(registry: Registry, patterns: Iterable[str]) -> tuple[str, ...]:
    """The tools that the patterns name and that a model may call directly, sorted.

    Args:
        registry: the tools.
        patterns: names, ``server.tool``, or patterns of either (``*``, ``?``, ``[...]``).
    """
    patterns = tuple(patterns)
    exact = {registry.resolve(pattern) for pattern in patterns}
    return tuple(
        tool.name
        for tool in registry.tools()
        if "direct" in tool.allowed_callers and (tool.name in exact or any(_fits(tool, each) for each in patterns))
    )


def definitions(runtime: Runtime, given: Iterable[dict[str, Any]], told: set[str]) -> list[McpTool]:
    """Tools as MCP lists them.

    Args:
        runtime: whose tools.
        given: the runtime's definitions, or a conversation's.
        told: names of tools that cannot be listed, and of which the log knows; more are added.
    """
    names = ModelNames(runtime.registry)
    return [tool for each in given if (tool := _carried(runtime, names, each, told)) is not None]


def instructions(runtime: Runtime, serving: Serving) -> str:
    """What the client's model is told of the whole server, by what is offered."""
    sandbox = _has_sandbox(runtime)
    programs = "Python that calls the tools" if sandbox else "Python that is a graph of tool calls"
    parts = [
        "callgate stands in front of many tools. Find them with search_tools, read their parameters with "
        f"describe_tools, and do the whole job in one call: execute_code runs {programs}, execute_tool_plan runs a "
        "JSON plan of calls."
    ]
    if serving.direct:
        parts.append("Other tools in the list may be called by themselves: for one or two quick calls, do that.")
    if serving.reveal:
        parts.append("What search_tools finds is added to the list where the client has a session.")
    if sandbox:
        parts.append("Programs see each other's variables where they name the same session.")
    return " ".join(parts)


def _has_sandbox(runtime: Runtime) -> bool:
    try:
        _ = runtime.backend
    except ConfigurationError:
        return False
    return True


def _carried(runtime: Runtime, names: ModelNames, given: dict[str, Any], told: set[str]) -> McpTool | None:
    """One tool; None where no client could read its schemas. One bad tool does not cost the others."""
    try:
        tool = _made(runtime, names, given)
        if not (too_deep(tool.input_schema) or too_deep(tool.output_schema)):
            return tool
        why: object = f"its schemas are nested more than {MAX_LEVELS} levels deep"
    except Exception as error:
        why = repr(error)[:300]
    name = printable(str(given.get("name"))[:100])
    if name not in told:
        told.add(name)
        logger.warning("the tool %s is not listed: %s", name, printable(str(why)))
    return None


def _made(runtime: Runtime, names: ModelNames, given: dict[str, Any]) -> McpTool:
    registry = runtime.registry
    tool = McpTool.model_validate(given)
    match tool.name:
        case "search_tools" | "describe_tools":
            tool.annotations = ToolAnnotations(
                title=_TITLES[tool.name], read_only_hint=True, destructive_hint=False, idempotent_hint=True,
                open_world_hint=False,
            )  # fmt: skip
        case "execute_code":
            tool.annotations = _hints(tool.name, registry, "code")
            if _has_sandbox(runtime):
                tool.description = (tool.description or "").replace(_AFRESH, _AFRESH_OR_NOT)
                tool.input_schema["properties"]["session"] = _SESSION
            _add(tool, calls=CALLS_SCHEMA, session=SESSION_SCHEMA)
        case "execute_tool_plan":
            tool.annotations = _hints(tool.name, registry, "plan")
            _add(tool, calls=CALLS_SCHEMA)
        case name:
            known = names.resolve(name)
            if known is not None:
                _say(tool, registry.get(known))
    return tool


def _say(tool: McpTool, known: Tool) -> None:
    """What the tool's server said for people; its hints as far as the operator has not changed them."""
    if isinstance(known, ImportedTool):
        tool.title = known.title
        changed = () if known.keeps_its_hints else ("readOnlyHint", "destructiveHint", "idempotentHint")
        kept = {name: said for name, said in known.annotations.items() if name not in changed}
        ours = ToolAnnotations() if tool.annotations is None else tool.annotations
        tool.annotations = ToolAnnotations.model_validate({**ours.model_dump(by_alias=True), **kept})


_TITLES = {
    "search_tools": "Search the tools",
    "describe_tools": "Describe tools",
    "execute_code": "Run a program",
    "execute_tool_plan": "Run a plan of tool calls",
}


def _hints(name: str, registry: Registry, caller: Caller) -> ToolAnnotations:
    """What a run may do is what the tools that it may call do: the sandbox itself changes nothing."""
    offered = [tool for tool in registry.tools() if caller in tool.allowed_callers]
    read_only = all(tool.read_only for tool in offered)
    return ToolAnnotations(
        title=_TITLES[name],
        read_only_hint=read_only,
        destructive_hint=any(tool.destructive for tool in offered),
        idempotent_hint=all(tool.repeatable for tool in offered),
        open_world_hint=bool(offered),
    )


def _add(tool: McpTool, **properties: dict[str, Any]) -> None:
    if tool.output_schema is not None:
        tool.output_schema["properties"].update(properties)
        tool.output_schema["required"] = [*tool.output_schema.get("required", ()), *properties]


def _fits(tool: Tool, pattern: str) -> bool:
    dotted = f"{tool.server}.{tool.server_tool or tool.name}" if tool.server else tool.name
    return fnmatchcase(tool.name, pattern) or fnmatchcase(dotted, pattern)
