"""The tools that a run may call (those that allow its caller, cut down to the run's allow-list), and their names in a
program.

1. An empty allow-list allows nothing. A tool that exists and is not offered is refused in words of its own, and never
   suggested.
2. An offer is of one moment: only runs that open later see tools that come later.
3. Built-in tools are the host's own (`search_tools`, `read_artifact`). They have reserved names, and are in no registry
   and no listing. They come with any other tool, and find only tools that the run itself may call.
4. In a namespace a program can also use the server's name of a tool, if Python takes it as an attribute: ``files.list``
   as well as ``files.list_``. Short names of built-in tools (`tools.search`) are members of the namespace ``""``, which
   is the module `tools`; a tool or a server of that name comes first there.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Protocol

from callgate.artifacts import NOT_HERE, keeper_of_call
from callgate.errors import ConfigurationError, InvalidArguments, ToolError, ToolNotAllowed, ToolNotFound
from callgate.program import ToolShape
from callgate.protocol.run import encode_tools
from callgate.tools import Caller, Registry, Tool, is_reserved, python_name
from callgate.tools.faults import did_you_mean
from callgate.tools.names import MAX_NAME_CHARACTERS, READ_ARTIFACT, is_attribute
from callgate.tools.namespaces import Vocabulary
from callgate_guest.wire import DESCRIBE_TOOLS

if TYPE_CHECKING:
    from callgate.program.graph.reading.scope import GraphTools

    from .discovery.search import ToolSearch

__all__ = ["Builtins", "Offer", "Source", "search_builtins"]

SEARCH_TOOLS: Final = "search_tools"
_SHORT: Final = {"search": SEARCH_TOOLS, "describe": DESCRIBE_TOOLS}
"""Short names of built-in tools in the module `tools`."""
_MOST_DOCS: Final = 16 * 1024
"""Most characters of docstrings that are sent with each program; `describe_tools` has the rest."""
_LEAST_DOC: Final = 16
"""Fewest characters of a docstring: with too many tools, no docstrings are made."""


Builtins = Callable[["Offer"], Iterable[Tool]]
"""Gives the built-in tools for an offer that has none yet. Called once for each offer."""


@dataclass(frozen=True, eq=False)
class Offer:
    """The tools that one kind of run may call, and their names in a program: for `check`, the `execute` request and the
    fast path."""

    caller: Caller
    registry: Registry
    tools: tuple[Tool, ...]
    """Sorted by name."""
    by_name: dict[str, Tool]
    """With the built-in tools."""
    vocabulary: Vocabulary
    """The names of all tools, offered or not."""
    builtins: tuple[Tool, ...] = ()

    @classmethod
    def made(
        cls, registry: Registry, caller: Caller, allowed: Collection[str] | None, builtins: Builtins | None = None
    ) -> Offer:
        """The tools that this caller may call now.

        Args:
            registry: the tools.
            caller: the kind of caller.
            allowed: names of tools; None for all tools, empty for none.
            builtins: gives the built-in tools.

        Raises:
            ConfigurationError: `allowed` or a tool's `fallback` names no tool.
        """
        vocabulary, everything = registry.vocabulary(), registry.tools()
        meant = None if allowed is None else {_meant(registry, vocabulary, name) for name in sorted(allowed)}
        if not registry.has_servers:  # else the fallback may come later, or be gone: its call will fail
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
        """The tool's name (see `Registry.resolve`); the name as it is if it means no tool."""
        return name if name in self.by_name else self.vocabulary.resolve(name) or name

    def refusal(self, name: str, *, suggest: bool) -> ToolError:
        """The error for a call of a name that is not in `by_name`.

        Args:
            name: the name in the call.
            suggest: whether to suggest the most similar name, which takes the host time.
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
        """The tools of the server in ``server.tool`` that may be called."""
        server, dot, _ = name.rpartition(".")
        known = python_name(server[:MAX_NAME_CHARACTERS]) if dot else ""
        for member, tool in self.vocabulary.namespaces.get(known, {}).items():
            if tool in self.by_name:
                yield f"{known}.{member}"

    # names in a program

    @cached_property
    def called(self) -> dict[str, str]:
        """Names in programs, by the tools' own."""
        names = self.vocabulary.callable_names
        return {tool.name: names.get(tool.name, tool.name) for tool in (*self.tools, *self.builtins)}

    @cached_property
    def namespaces(self) -> dict[str, dict[str, str]]:
        """Names in programs, by namespace and by name in it."""
        spaces: dict[str, dict[str, str]] = {}
        for server, members in self.vocabulary.namespaces.items():
            offered = {member: self.called[tool] for member, tool in members.items() if tool in self.by_name}
            if offered:
                spaces[server] = offered | self._as_they_are(members)
        taken = {*self.called.values(), *spaces}
        short = {name: tool for name, tool in _SHORT.items() if tool in self.by_name and name not in taken}
        return spaces | ({"": short} if short else {})

    def _as_they_are(self, members: Mapping[str, str]) -> dict[str, str]:
        """The server's own names of its tools that are valid as attributes but not as variables: ``files.list``."""
        found: dict[str, str] = {}
        for tool in members.values():
            own = self.by_name[tool].server_tool if tool in self.by_name else None
            if own and own not in members and is_attribute(own):
                found.setdefault(own, self.called[tool])
        return found

    @cached_property
    def shapes(self) -> dict[str, ToolShape]:
        """The shapes of the tools for `check`, by their names in programs."""
        return {name: _shape(name, self.by_name[tool]) for tool, name in self.called.items()}

    def resolve(self, name: str) -> str | None:
        """The name in programs of the tool with this name in any form; None for no tool of the run."""
        return self.called.get(self.canonical(name))

    @cached_property
    def wire(self) -> str:
        """The tools as members of the `execute` request: JSON text."""
        listed = [(name, tool, _words(self.by_name[tool])) for tool, name in self.called.items()]
        return encode_tools(listed, self.namespaces, self._docs())

    def _docs(self) -> list[str] | None:
        """The docstrings of the tools; their first lines if these are too long, None if those are."""
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
        """The tools for the fast path."""
        from callgate.program.graph.reading.scope import GraphTool, GraphTools

        tools = {}
        for name, called in self.called.items():
            tool = self.by_name[name]
            tools[called] = GraphTool(
                name, called, tuple(tool.parameters), self._early(tool), tool.spellings, variadic=name == DESCRIBE_TOOLS
            )
        return GraphTools(tools, self.namespaces, self.resolve)

    def _early(self, tool: Tool | None) -> bool:
        """Whether an early call is harmless, of the tool and of its fallbacks."""
        seen: set[str] = set()
        while tool is not None and tool.name not in seen:
            if not tool.may_begin_early:
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


