"""Under which names the tools of one moment are known: their own, those in programs, and ``server.tool``.

1. In programs a tool is known by its `python_name`, a server by its own, and there a tool by the `python_name` of what
   the server calls it. A name that needs no change keeps it, the others follow in sorted order, and one that comes too
   late gets `_2`, `_3`, ...
2. A namespace whose name is that of a tool gets ``_`` behind, as often as it takes: no server takes a tool's name away.
3. One server cannot take the names of another: where ``a.b.c`` may mean two tools, the longest server name wins.
4. A server whose tools are expected and not there has no names; what would be one of them is told apart from a typing
   error.

Refuses to know which of the tools a run may call. Names come from servers, and so may be anything.
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
    """The names of some tools. Nothing in it changes.

    Args:
        tools: sorted by name.
        absent: why the tools of a server are not there, by its name.
    """

    def __init__(self, tools: tuple[Tool, ...], absent: Mapping[str, str] = _NONE) -> None:
        self.tools = tools
        self._absent = absent
        self._names = frozenset(tool.name for tool in tools)

    @cached_property
    def callable_names(self) -> dict[str, str]:
        """The identifier of every tool in programs, by its name, sorted."""
        return _unique(self._names)

    @cached_property
    def namespaces(self) -> dict[str, dict[str, str]]:
        """Names of tools, by the identifiers of their servers and their own there, sorted."""
        return _namespaces(self.tools, set(self.callable_names.values()))

    def resolve(self, name: str) -> str | None:
        """The name of the tool that is meant: written as it is, as ``server.tool``, or as in programs; exactly, and not
        nearly. None where none is meant."""
        return name if name in self._names else self._ways.get(name)

    def why_absent(self, name: str) -> str | None:
        """Why the tool that is meant, or the server, is not there: of a server whose tools are expected. None where the
        name is none of such a server's.

        Args:
            name: that no tool has: ``server``, ``server.tool``, or ``server_tool``, in upper or lower case.
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
    """Whether the name is the server's, or that of a tool of it."""
    forms = (server.casefold(), python_name(server).casefold())
    return name in forms or name.startswith(tuple(form + mark for form in forms for mark in "._"))


class Numbered:
    """Gives names that are not taken yet: `wanted`, or else `wanted_2`, `wanted_3`, ... Linear in how many it gives.

    Args:
        taken: what is taken; names that are given are not added here.
        form: what is made of a name with a number.
    """

    def __init__(self, taken: Container[str], form: Callable[[str], str] = str) -> None:
        self._taken = taken
        self._form = form
        self._last: dict[str, int] = {}

    def name(self, wanted: str) -> str:
        """A free name like `wanted`."""
        candidate, number = wanted, self._last.get(wanted, 1)
        while candidate in self._taken or (number > 1 and candidate == wanted):
            number += 1
            candidate = self._form(f"{wanted}_{number}")
        self._last[wanted] = number
        return candidate


def _unique(names: Iterable[str], not_these: Collection[str] = ()) -> dict[str, str]:
    """An identifier for each of several different texts, by text, sorted.

    Args:
        names: any texts, each once.
        not_these: identifiers that somebody else has; one of them gets ``_`` behind.
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
    """Registry names by the Python names of their servers and by their Python names there, all sorted.

    Args:
        tools: in the order of their names; those without a server are passed over.
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
    """Registry names by everything that ``server.tool`` may be written as: either half as the server has it, or as
    Python does.

    Args:
        tools: in the order of their names.
        namespaces: what `_namespaces` made of them.
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
