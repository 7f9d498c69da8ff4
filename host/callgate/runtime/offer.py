"""What a run may call: the tools that allow its caller, cut down to the run's own allow-list. Knows names only.

An empty allow-list means nothing at all. A tool that exists and is not offered is refused in words of its own, and
never suggested.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from callgate.errors import ConfigurationError, ToolError, ToolNotAllowed, ToolNotFound
from callgate.tools import CALLERS, Caller, Registry, Tool
from callgate.tools.faults import did_you_mean

__all__ = ["Offer", "Offers"]

_MAX_KEPT = 64


@dataclass(frozen=True, slots=True)
class Offer:
    """What one kind of run may call."""

    caller: Caller
    registry: Registry
    tools: tuple[Tool, ...]
    """Sorted by name."""
    by_name: dict[str, Tool]

    def refusal(self, name: str, *, suggest: bool) -> ToolError:
        """Why a name that is not in `by_name` cannot be called.

        Args:
            name: the name that was asked for.
            suggest: whether to look for the nearest name; that costs the host time.
        """
        if name in self.registry:
            callers = self.registry.get(name).allowed_callers
            if self.caller in callers:
                return ToolNotAllowed(f"tool {name!r} is not among the tools that this run may call", tool=name)
            who = f"it is for: {', '.join(callers)}" if callers else "nobody may"
            return ToolNotAllowed(f"tool {name!r} may not be called by {self.caller}; {who}", tool=name)
        hint = did_you_mean(name, self.by_name) if suggest else ""
        return ToolNotFound(f"there is no tool {name[:60]!r}{hint}", tool=name[:60])


class Offers:
    """Offers by caller and allow-list; worked out once for each set of tools, not once for each run."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
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
        for name in sorted(names or ()):
            if name not in self._registry:
                hint = did_you_mean(name, self._registry.names())
                raise ConfigurationError(f"allowed names the tool {name!r}, which does not exist{hint}")
        tools = tuple(
            tool
            for tool in self._everything
            if caller in tool.allowed_callers and (names is None or tool.name in names)
        )
        return Offer(caller, self._registry, tools, {tool.name: tool for tool in tools})

    def _check_fallbacks(self, tools: tuple[Tool, ...]) -> None:
        for tool in tools:
            if tool.fallback is not None and tool.fallback not in self._registry:
                hint = did_you_mean(tool.fallback, self._registry.names())
                raise ConfigurationError(
                    f"tool {tool.name!r} names the fallback {tool.fallback!r}, which does not exist{hint}"
                )
