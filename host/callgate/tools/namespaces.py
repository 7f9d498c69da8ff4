"""The names of the tools of one moment: their own names, their names in programs, and ``server.tool``.

1. A program calls a tool by its `python_name`. A server's namespace has the `python_name` of the server; in it a tool
   has the `python_name` of its name on the server. Tools whose name needs no change keep it. The others get theirs in
   sorted order; a name that is taken gets `_2`, `_3`, ...
2. A namespace with the name of a tool gets ``_`` at its end until the name is free: no server hides a tool.
3. Where ``a.b.c`` may mean two tools, the longest server name wins.
4. A server whose tools are expected but absent has no names. A name that would belong to such a server gets an answer
   of its own, instead of a spelling hint.

Does not know which tools a run may call. Names come from servers, and may be any text.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Iterable, Mapping
from functools import cached_property
from types import MappingProxyType
from typing import Final

from .names import MAX_NAME_CHARACTERS, python_name
from .tool import Tool

__all__ = ["Numbered", "Vocabulary"]

_NONE: Final[Mapping[str, str]] = MappingProxyType({})


class Vocabulary:
    """The names of some tools. Immutable.

    Args:
        tools: sorted by name.
        absent: why the tools of a server are absent, by the server's name.
    """

    def __init__(self, tools: tuple[Tool, ...], absent: Mapping[str, str] = _NONE) -> None:
        self.tools = tools
        self._absent = absent
        self._names = frozenset(tool.name for tool in tools)

    @cached_property
    def callable_names(self) -> dict[str, str]:
        """The identifier of every tool in programs, by the tool's name, sorted."""
        return _unique(self._names)

    @cached_property
    def namespaces(self) -> dict[str, dict[str, str]]:
        """Names of tools by the identifier of their server and their identifier in its namespace, sorted."""
        return _namespaces(self.tools, set(self.callable_names.values()))

    def resolve(self, name: str) -> str | None:
        """The name of the tool that has exactly this name, this ``server.tool`` or this identifier; else None."""
        return name if name in self._names else self._ways.get(name)

    def why_absent(self, name: str) -> str | None:
        """Why the server of this name, or of a tool of this name, is absent. None for any other name.

        Args:
            name: a name that no tool has: ``server``, ``server.tool`` or ``server_tool``, in upper or lower case.
        """
        if not self._absent:
            return None
        name = name[: 2 * MAX_NAME_CHARACTERS].casefold()
        meant = max((server for server in self._absent if _is_of(name, server)), key=len, default=None)
        if meant is None or any(len(there) > len(meant) and _is_of(name, there) for there in self.namespaces):
            return None
        return self._absent[meant]

    @cached_property
    def _ways(self) -> dict[str, str]:
        programs = {python: name for name, python in self.callable_names.items()}
        return programs | _dotted(self.tools, self.namespaces)


def _is_of(name: str, server: str) -> bool:
    """Whether the name is the server's, or the name of one of its tools."""
    forms = (server.casefold(), python_name(server).casefold())
    return name in forms or name.startswith(tuple(form + mark for form in forms for mark in "._"))


class Numbered:
    """Gives free names: `wanted`, or else `wanted_2`, `wanted_3`, ... Takes linear time.

    Args:
        taken: the names that are taken; the caller adds the names that it gets.
        form: changes a numbered name into a valid one.
    """

    def __init__(self, taken: Container[str], form: Callable[[str], str] = str) -> None:
        self._taken = taken
        self._form = form
        self._last: dict[str, int] = {}

    def name(self, wanted: str) -> str:
        """A free name: `wanted`, or `wanted` with a number."""
        candidate, number = wanted, self._last.get(wanted, 1)
        while candidate in self._taken or (number > 1 and candidate == wanted):
            number += 1
            candidate = self._form(f"{wanted}_{number}")
        self._last[wanted] = number
        return candidate


def _unique(names: Iterable[str], not_these: Collection[str] = ()) -> dict[str, str]:
    """A unique identifier for each text, by text, sorted.

    Args:
        names: any texts, each once.
        not_these: identifiers that are taken; a text with one of them gets ``_`` at its end.
    """
    ordered = sorted(names)
    chosen = {name: name for name in ordered if python_name(name) == name and name not in not_these}
    taken = {*chosen, *not_these}
    numbered = Numbered(taken, python_name)
    for name in ordered:
        if name not in chosen:
            wanted = python_name(name)
            while wanted in not_these:
                wanted += "_"
            taken.add(candidate := numbered.name(wanted))
            chosen[name] = candidate
    return {name: chosen[name] for name in ordered}


def _namespaces(tools: Iterable[Tool], taken: Collection[str]) -> dict[str, dict[str, str]]:
    """Registry names by the identifier of their server and their identifier in its namespace, sorted.

    Args:
        tools: in the order of their names; tools without a server are ignored.
        taken: the identifiers of all tools.
    """
    servers: dict[str, list[Tool]] = {}
    for tool in tools:
        if tool.server is not None:
            servers.setdefault(tool.server, []).append(tool)
    names = _unique(servers, taken)
    return {names[server]: _members(servers[server]) for server in sorted(servers, key=names.__getitem__)}


def _members(tools: list[Tool]) -> dict[str, str]:
    first: dict[str, Tool] = {}
    again: list[Tool] = []
    for tool in tools:
        if first.setdefault(str(tool.server_tool), tool) is not tool:
            again.append(tool)
    chosen = _unique(first)
    members = {chosen[name]: tool.name for name, tool in first.items()}
    numbered = Numbered(members, python_name)
    for tool in again:  # the server has two tools of one name
        members[numbered.name(python_name(str(tool.server_tool)))] = tool.name
    return dict(sorted(members.items()))


def _dotted(tools: Iterable[Tool], namespaces: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
    """Registry names by every way to write ``server.tool``: each half as on the server, or as its identifier.

    Args:
        tools: in the order of their names.
        namespaces: the result of `_namespaces` for the tools.
    """
    places = {tool: (server, member) for server, members in namespaces.items() for member, tool in members.items()}
    imported = [tool for tool in tools if tool.server is not None]
    imported.sort(key=lambda tool: -len(str(tool.server)))
    found: dict[str, str] = {}
    for tool in imported:
        found.setdefault(f"{tool.server}.{tool.server_tool}", tool.name)
    for tool in imported:
        server, member = places[tool.name]
        found.setdefault(f"{server}.{member}", tool.name)
        found.setdefault(f"{tool.server}.{member}", tool.name)
        found.setdefault(f"{server}.{tool.server_tool}", tool.name)
    return found
