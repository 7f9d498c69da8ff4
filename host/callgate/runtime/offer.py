"""What a run may call: the tools that allow its caller, cut down to the run's own allow-list. Knows names only.

1. An empty allow-list means nothing at all. A tool that exists and is not offered is refused in words of its own, and
   never suggested.
2. An offer is of one moment: tools that come later are seen by runs opened later, under whatever names they then have.
3. Built-in tools are the host's own (`search_tools`): they have reserved names, are in no registry and in no listing,
   and come with whatever else is offered; where nothing is, neither are they.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace

from callgate.errors import ConfigurationError, ToolError, ToolNotAllowed, ToolNotFound
from callgate.tools import CALLERS, Caller, Registry, Tool, is_reserved, python_name
from callgate.tools.faults import did_you_mean
from callgate.tools.names import MAX_NAME_CHARACTERS
from callgate.tools.namespaces import Vocabulary

__all__ = ["Builtins", "Offer", "Offers"]

_MAX_KEPT = 64


@dataclass(frozen=True, slots=True, eq=False)
class Offer:
    """What one kind of run may call."""

    caller: Caller
    registry: Registry
    tools: tuple[Tool, ...]
    """Sorted by name."""
    by_name: dict[str, Tool]
    """Built-in ones among them."""
    vocabulary: Vocabulary
    """The names of all tools there were, offered or not."""
    builtins: tuple[Tool, ...] = ()

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


Builtins = Callable[[Offer], Iterable[Tool]]
"""Gives the built-in tools that come with an offer, which has none yet. Asked once for each offer."""


class Offers:
    """Offers by caller and allow-list; worked out once for each set of tools, not once for each run."""

    def __init__(self, registry: Registry, builtins: Builtins | None = None) -> None:
        self._registry = registry
        self._builtins = builtins
        self._everything: tuple[Tool, ...] = ()
        self._kept: dict[tuple[Caller, frozenset[str] | None], Offer] = {}

    def get(self, caller: Caller, allowed: Collection[str] | None) -> Offer:
        """What this caller may call.

        Args:
            caller: who calls.
            allowed: names of tools; None stands for all of them, empty for none.

        Raises:
            ConfigurationError: there is no such caller, or `allowed` or a tool's `fallback` names no tool.
        """
        if caller not in CALLERS:
            raise ConfigurationError(f"there is no caller {caller!r}; the callers are: {', '.join(CALLERS)}")
        if isinstance(allowed, str):
            raise ConfigurationError(f"allowed must be a list of tool names, not the string {allowed!r}")
        everything = self._registry.tools()
        if everything is not self._everything or len(self._kept) >= _MAX_KEPT:
            self._kept.clear()
            self._check_fallbacks(everything)
            self._everything = everything
        names = None if allowed is None else frozenset(allowed)
        offer = self._kept.get((caller, names))
        if offer is None:
            offer = self._kept[caller, names] = self._made(caller, names)
        return offer

    def _made(self, caller: Caller, names: frozenset[str] | None) -> Offer:
        vocabulary = self._registry.vocabulary()
        meant: set[str] | None = None
        if names is not None:
            meant = set()
            for name in sorted(names):
                found = vocabulary.resolve(name)
                if found is None:
                    absent = vocabulary.why_absent(name)
                    hint = f"; {absent}" if absent else did_you_mean(name, self._registry.names())
                    raise ConfigurationError(f"allowed names the tool {name!r}, which does not exist{hint}")
                meant.add(found)
        tools = tuple(
            tool
            for tool in self._everything
            if caller in tool.allowed_callers and (meant is None or tool.name in meant)
        )
        offer = Offer(caller, self._registry, tools, {tool.name: tool for tool in tools}, vocabulary)
        if self._builtins is None or not tools:
            return offer
        builtins = tuple(tool for tool in self._builtins(offer) if caller in tool.allowed_callers)
        for tool in builtins:
            if not is_reserved(tool.name):
                raise ConfigurationError(f"a built-in tool cannot be called {tool.name!r}: its name must be reserved")
        by_name = offer.by_name | {tool.name: tool for tool in builtins}
        return replace(offer, by_name=by_name, builtins=builtins)

    def _check_fallbacks(self, tools: tuple[Tool, ...]) -> None:
        if self._registry.has_servers:  # it may be a tool that comes later, or came before: its call will say
            return
        for tool in tools:
            if tool.fallback is not None and self._registry.resolve(tool.fallback) is None:
                hint = did_you_mean(tool.fallback, self._registry.names())
                raise ConfigurationError(
                    f"tool {tool.name!r} names the fallback {tool.fallback!r}, which does not exist{hint}"
                )
