"""The lists of tools that clients see: the meta-tools, and the tools passed through. Knows what the server adds to the
runtime's definitions: sessions, the calls made, and hints that follow from the tools.

1. A list is made anew when the tools have changed; the tools of one server change at most once a second. The gate
   decides whether a tool may still be called: the gate knows the tools of this moment.
2. Clients drop long messages over HTTP, so a list comes in pages there. A page's cursor is the number of tools before
   the page: a list that changes between two pages may show a tool twice or leave one out, and clients are notified of
   the change.
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
from callgate.runtime import Conversation, Runtime
from callgate.runtime.model import BACKGROUND, META_TOOLS
from callgate.runtime.model.foreign import ModelNames
from callgate.tools import Caller, Registry, Tool
from callgate.tools.faults import printable

from .clients import NEW, Client, Serving
from .results import CALLS_SCHEMA, MAX_LEVELS, SESSION_SCHEMA, too_deep

__all__ = ["MAX_PAGE_BYTES", "Listing", "chosen", "page"]

logger = logging.getLogger("callgate")

MAX_PAGE_BYTES = 750_000
"""Of one page; a tool that is longer has a page of its own."""
_SESSION = {
    "type": "string",
    "description": (
        f'Leave it out for a program that starts afresh. "{NEW}" starts afresh, too, and keeps variables, functions '
        "and imports after the program ends; the answer names the session. Pass that name to go on with them."
    ),
}
_AFRESH = "Each program starts afresh."
_AFRESH_OR_NOT = "Each program starts afresh, unless it goes on in a session (see there)."
_META: dict[str, tuple[str, Caller | None]] = {
    "search_tools": ("Search the tools", None),
    "describe_tools": ("Describe tools", None),
    "execute_code": ("Run a program", "code"),
    "execute_tool_plan": ("Run a plan of tool calls", "plan"),
    "read_artifact": ("Read a file", None),
    "start_code": ("Start a program in the background", "code"),
    "wait_run": ("Wait for a program in the background", None),
    "stop_run": ("Stop a program in the background", None),
}
"""The title of each meta-tool, and the caller as which its runs call tools."""


class Listing:
    """The tools that clients of one server see.

    Args:
        runtime: has the tools.
        serving: says which tools clients see as they are.
    """

    def __init__(self, runtime: Runtime, serving: Serving) -> None:
        self._runtime = runtime
        self._serving = serving
        self._meta = (*META_TOOLS, *BACKGROUND) if serving.background else META_TOOLS
        self._tools: list[McpTool] = []
        self._direct: tuple[str, ...] = ()
        """The tools passed through."""
        self._made_of: object = None
        """The registry's tools of which the two were made."""
        self._logged: set[str] = set()
        """Names of tools that cannot be listed and are in the log already."""

    def tools(self) -> list[McpTool]:
        """The tools that every client sees; the same object until the list is made anew."""
        now = self._runtime.registry.tools()
        if now is not self._made_of:
            self._made_of = now
            self._direct = chosen(self._runtime.registry, self._serving.direct)
            try:
                self._tools = self._listed(self._runtime.tool_definitions("mcp", direct=self._direct, meta=self._meta))
            except Exception:
                logger.exception("the list of tools could not be made; clients see the one before")
        return self._tools

    def tools_of(self, client: Client) -> list[McpTool]:
        """The tools that one client sees."""
        tools = self.tools()
        if not self._serving.reveal:
            return tools
        conversation = self.conversation(client)
        found = conversation.found
        before = client.listed
        if len(client.artifacts):
            found = (*found, "read_artifact")
        if before is None or before[0] is not tools or before[1] != found:
            before = client.listed = tools, found, self._listed(conversation.tool_definitions("mcp"))
        return before[2]

    def conversation(self, client: Client) -> Conversation:
        """The conversation of the client's model, which learns from searches whether or not the list grows by them."""
        self.tools()
        before = client.conversation
        if before is None or client.direct != self._direct:
            client.direct = self._direct
            state = None if before is None else before.state()
            before = client.conversation = self._runtime.conversation(
                direct=self._direct, meta=self._meta, grows=self._serving.reveal, state=state,
                artifacts=client.artifacts, owner=client.runs,
            )  # fmt: skip
        return before

    def instructions(self) -> str:
        """The server's introduction for the client's model; names only what is offered."""
        sandbox = self._has_sandbox()
        programs = "Python that calls the tools" if sandbox else "Python that is a graph of tool calls"
        parts = [
            "callgate stands in front of many tools. Find them with search_tools, read their parameters with "
            f"describe_tools, and do the whole job in one call: execute_code runs {programs}, execute_tool_plan runs a "
            "JSON plan of calls."
        ]
        if self._serving.direct:
            parts.append("Other tools in the list may be called by themselves: for one or two quick calls, do that.")
        if self._serving.reveal:
            parts.append("What search_tools finds is added to the list where the client has a session.")
        if sandbox:
            parts.append("Programs see each other's variables where they name the same session.")
        return " ".join(parts)

    def _has_sandbox(self) -> bool:
        try:
            _ = self._runtime.backend
        except ConfigurationError:
            return False
        return True

    def _listed(self, given: Iterable[dict[str, Any]]) -> list[McpTool]:
        """The definitions of the runtime, or of a conversation, as MCP tools."""
        names = ModelNames(self._runtime.registry)
        return [tool for each in given if (tool := self._carried(names, each)) is not None]

    def _carried(self, names: ModelNames, given: dict[str, Any]) -> McpTool | None:
        """One tool; None if no client could read its schemas. One bad tool does not hide the others."""
        try:
            tool = self._made(names, given)
            if not (too_deep(tool.input_schema) or too_deep(tool.output_schema)):
                return tool
            why = f"its schemas are nested more than {MAX_LEVELS} levels deep"
        except Exception as error:
            why = repr(error)[:300]
        name = printable(str(given.get("name"))[:100])
        if name not in self._logged:
            self._logged.add(name)
            logger.warning("the tool %s is not listed: %s", name, printable(why))
        return None

    def _made(self, names: ModelNames, given: dict[str, Any]) -> McpTool:
        registry = self._runtime.registry
        tool = McpTool.model_validate(given)
        if tool.name in _META:
            title, caller = _META[tool.name]
            tool.annotations = _hints(title, registry, caller)
            if tool.name in ("execute_code", "execute_tool_plan"):
                _add(tool, calls=CALLS_SCHEMA)
            if tool.name == "execute_code":
                _add(tool, session=SESSION_SCHEMA)
                if self._has_sandbox():
                    tool.description = (tool.description or "").replace(_AFRESH, _AFRESH_OR_NOT)
                    tool.input_schema["properties"]["session"] = _SESSION
        elif (known := names.resolve(tool.name)) is not None:
            _pass_on_words(tool, registry.get(known))
        return tool


