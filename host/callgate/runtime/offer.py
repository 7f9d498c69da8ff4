"""What a run may call (the tools that allow its caller, cut down to the run's allow-list), and how a program sees it.

1. An empty allow-list means nothing at all. A tool that exists and is not offered is refused in words of its own, and
   never suggested.
2. An offer is of one moment: tools that come later are seen by runs opened later, under whatever names they then have.
3. Built-in tools are the host's own (`search_tools`): they have reserved names, are in no registry and in no listing,
   and come with whatever else is offered; where nothing is, neither are they. They find what the run itself may call,
   and nothing else.
4. In a namespace a program knows a tool also by what the server calls it, where Python takes that for an attribute: as
   well as ``files.list_`` there is ``files.list``. What built-in tools are called besides (`tools.search`) is a member
   of the namespace ``""``, which is the module `tools`: there a tool or a server of that name goes first.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

from callgate.errors import ConfigurationError, ToolError, ToolNotAllowed, ToolNotFound
from callgate.program import ToolShape
from callgate.protocol.run import encode_tools
from callgate.tools import Caller, Registry, Tool, is_reserved, python_name
from callgate.tools.faults import did_you_mean
from callgate.tools.names import MAX_NAME_CHARACTERS, is_attribute
from callgate.tools.namespaces import Vocabulary
from callgate_guest.wire import DESCRIBE_TOOLS

if TYPE_CHECKING:
    from callgate.program.graph.reading.scope import GraphTools

    from .discovery.search import ToolSearch

__all__ = ["Builtins", "Offer", "Source", "search_builtins"]

SEARCH_TOOLS: Final = "search_tools"
_SHORT: Final = {"search": SEARCH_TOOLS, "describe": DESCRIBE_TOOLS}
"""What built-in tools are called in the module `tools`."""
_MOST_DOCS: Final = 16 * 1024
"""Characters of docstrings that are sent with each program. Beyond, `describe_tools` tells what a tool does."""
_LEAST_DOC: Final = 16
"""Characters of a docstring, at least; of more tools than fit then, none is asked."""


Builtins = Callable[["Offer"], Iterable[Tool]]
"""Gives the built-in tools that come with an offer, which has none yet. Asked once for each offer."""


@dataclass(frozen=True, eq=False)
class Offer:
    """What one kind of run may call, and how a program sees it: for `check`, for the `execute` request, and for the
    fast path."""

    caller: Caller
    registry: Registry
    tools: tuple[Tool, ...]
    """Sorted by name."""
    by_name: dict[str, Tool]
    """Built-in ones among them."""
    vocabulary: Vocabulary
    """The names of all tools there were, offered or not."""
    builtins: tuple[Tool, ...] = ()

    @classmethod
    def made(
        cls, registry: Registry, caller: Caller, allowed: Collection[str] | None, builtins: Builtins | None = None
    ) -> Offer:
        """What this caller may call now.

        Args:
            registry: the tools.
            caller: who calls.
            allowed: names of tools; None stands for all of them, empty for none.
            builtins: gives the built-in tools.

        Raises:
            ConfigurationError: `allowed` or a tool's `fallback` names no tool.
        """
        vocabulary, everything = registry.vocabulary(), registry.tools()
        meant = None if allowed is None else {_meant(registry, vocabulary, name) for name in sorted(allowed)}
        if not registry.has_servers:  # else it may be a tool that comes later, or came before: its call will say
            _check_fallbacks(registry, everything)
        offered = [tool for tool in everything if caller in tool.allowed_callers]
        tools = tuple(tool for tool in offered if meant is None or tool.name in meant)
        offer = cls(caller, registry, tools, {tool.name: tool for tool in tools}, vocabulary)
        if builtins is None or not tools:
            return offer
        more = tuple(tool for tool in builtins(offer) if caller in tool.allowed_callers)
        for tool in more:
            if not is_reserved(tool.name):
                raise ConfigurationError(f"a built-in tool cannot be called {tool.name!r}: its name must be reserved")
        return replace(offer, by_name=offer.by_name | {tool.name: tool for tool in more}, builtins=more)

    def canonical(self, name: str) -> str:
        """The name of the tool that is meant (see `Registry.resolve`), or the name itself where none is."""
        return name if name in self.by_name else self.vocabulary.resolve(name) or name

    def refusal(self, name: str, *, suggest: bool) -> ToolError:
        """Why a name that is not in `by_name` cannot be called.

        Args:
            name: the name that was asked for, in whatever way.
            suggest: whether to look for the nearest name; that costs the host time.
        """
        name = self.canonical(name)
        if name in self.registry:
            callers = self.registry.get(name).allowed_callers
            if self.caller in callers:
                return ToolNotAllowed(f"tool {name!r} is not among the tools that this run may call", tool=name)
            who = f"it is for: {', '.join(callers)}" if callers else "nobody may"
            return ToolNotAllowed(f"tool {name!r} may not be called by {self.caller}; {who}", tool=name)
        absent = self.vocabulary.why_absent(name)
        hint = f"; {absent}" if absent else ""
        if suggest and not absent:
            hint = did_you_mean(name, self._of_its_server(name)) or did_you_mean(name, self.by_name)
        return ToolNotFound(f"there is no tool {name[:60]!r}{hint}", tool=name[:60])

    def _of_its_server(self, name: str) -> Iterable[str]:
        """What may be called of the server that ``server.tool`` is about."""
        server, dot, _ = name.rpartition(".")
        known = python_name(server[:MAX_NAME_CHARACTERS]) if dot else ""
        for member, tool in self.vocabulary.namespaces.get(known, {}).items():
            if tool in self.by_name:
                yield f"{known}.{member}"

    # as a program sees it

    @cached_property
    def called(self) -> dict[str, str]:
        """Names in programs, by the tools' own."""
        names = self.vocabulary.callable_names
        return {tool.name: names.get(tool.name, tool.name) for tool in (*self.tools, *self.builtins)}

    @cached_property
    def namespaces(self) -> dict[str, dict[str, str]]:
        """Names in programs, by namespaces and by what they are called there."""
        spaces: dict[str, dict[str, str]] = {}
        for server, members in self.vocabulary.namespaces.items():
            offered = {member: self.called[tool] for member, tool in members.items() if tool in self.by_name}
            if offered:
                spaces[server] = offered | self._as_they_are(members)
        taken = {*self.called.values(), *spaces}
        short = {name: tool for name, tool in _SHORT.items() if tool in self.by_name and name not in taken}
        return spaces | ({"": short} if short else {})

    def _as_they_are(self, members: Mapping[str, str]) -> dict[str, str]:
        """What the server calls its tools, where only a variable could not be called so: ``files.list``."""
        found: dict[str, str] = {}
        for tool in members.values():
            own = self.by_name[tool].server_tool if tool in self.by_name else None
            if own and own not in members and is_attribute(own):
                found.setdefault(own, self.called[tool])
        return found

    @cached_property
    def shapes(self) -> dict[str, ToolShape]:
        """What `check` has to know of them, by their names in programs."""
        return {name: _shape(name, self.by_name[tool]) for tool, name in self.called.items()}

    def resolve(self, name: str) -> str | None:
        """The tool's name in programs, for any way to write it; None where no tool of the run is meant."""
        return self.called.get(self.canonical(name))

    @cached_property
    def wire(self) -> str:
        """The tools as members of the `execute` request: JSON text."""
        listed = [(name, tool, _words(self.by_name[tool])) for tool, name in self.called.items()]
        return encode_tools(listed, self.namespaces, self._docs())

    def _docs(self) -> list[str] | None:
        """What the tools say of themselves, or their first lines, or nothing where there are too many."""
        tools = [self.by_name[tool] for tool in self.called]
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
        for name, called in self.called.items():
            tool = self.by_name[name]
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
            tool = None if tool.fallback is None else self.by_name.get(self.canonical(tool.fallback))
        return True


