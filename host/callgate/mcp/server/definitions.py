"""The list of tools that a client sees: the meta-tools, and the tools passed through. Knows what the server adds to the
runtime's definitions: sessions, the calls made, and hints by what the tools are.
"""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any

from mcp_types import Tool as McpTool
from mcp_types import ToolAnnotations

from callgate.runtime import Runtime
from callgate.tools import Caller, Registry, Tool

from .results import CALLS_SCHEMA, SESSION_SCHEMA
from .sandboxes import NEW

__all__ = ["chosen", "definitions"]

_SESSION = {
    "type": "string",
    "description": (
        f'Leave it out for a program that stands alone. "{NEW}" keeps its variables, functions and imports after it '
        "ends; the answer names the session. Pass that name to go on with them."
    ),
}


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


def definitions(runtime: Runtime, given: Iterable[dict[str, Any]]) -> list[McpTool]:
    """Tools as MCP lists them.

    Args:
        runtime: whose tools.
        given: the runtime's definitions, or a conversation's.
    """
    return [_made(runtime.registry, each) for each in given]


def _made(registry: Registry, given: dict[str, Any]) -> McpTool:
    tool = McpTool.model_validate(given)
    match tool.name:
        case "search_tools" | "describe_tools":
            tool.annotations = ToolAnnotations(
                title=_TITLES[tool.name], read_only_hint=True, destructive_hint=False, idempotent_hint=True,
                open_world_hint=False,
            )  # fmt: skip
        case "execute_code":
            tool.annotations = _hints(tool.name, registry, "code")
            tool.input_schema["properties"]["session"] = _SESSION
            _add(tool, calls=CALLS_SCHEMA, session=SESSION_SCHEMA)
        case "execute_tool_plan":
            tool.annotations = _hints(tool.name, registry, "plan")
            _add(tool, calls=CALLS_SCHEMA)
    return tool


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