def chosen(registry: Registry, patterns: Iterable[str]) -> tuple[str, ...]:
    """The names of the tools that the patterns name and that a model may call directly.

    Args:
        registry: has the tools.
        patterns: names, ``server.tool``, or patterns of either (``*``, ``?``, ``[...]``).
    """
    patterns = tuple(patterns)
    exact = {registry.resolve(pattern) for pattern in patterns}

    def fits(tool: Tool) -> bool:
        dotted = f"{tool.server}.{tool.server_tool or tool.name}" if tool.server else tool.name
        return any(fnmatchcase(name, pattern) for name in (tool.name, dotted) for pattern in patterns)

    return tuple(
        tool.name
        for tool in registry.tools()
        if "direct" in tool.allowed_callers and (tool.name in exact or fits(tool))
    )


def page(tools: list[McpTool], cursor: str | None) -> tuple[list[McpTool], str | None]:
    """The tools of one page, and the cursor of the next.

    Raises:
        ValueError: no page has that cursor.
    """
    start = 0
    if cursor is not None:
        if not (cursor.isascii() and cursor.isdecimal() and len(cursor) < 8 and 0 < int(cursor) <= len(tools)):
            raise ValueError(f"there is no page {cursor[:40]!r}: begin without a cursor")
        start = int(cursor)
    size = 0
    for place in range(start, len(tools)):
        size += len(tools[place].model_dump_json(by_alias=True, exclude_none=True).encode()) + 1
        if size > MAX_PAGE_BYTES and place > start:
            return tools[start:place], str(place)
    return tools[start:], None


def _pass_on_words(tool: McpTool, known: Tool) -> None:
    """Add the title and the hints of the tool's server, without the hints that the operator changed."""
    if isinstance(known, ImportedTool):
        tool.title = known.title
        changed = () if known.keeps_its_hints else ("readOnlyHint", "destructiveHint", "idempotentHint")
        kept = {name: value for name, value in known.annotations.items() if name not in changed}
        ours = ToolAnnotations() if tool.annotations is None else tool.annotations
        tool.annotations = ToolAnnotations.model_validate({**ours.model_dump(by_alias=True), **kept})


def _hints(title: str, registry: Registry, caller: Caller | None) -> ToolAnnotations:
    """The hints of a meta-tool follow from the tools that its runs may call: the sandbox itself changes nothing."""
    offered = [tool for tool in registry.tools() if caller in tool.allowed_callers]
    return ToolAnnotations(
        title=title,
        read_only_hint=all(tool.read_only for tool in offered),
        destructive_hint=any(tool.destructive for tool in offered),
        idempotent_hint=all(tool.repeatable for tool in offered),
        open_world_hint=bool(offered),
    )


def _add(tool: McpTool, **properties: dict[str, Any]) -> None:
    if tool.output_schema is not None:
        tool.output_schema["properties"].update(properties)
        tool.output_schema["required"] = [*tool.output_schema.get("required", ()), *properties]
