"""Tools loaded at run time for one conversation, and the runtime's tools beside them. Knows registries; loads nothing.

1. What is loaded is this conversation's own: its registry, gate and result cache are nobody else's.
2. The runtime's tools keep their names. A loaded one that has the name of one of them gets another (`search_2`).
3. A tool that is loaded again under the name that it was loaded under takes its own place, and keeps its name.
4. One that is the runtime's own, the same object, is that one.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from callgate.tools import Registry, Tool

__all__ = ["MAX_LOADED", "LoadedTools"]

MAX_LOADED = 256
"""Tools that one conversation holds; of more, those loaded longest ago go."""


class LoadedTools:
    """The tools of a conversation: the runtime's, as they are now, and its own.

    Args:
        base: the runtime's registry.
    """

    def __init__(self, base: Registry) -> None:
        self._base = base
        self._seen: tuple[Tool, ...] = base.tools()
        self._own: dict[str, Tool] = {}
        """By the name that each was loaded under, in the order of loading."""
        self._names: dict[str, str] = {}
        """From that name to the one in `registry`."""
        self.registry = Registry(self._seen)

    def add(self, tools: Iterable[Tool | Callable[..., Any]]) -> list[str]:
        """Take loaded tools in; returns their names in `registry`.

        Raises:
            ConfigurationError: one of them cannot be a tool.
        """
        made = [each if isinstance(each, Tool) else Tool.from_function(each) for each in tools]
        made = made[:MAX_LOADED]
        there = [tool for tool in made if tool.name in self._base and self._base.get(tool.name) is tool]
        for tool in made:
            if tool in there:
                continue
            before = self._own.pop(tool.name, None)
            self._own[tool.name] = tool
            if before is not None:
                self.registry.remove(self._names[tool.name])
                known = tool if tool.name == self._names[tool.name] else tool.named(self._names[tool.name])
            else:
                known = tool
            self._names[tool.name] = self.registry.add(known, rename=True).name
        while len(self._own) > MAX_LOADED:
            oldest = next(iter(self._own))
            del self._own[oldest]
            self.registry.remove(self._names.pop(oldest))
        names = self._names | {tool.name: tool.name for tool in there}
        return [names[tool.name] for tool in made if tool.name in names]

    @property
    def own(self) -> Collection[str]:
        """Names, in `registry`, of the tools that were loaded."""
        return self._names.values()

    def refresh(self) -> None:
        """Take over what has changed in the runtime's registry."""
        tools = self._base.tools()
        if tools is self._seen:
            return
        now = {tool.name: tool for tool in tools}
        before = {tool.name: tool for tool in self._seen}
        own = {name: self.registry.get(name) for name in self._names.values()}
        gone = [name for name, tool in before.items() if now.get(name) is not tool]
        for name in gone:
            self.registry.remove(name)
        for name, tool in now.items():
            if before.get(name) is tool:
                continue
            if name in own:  # the newcomer is the runtime's, and keeps its name
                self.registry.remove(name)
                self.registry.add(tool)
                loaded_as = next(each for each, known in self._names.items() if known == name)
                self._names[loaded_as] = self.registry.add(own.pop(name), rename=True).name
            else:
                self.registry.add(tool)
        self._seen = tools
