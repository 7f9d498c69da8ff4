"""The tools of one runtime by name, and the statistics of their calls. Refuses duplicates and reserved names.

Listings are sorted by name: the same tools give the same bytes, in any order of adding.

Tools come and go while programs run. `tools()` returns the same object until something changes, so callers can keep
what they derive from the tools until that object is another one. A run has the tools of the moment it began.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from callgate.errors import ConfigurationError, ToolNotFound

from .faults import did_you_mean
from .names import check_name, is_reserved, python_name
from .namespaces import Numbered, Vocabulary
from .statistics import Statistics
from .tool import Tool

__all__ = ["Registry", "ToolInfo"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolInfo:
    """A tool as a planner sees it: what its author wrote, and how its calls went so far."""

    name: str
    description: str
    category: str | None
    parameters: dict[str, Any]
    """JSON Schema of the arguments."""
    examples: tuple[Any, ...]
    capabilities: tuple[str, ...]
    limitations: tuple[str, ...]
    cost: float | str | None
    """Cost of a call, in the operator's own unit."""
    calls: int
    """Attempts so far; 0 for a tool without a history."""
    average_seconds: float | None
    """Mean duration of an attempt; None without a history."""
    p95_seconds: float | None
    """95 of 100 attempts took no longer; None without a history."""
    failure_rate: float | None
    """Share of the newest attempts that failed, from 0 to 1; None without a history."""
    read_only: bool = False
    """Whether a call changes nothing."""


