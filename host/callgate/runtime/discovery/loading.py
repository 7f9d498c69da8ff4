"""The tools of one conversation: the runtime's tools, and the tools that the operator's loader gives for its searches.

1. Loaded tools belong to one conversation, which has a registry, a gate and a result cache of its own.
2. The runtime's tools keep their names. A loaded tool with the name of one of them gets another name (`search_2`).
3. A tool that is loaded again under the same name replaces the earlier one and keeps its name.
4. A loaded tool that is the same object as a tool of the runtime is that tool.
5. The loader has a time limit. Its failure becomes a line for the model, or is logged.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any

import anyio

from callgate.errors import ConfigurationError, ToolError
from callgate.tools import Registry, Tool

__all__ = ["MAX_LOADED", "LoadedTools", "Loader"]

logger = logging.getLogger("callgate")

MAX_LOADED = 256
"""Most loaded tools of one conversation; the oldest ones are dropped."""

Loader = Callable[[str], Awaitable[Iterable[Tool | Callable[..., Any]]]]
"""Takes the words of a search; gives tools, or functions to make tools of."""


class LoadedTools:
    """The tools of a conversation: the runtime's current tools, and its own.

    Args:
        base: the runtime's registry.
        loader: gives the other tools.
        seconds: longest time for the loader.
    """

    def __init__(self, base: Registry, loader: Loader, seconds: float) -> None:
        self._base = base
        self._loader = loader
        self._seconds = seconds
        self._seen: tuple[Tool, ...] = base.tools()
        self._names: dict[str, str] = {}
        """Names in `registry` by the names under which the tools were loaded, in the order of loading."""
        self.registry = Registry(self._seen)

    @property
    def own(self) -> Collection[str]:
        """Names in `registry` of the loaded tools."""
        return self._names.values()

    async def load(self, *queries: str) -> tuple[str, tuple[str, ...]]:
        """Load tools for a search: for one of its queries after the other, until one fails.

        Args:
            queries: the queries of one search.

        Returns:
            A line for the model if that failed, else an empty text; and the names of the tools in `registry`.
        """
        names: list[str] = []
        note, query = "", ""
        try:
            with anyio.fail_after(self._seconds):
                for query in filter(str.strip, queries):
                    given: Any = await self._loader(query)
                    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable | None):
                        raise ConfigurationError(f"the loader has to give a list of tools, not {type(given).__name__}")
                    names += self._add(given or ())
        except TimeoutError:
            logger.warning("loading tools for %r took more than %g s", query[:80], self._seconds)
            note = f"Note: loading more tools took longer than {self._seconds:g} s; there may be others."
        except ToolError as error:
            note = f"Note: more tools could not be loaded: {error.message}"
        except Exception:
            logger.exception("the loader failed for %r", query[:80])
            note = "Note: more tools could not be loaded; there may be others."
        return note, tuple(name for name in dict.fromkeys(names) if name in self.registry)

    def _add(self, tools: Iterable[Tool | Callable[..., Any]]) -> tuple[str, ...]:
        """Add loaded tools. Returns their names in `registry`. Raises `ConfigurationError` if one cannot be a tool."""
        self.refresh()  # the loader may have added to the runtime's tools
        made = [each if isinstance(each, Tool) else Tool.from_function(each) for each in tools][:MAX_LOADED]
        there = [tool for tool in made if tool.name in self._base and self._base.get(tool.name) is tool]
        for tool in made:
            if tool in there:
                continue
            before = self._names.pop(tool.name, None)
            if before is not None:
                self.registry.remove(before)
            known = tool if before in (None, tool.name) else tool.named(str(before))
            self._names[tool.name] = self.registry.add(known, rename=True).name
        while len(self._names) > MAX_LOADED:
            self.registry.remove(self._names.pop(next(iter(self._names))))
        names = self._names | {tool.name: tool.name for tool in there}
        return tuple(dict.fromkeys(names[tool.name] for tool in made if tool.name in names))

    def refresh(self) -> None:
        """Copy changes of the runtime's registry. A new tool there keeps its name; a loaded tool with that name gets
        another."""
        tools = self._base.tools()
        if tools is self._seen:
            return
        own = {loaded: self.registry.get(name) for loaded, name in self._names.items()}
        for name in self.registry.names():
            self.registry.remove(name)
        for tool in tools:
            self.registry.add(tool)
        self._names = {loaded: self.registry.add(tool, rename=True).name for loaded, tool in own.items()}
        self._seen = tools
