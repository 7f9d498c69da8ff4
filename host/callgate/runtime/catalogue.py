"""The tools of a run as a program sees them: for `check`, for the `execute` request, and for the fast path. Made once
per offer.

In a namespace a tool is also known by what the server calls it, where Python takes that for an attribute: as well as
``files.list_`` there is ``files.list``.

Built-in tools are in all of it. What they are called besides (`tools.search`) is a member of the namespace ``""``,
which is the module `tools`: there a tool or a server of that name goes first.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Final

from callgate.program import ToolShape
from callgate.protocol.run import encode_tools
from callgate.tools import Tool
from callgate.tools.names import is_attribute
from callgate_guest.wire import DESCRIBE_TOOLS

from .offer import Offer

if TYPE_CHECKING:
    from callgate.program.graph.reading.scope import GraphTools

__all__ = ["Catalogue"]

SEARCH_TOOLS: Final = "search_tools"
_SHORT: Final = {"search": SEARCH_TOOLS, "describe": DESCRIBE_TOOLS}
"""What built-in tools are called in the module `tools`."""
_MOST_DOCS: Final = 16 * 1024
"""Characters of docstrings that are sent with each program. Beyond, `describe_tools` tells what a tool does."""
_LEAST_DOC: Final = 16
"""Characters of a docstring, at least; of more tools than fit then, none is asked."""


class Catalogue:
    """What a program may call.

    Args:
        offer: what its run may call.
    """

    def __init__(self, offer: Offer) -> None:
        self.offer = offer
        self.tools: Mapping[str, Tool] = offer.by_name
        names = offer.vocabulary.callable_names
        self._names = {tool.name: names[tool.name] for tool in offer.tools} | {
            tool.name: tool.name for tool in offer.builtins
        }
        self.namespaces: dict[str, dict[str, str]] = {}
        """Names in programs, by namespaces and by what they are called there."""
        for server, members in offer.vocabulary.namespaces.items():
            offered = {member: names[tool] for member, tool in members.items() if tool in self.tools}
            if offered:
                self.namespaces[server] = offered | self._as_they_are(members)
        taken = {*self._names.values(), *self.namespaces}
        short = {name: tool for name, tool in _SHORT.items() if tool in self.tools and name not in taken}
        if short:
            self.namespaces[""] = short
        self.shapes = {name: _shape(name, self.tools[tool]) for tool, name in self._names.items()}

    def _as_they_are(self, members: Mapping[str, str]) -> dict[str, str]:
        """What the server calls its tools, where only a variable could not be called so: ``files.list``."""
        found: dict[str, str] = {}
        for tool in members.values():
            own = self.tools[tool].server_tool if tool in self.tools else None
            if own and own not in members and is_attribute(own):
                found.setdefault(own, self._names[tool])
        return found

    def resolve(self, name: str) -> str | None:
        """The tool's name in programs, for any way to write it; None where no tool of the run is meant."""
        return self._names.get(self.offer.canonical(name))

    @cached_property
    def wire(self) -> str:
        """The tools as members of the `execute` request: JSON text."""
        listed = [(name, tool, _words(self.tools[tool])) for tool, name in self._names.items()]
        return encode_tools(listed, self.namespaces, self._docs())

    def _docs(self) -> list[str] | None:
        """What the tools say of themselves, or their first lines, or nothing where there are too many."""
        tools = [self.tools[tool] for tool in self._names]
        if len(tools) * _LEAST_DOC > _MOST_DOCS:
            return None
        for docs in (
            [_docstring(tool) for tool in tools],
            [tool.description.strip().partition("\n")[0] for tool in tools],
        ):
            if sum(map(len, docs)) <= _MOST_DOCS:
                return docs
        return None

    @cached_property
    def graph_tools(self) -> GraphTools:
        """What the fast path has to know of them."""
        from callgate.program.graph.reading.scope import GraphTool, GraphTools

        tools = {}
        for name, called in self._names.items():
            tool = self.tools[name]
            tools[called] = GraphTool(
                name, called, tuple(tool.parameters), self._early(tool), tool.spellings, variadic=name == DESCRIBE_TOOLS
            )
        return GraphTools(tools, self.namespaces, self.resolve)

    def _early(self, tool: Tool | None) -> bool:
        """Whether a call can do no harm before the program gets there, and neither can the tools that it falls back
        to."""
        seen: set[str] = set()
        while tool is not None and tool.name not in seen:
            if not tool.read_only or tool.requires_approval:
                return False
            seen.add(tool.name)
            tool = None if tool.fallback is None else self.tools.get(self.offer.canonical(tool.fallback))
        return True


def _words(tool: Tool) -> list[str]:
    """Its parameters, as a program writes them."""
    written = {name: spelling for spelling, name in tool.spellings.items()}
    required = frozenset(tool.input_schema.get("required", ()))
    return [written.get(name, name) + ("" if name in required else "=") for name in tool.parameters]


def _docstring(tool: Tool) -> str:
    """What a tool says of itself and of its arguments."""
    properties = tool.input_schema.get("properties", {})
    about = {
        name: told["description"]
        for name in tool.parameters
        if isinstance(told := properties.get(name), dict) and isinstance(told.get("description"), str)
    }
    text = tool.description.strip()
    lines = [f"    {name}: {' '.join(words.split())}" for name, words in about.items()]
    return "\n".join([text, "", "Args:", *lines]).strip() if lines else text


def _shape(name: str, tool: Tool) -> ToolShape:
    schema = tool.input_schema
    return ToolShape(
        name=name,
        parameters=tuple(tool.parameters),
        required=frozenset(schema.get("required", ())),
        accepts_any=bool(schema.get("additionalProperties", False)) or "patternProperties" in schema,
        variadic=tool.name == DESCRIBE_TOOLS,
        output_schema=tool.output_schema,
        spellings=tool.spellings,
        listed=tool.name not in (SEARCH_TOOLS, DESCRIBE_TOOLS),
    )