class Registry:
    """Tools by name.

    Args:
        tools: tools, or functions to make tools of.

    Raises:
        ConfigurationError: two tools have one name, or a name is reserved.
    """

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self.statistics = Statistics()
        """How the calls of these tools went; the gate writes here."""
        self._tools: dict[str, Tool] = {}
        self._sorted: tuple[Tool, ...] | None = None
        self._vocabulary: Vocabulary | None = None
        self._servers: set[str] = set()
        self._absent: dict[str, str] = {}
        self._listeners: dict[object, Callable[[], None]] = {}
        for each in tools:
            self.add(each)

    def add(self, tool: Tool | Callable[..., Any], *, rename: bool = False) -> Tool:
        """Add a tool. Returns the tool under its name in this registry.

        Args:
            tool: a tool, or a function to make a tool of.
            rename: change a name that is reserved or taken (`print_`, `search_2`) instead of refusing it.

        Raises:
            ConfigurationError: the name is taken or reserved, or the function cannot be a tool.
        """
        made = tool if isinstance(tool, Tool) else Tool.from_function(tool)
        if rename:
            made = _renamed(made, Numbered(self._tools))
        elif is_reserved(made.name):
            raise ConfigurationError(
                f"a tool cannot be called {made.name!r}: the name is reserved; give it another with name=..."
            )
        elif made.name in self._tools:
            raise ConfigurationError(f"there are two tools called {made.name!r}; give one another name with name=...")
        self._tools[made.name] = made
        self._changed()
        return made

    def remove(self, name: str) -> Tool:
        """Remove a tool. Runs that have begun keep the tool, and its statistics stay. Raises `ToolNotFound`."""
        tool = self.get(name)
        del self._tools[name]
        self._changed()
        return tool

    def replace_server(self, server: str, tools: Iterable[Tool]) -> tuple[Tool, ...]:
        """Replace all tools that were imported from `server`, in one step.

        A tool that had the same `server_tool` before keeps its name in this registry. The name of any other tool is
        changed if it is reserved or taken (`print_`, `search_2`).

        Args:
            server: the server's name; every tool has it as its `server`.
            tools: the new tools; none to remove them all.

        Returns:
            The tools under their names in this registry, in the order given.

        Raises:
            ConfigurationError: a tool has another server. Nothing has changed then.
        """
        check_name(server, "a server's name")
        given = list(tools)
        for tool in given:
            if tool.server != server:
                raise ConfigurationError(f"tool {tool.name!r} has the server {tool.server!r}, not {server!r}")
        others = {name: tool for name, tool in self._tools.items() if tool.server != server}
        before: dict[str | None, list[str]] = {}
        for tool in self.tools():
            if tool.server == server:
                before.setdefault(tool.server_tool, []).append(tool.name)
        for names in before.values():
            names.reverse()  # `pop` takes the first name first
        made: list[Tool | None] = []
        for tool in given:
            known = before.get(tool.server_tool)
            made.append(_named(tool, known.pop()) if known else None)
        names_now = others | {tool.name: tool for tool in made if tool is not None}
        numbered = Numbered(names_now)
        for place, tool in enumerate(given):
            new = made[place] or _renamed(tool, numbered)
            made[place] = names_now[new.name] = new
        self._servers.add(server)
        self._absent.pop(server, None)
        self._tools = names_now
        self._changed()
        return tuple(tool for tool in made if tool is not None)

    def expect_server(self, server: str, why_absent: str | None) -> None:
        """Note that a server's tools are expected, and why they are absent. An error about such a tool says so.

        Args:
            server: the server's name.
            why_absent: a sentence for models and people; None when the tools are not expected any more, which
                `replace_server` also notes.
        """
        if self._absent.get(server) == why_absent:
            return
        if why_absent is None:
            del self._absent[server]
        else:
            self._absent[server] = why_absent
            self._servers.add(server)
        self._sorted = self._vocabulary = None

    @property
    def has_servers(self) -> bool:
        """Whether tools of servers come and go here: a name without a tool may get one later."""
        return bool(self._servers)

    def get(self, name: str) -> Tool:
        """The tool of that name. Raises `ToolNotFound` that suggests the most similar name."""
        try:
            return self._tools[name]
        except KeyError:
            absent = self.vocabulary().why_absent(name)
            hint = f"; {absent}" if absent else did_you_mean(name, self._tools)
            raise ToolNotFound(f"there is no tool {name[:60]!r}{hint}", tool=name[:60]) from None

    def tools(self) -> tuple[Tool, ...]:
        """All tools, sorted by name; the same object until a tool or an expected server changes."""
        if self._sorted is None:
            self._sorted = tuple(self._tools[name] for name in sorted(self._tools))
        return self._sorted

    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(tool.name for tool in self)

    def by_capability(self, capability: str) -> tuple[Tool, ...]:
        """The tools that list this capability, sorted by name; case does not matter."""
        wanted = capability.casefold()
        return tuple(tool for tool in self if any(each.casefold() == wanted for each in tool.capabilities))

    def by_category(self, category: str) -> tuple[Tool, ...]:
        """The tools of this category, sorted by name; case does not matter."""
        wanted = category.casefold()
        return tuple(tool for tool in self if tool.category is not None and tool.category.casefold() == wanted)

    def info(self, name: str) -> ToolInfo:
        """The tool of that name as a planner sees it. Raises `ToolNotFound`."""
        tool = self.get(name)
        stats = self.statistics.of(name)
        return ToolInfo(
            name=tool.name,
            description=tool.description,
            category=tool.category,
            parameters=tool.input_schema,
            examples=tool.examples,
            capabilities=tool.capabilities,
            limitations=tool.limitations,
            cost=tool.cost,
            calls=0 if stats is None else stats.calls,
            average_seconds=None if stats is None else stats.average_seconds,
            p95_seconds=None if stats is None else stats.p95_seconds,
            failure_rate=None if stats is None else stats.failure_rate,
            read_only=tool.read_only,
        )

    def callable_name(self, name: str) -> str:
        """The identifier by which a program calls the tool of that name. Raises `ToolNotFound`."""
        return self.callable_names()[self.get(name).name]

    def callable_names(self) -> dict[str, str]:
        """The identifier of every tool, by the tool's name, sorted.

        The identifier is the `python_name`. A tool whose name needs no change keeps it. The others get theirs in sorted
        order; a name that is taken gets `_2`, `_3`, ...
        """
        return self.vocabulary().callable_names

    def namespaces(self) -> dict[str, dict[str, str]]:
        """Names of tools by the identifiers of server and tool: ``["github"]["create_issue"]``."""
        return self.vocabulary().namespaces

    def resolve(self, name: str) -> str | None:
        """The name of the tool that has this name, this ``server.tool`` or this identifier in programs; else None."""
        return self.vocabulary().resolve(name)

    def vocabulary(self) -> Vocabulary:
        """All names as they are now; the same object as long as `tools` is."""
        if self._vocabulary is None:
            self._vocabulary = Vocabulary(self.tools(), dict(self._absent))
        return self._vocabulary

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change, in the thread of the change. Returns a function that ends this.

        A listener must not raise or change the tools.
        """
        token = object()
        self._listeners[token] = listener

        def end() -> None:
            self._listeners.pop(token, None)

        return end

    def _changed(self) -> None:
        self._sorted = self._vocabulary = None
        for listener in list(self._listeners.values()):
            listener()

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools())

    def __len__(self) -> int:
        return len(self._tools)


def _named(tool: Tool, name: str) -> Tool:
    return tool if tool.name == name else tool.named(name)


def _renamed(tool: Tool, numbered: Numbered) -> Tool:
    """The tool under a free name."""
    return _named(tool, numbered.name(python_name(tool.name) if is_reserved(tool.name) else tool.name))
