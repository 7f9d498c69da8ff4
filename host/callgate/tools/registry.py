"""The tools of one runtime, by name. Refuses duplicates and reserved names; knows the Python name of each.

Listing is sorted by name, and so byte-stable: the same tools give the same bytes, in whatever order they were added.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from callgate.errors import ConfigurationError, ToolNotFound

from .faults import did_you_mean
from .names import is_reserved, python_name
from .tool import Tool

__all__ = ["Registry"]


class Registry:
    """Tools by name.

    Args:
        tools: tools, or functions to make tools of.

    Raises:
        ConfigurationError: two tools have one name, or a name is reserved.
    """

    def __init__(self, tools: Iterable[Tool | Callable[..., Any]] = ()) -> None:
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