def _meant(registry: Registry, vocabulary: Vocabulary, name: str) -> str:
    found = vocabulary.resolve(name)
    if found is None:
        absent = vocabulary.why_absent(name)
        hint = f"; {absent}" if absent else did_you_mean(name, registry.names())
        raise ConfigurationError(f"allowed names the tool {name!r}, which does not exist{hint}")
    return found


def _check_fallbacks(registry: Registry, tools: Iterable[Tool]) -> None:
    for tool in tools:
        if tool.fallback is not None and registry.resolve(tool.fallback) is None:
            hint = did_you_mean(tool.fallback, registry.names())
            raise ConfigurationError(
                f"tool {tool.name!r} names the fallback {tool.fallback!r}, which does not exist{hint}"
            )


_SEARCHES = """Find tools by what they do.

Returns:
    {"found": [{"name", "python_name", "description", "signature", ...}], "total"}, the best first."""
_DESCRIBES = """All there is to know of some tools: arguments, results, limits.

Returns:
    {"tools": [{"name", "python_name", "description", "signature", "input_schema", ...}], "unknown"}."""


def search_builtins(search: Callable[[], ToolSearch]) -> Builtins:
    """`search_tools` and `describe_tools` for `Gate(builtins=...)`: what a program and a plan may call to look around.
    They answer with JSON values, not with text.

    Args:
        search: gives the search over the tools of the gate.
    """

    def builtins(offer: Offer) -> Iterable[Tool]:
        from .model.meta import input_schema

        among = frozenset(tool.name for tool in offer.tools)

        async def search_tools(query: str = "", **options: Any) -> dict[str, Any]:
            return (await search().ask(query, among=among, **options)).to_json()

        async def describe_tools(names: list[str]) -> dict[str, Any]:
            return search().describe(names, among=among).to_json()

        searching = input_schema(SEARCH_TOOLS)
        for name in ("server", "capability"):  # a program may well pass on None
            searching["properties"][name]["type"] = ["string", "null"]
        return [
            Tool.from_schema(SEARCH_TOOLS, _SEARCHES, searching, search_tools, read_only=True),
            Tool.from_schema(DESCRIBE_TOOLS, _DESCRIBES, input_schema(DESCRIBE_TOOLS), describe_tools, read_only=True),
        ]

    return builtins


class Source(Protocol):
    """Something that puts tools into a registry while a runtime is open, keeps them current, and takes them out again:
    the seam that MCP servers plug into."""

    def serving(self, registry: Registry) -> AbstractAsyncContextManager[object]:
        """Put the tools in and keep them current while the context is entered; take them out when it is left.

        Entering returns once the first tools are there, and within a few seconds in any case: tools that take longer
        come later. The context is entered and left in one task, and does not care which exception ends it.

        Raises (on entering):
            ConfigurationError: nothing of it can work as the operator wrote it.
        """
        ...


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
