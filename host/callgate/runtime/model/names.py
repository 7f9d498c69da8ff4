"""The names under which a model's provider knows tools, and back. Pure.

A provider takes names of at most 64 letters, digits, ``_`` and ``-``. A tool whose own name is such keeps it. Any other
gets one made of it, with eight characters of its SHA-256 behind it where it was cut or where somebody else has the
name; so it stays the same whatever other tools come and go, but for those whose own name it is.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from callgate.tools import Registry, Tool

from .meta import META_TOOLS

__all__ = ["MAX_NAME", "ModelNames", "fitted"]

MAX_NAME = 64
_FITS = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_ODD = re.compile(r"[^a-zA-Z0-9_-]")


def fitted(names: Iterable[str], taken: Iterable[str] = (), odd: re.Pattern[str] = _ODD) -> dict[str, str]:
    """A name that fits for each name, by name.

    Args:
        names: the names as they are.
        taken: names that none may get.
        odd: what may not stand in one.
    """
    names = sorted(names)
    kept = {name: name for name in names if 0 < len(name) <= MAX_NAME and not odd.search(name)}
    used = {*taken, *kept}
    for name in names:
        if name in kept:
            continue
        made = odd.sub("_", name)
        if not made.strip("_-.") or len(made) > MAX_NAME or made in used:
            digest = hashlib.sha256(name.encode("utf-8", "replace")).hexdigest()
            made = f"{made.strip('_')[: MAX_NAME - 9] or 'tool'}_{digest[:8]}"
            while made in used:
                digest = hashlib.sha256(digest.encode()).hexdigest()
                made = f"{made[:-8]}{digest[:8]}"
        used.add(made)
        kept[name] = made
    return kept


class ModelNames:
    """The names of one registry's tools, both ways; worked out when they are first asked for after a change."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._tools: tuple[Tool, ...] | None = None
        self._names: dict[str, str] = {}
        self._back: dict[str, str] = {}

    def of(self, name: str) -> str:
        """What a model calls the tool of that name."""
        self._refresh()
        return self._names[name]

    def resolve(self, given: str) -> str | None:
        """The tool that is meant: its own name, the model's, the one in programs, or ``server.tool``. None: no tool."""
        if given in self._registry:
            return given
        self._refresh()
        return self._back.get(given) or self._registry.resolve(given)

    def _refresh(self) -> None:
        tools = self._registry.tools()
        if tools is not self._tools:
            self._names = fitted((tool.name for tool in tools), META_TOOLS)
            self._back = {made: name for name, made in self._names.items() if made != name}
            self._tools = tools
