"""The tools of one runtime, by name, and how their calls went. Refuses duplicates and reserved names; knows the Python
name of each, and what there is to tell a planner about it.

Listing is sorted by name, and so byte-stable: the same tools give the same bytes, in whatever order they were added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from callgate.errors import ConfigurationError, ToolNotFound

from .faults import did_you_mean
from .names import is_reserved, python_name
from .statistics import Statistics
from .tool import Tool

__all__ = ["Registry", "ToolInfo"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolInfo:
    """What a planner may want to know of a tool: what its author says of it, and how its calls went so far."""

    name: str
    description: str
    category: str | None
    parameters: dict[str, Any]
    """JSON Schema of the arguments."""
    examples: tuple[Any, ...]
    capabilities: tuple[str, ...]
    limitations: tuple[str, ...]
    cost: float | str | None
    """What a call costs, in the operator's own unit."""
    calls: int
    """Attempts so far; 0 for a tool without a history."""
    average_seconds: float | None
    """What an attempt takes; None without a history."""
    p95_seconds: float | None
    """95 of 100 attempts took no longer; None without a history."""
    failure_rate: float | None
    """Share of the newest attempts that failed, from 0 to 1; None without a history."""


class Registry:
    """Tools by name.

    Args:
        tools: tools, or functions to make tools of.

    Raises:
        ConfigurationError: two tools have one name, or a name is reserved.
    """

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
        self.statistics = Statistics()
        """How the calls of these tools went; the gate notes here."""
        self._tools: dict[str, Tool] = {}
        self._sorted: tuple[Tool, ...] | None = None
        self._callable: dict[str, str] | None = None
        for each in tools:
            self.add(each)

    def add(self, tool: Tool | Callable[..., Any], *, rename: bool = False) -> Tool:
        """Take a tool in; returns it as it is known here.

        Args:
            tool: a tool, or a function to make one of.
            rename: for foreign tools: a name that is reserved or taken is changed (`print_`, `search_2`), not refused.

        Raises:
            ConfigurationError: the name is taken or reserved, or the function cannot be a tool.
        """
        made = tool if isinstance(tool, Tool) else Tool.from_function(tool)
        if rename:
            made = self._renamed(made)
        elif is_reserved(made.name):
            raise ConfigurationError(
                f"a tool cannot be called {made.name!r}: the name is reserved; give it another with name=..."
            )
        elif made.name in self._tools:
            raise ConfigurationError(f"there are two tools called {made.name!r}; give one another name with name=...")
        self._tools[made.name] = made
        self._sorted = self._callable = None
        return made

    def get(self, name: str) -> Tool:
        """The tool of that name; raises `ToolNotFound`, with the nearest name there is."""
        try:
            return self._tools[name]
        except KeyError:
            raise ToolNotFound(
                f"there is no tool {name[:60]!r}{did_you_mean(name, self._tools)}", tool=name[:60]
            ) from None

    def tools(self) -> tuple[Tool, ...]:
        """All tools, sorted by name; the same object until another tool is added."""
        if self._sorted is None:
            self._sorted = tuple(self._tools[name] for name in sorted(self._tools))
        return self._sorted

    def names(self) -> tuple[str, ...]:
        """All names, sorted."""
        return tuple(tool.name for tool in self)

    def by_capability(self, capability: str) -> tuple[Tool, ...]:
        """The tools that list this capability, sorted by name; upper and lower case are the same."""
        wanted = capability.casefold()
        return tuple(tool for tool in self if any(each.casefold() == wanted for each in tool.capabilities))

    def by_category(self, category: str) -> tuple[Tool, ...]:
        """The tools of this category, sorted by name; upper and lower case are the same."""
        wanted = category.casefold()
        return tuple(tool for tool in self if tool.category is not None and tool.category.casefold() == wanted)

    def info(self, name: str) -> ToolInfo:
        """What there is to know of the tool of that name; raises `ToolNotFound`."""
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
        )

    def callable_name(self, name: str) -> str:
        """The identifier under which a program calls the tool of that name; raises `ToolNotFound`."""
        return self.callable_names()[self.get(name).name]

    def callable_names(self) -> dict[str, str]:
        """The identifier of every tool, by tool name, sorted.

        `python_name` decides; a tool whose name needs no change always keeps it, the others follow in sorted order, and
        one that comes too late gets `_2`, `_3`, ...
        """
        if self._callable is None:
            chosen = {name: name for name in self.names() if python_name(name) == name}
            taken = set(chosen)
            for name in self.names():
                if name in chosen:
                    continue
                wanted = candidate = python_name(name)
                number = 1
                while candidate in taken:
                    number += 1
                    candidate = python_name(f"{wanted}_{number}")
                taken.add(candidate)
                chosen[name] = candidate
            self._callable = {name: chosen[name] for name in self.names()}
        return self._callable

    def _renamed(self, tool: Tool) -> Tool:
        wanted = candidate = python_name(tool.name) if is_reserved(tool.name) else tool.name
        number = 1
        while candidate in self._tools:
            number += 1
            candidate = f"{wanted}_{number}"
        return tool if candidate == tool.name else tool.named(candidate)

    def __contains__(self, name: object) -> bool:
        return name in self._tools

    def __iter__(self) -> Iterator[Tool]:
        return iter(self.tools())

    def __len__(self) -> int:
        return len(self._tools)