_READS = """Read a file by its handle, or a part of it.

Returns:
    {"text", "next_offset", ...}, or "base64" where it is no text."""
_SEARCHES = """Find tools by what they do: one query, or a list of queries, which share the places.

Returns:
    {"found": [{"name", "python_name", "description", "signature", ...}], "total"}, the best first."""
_DESCRIBES = """All there is to know of some tools: arguments, results, limits.

Returns:
    {"tools": [{"name", "python_name", "description", "signature", "input_schema", ...}], "unknown"}."""


def search_builtins(search: Callable[[], ToolSearch]) -> Builtins:
    """`search_tools`, `describe_tools` and `read_artifact` for `Gate(builtins=...)`, for programs and plans. They give
    JSON values, not text.

    Args:
        search: returns the search over the tools of the gate.
    """

    def builtins(offer: Offer) -> Iterable[Tool]:
        from .gate.cache import depends_on_the_caller
        from .model.meta import input_schema
        from .reading import PROGRAM_BYTES, part_of

        among = frozenset(tool.name for tool in offer.tools)

        async def search_tools(query: Any = "", **options: Any) -> dict[str, Any]:
            return (await search().ask(query, among=among, **options)).to_json()

        async def describe_tools(names: list[str]) -> dict[str, Any]:
            return search().describe(names, among=among).to_json()

        async def read_artifact(artifact: Any, offset: int = 0, limit: int = PROGRAM_BYTES) -> dict[str, Any]:
            depends_on_the_caller()
            keeper = keeper_of_call.get()
            found = None if keeper is None else keeper.get(artifact)
            if found is None:
                raise InvalidArguments(f"argument 'artifact' must be {NOT_HERE}", tool=READ_ARTIFACT)
            return part_of(found, offset, min(limit, PROGRAM_BYTES))

        searching = input_schema(SEARCH_TOOLS)
        for name in ("server", "capability"):  # a program may pass None
            searching["properties"][name]["type"] = ["string", "null"]
        reading = input_schema(READ_ARTIFACT)
        reading["properties"]["artifact"]["type"] = ["string", "object"]
        return [
            Tool.from_schema(SEARCH_TOOLS, _SEARCHES, searching, search_tools, read_only=True),
            Tool.from_schema(DESCRIBE_TOOLS, _DESCRIBES, input_schema(DESCRIBE_TOOLS), describe_tools, read_only=True),
            Tool.from_schema(READ_ARTIFACT, _READS, reading, read_artifact, read_only=True),
        ]

    return builtins


class Source(Protocol):
    """A source of tools, for instance an MCP server: adds tools to a registry while a runtime is open, keeps them
    current, and removes them again."""

    def serving(self, registry: Registry) -> AbstractAsyncContextManager[object]:
        """Keep the tools in the registry while the context is entered.

        Entering returns once the first tools are there, and after a few seconds in any case; slower tools come later.
        One task enters and leaves the context; any exception may end it.

        Raises (on entering):
            ConfigurationError: the source cannot work as the operator configured it.
        """
        ...


def _words(tool: Tool) -> list[str]:
    """The tool's parameters, as a program writes them."""
    written = {name: spelling for spelling, name in tool.spellings.items()}
    required = frozenset(tool.input_schema.get("required", ()))
    return [written.get(name, name) + ("" if name in required else "=") for name in tool.parameters]


def _docstring(tool: Tool) -> str:
    """The descriptions of a tool and its arguments."""
    properties = tool.input_schema.get("properties", {})
    about = {
        name: below["description"]
        for name in tool.parameters
        if isinstance(below := properties.get(name), dict) and isinstance(below.get("description"), str)
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
        listed=tool.name not in (SEARCH_TOOLS, DESCRIBE_TOOLS, READ_ARTIFACT),
    )
