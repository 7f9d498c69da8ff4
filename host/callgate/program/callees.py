"""Which call is which tool's. Knows names of tools and of namespaces, no schemas.

A call counts as a tool's only where that is certain: the program (or an earlier one of its session) binds the name to
nothing else, anywhere. The ways to write it are ``name(...)``, ``tools.name(...)``, ``server.name(...)``,
``tools.server.name(...)``, ``tool_call("name", ...)``, and names imported with ``from tools import name``,
``from tools import server`` or ``from tools.server import name``.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Final

from .findings import ToolShape
from .survey import Survey

__all__ = ["NONE", "TOOLS", "TOOL_CALL", "Callee", "Callees", "Namespaces", "callees", "imports_from", "literal_name"]

TOOLS: Final = "tools"
TOOL_CALL: Final = "tool_call"

Namespaces = Mapping[str, Mapping[str, str]]
"""Names of tools in programs, by namespaces and by what they are called there; ``""`` is the module `tools`."""
NONE: Final[Namespaces] = {}
_EMPTY: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Callee:
    """A tool that is called, and how."""

    shape: ToolShape
    written: str
    """Its name, as the program has it."""
    by_name: bool = False
    """By way of ``tool_call``."""


@dataclass(frozen=True, slots=True)
class Callees:
    """What the names of a program stand for, where that is certain."""

    tools: Mapping[str, ToolShape]
    """Names, aliases of imports included, that are tools."""
    modules: frozenset[str]
    """Names of the module `tools`."""
    servers: Mapping[str, str]
    """Names of namespaces, and which these are."""
    tool_call: bool
    """`tool_call` is what every program is given."""
    all_tools: Mapping[str, ToolShape]
    """Every tool by its name, for ``tools.name``."""
    namespaces: Namespaces
    """Every namespace, for ``tools.server.name``."""
    resolve: Callable[[str], str | None]

    def tool_of(self, call: ast.Call) -> Callee | None:
        """The tool a call is for."""
        function = call.func
        if isinstance(function, ast.Name):
            if (shape := self.tools.get(function.id)) is not None:
                return Callee(shape, function.id)
            if function.id == TOOL_CALL and self.tool_call and (name := literal_name(call)) is not None:
                return None if (shape := self.by_any_name(name)) is None else Callee(shape, name, by_name=True)
            return None
        if not isinstance(function, ast.Attribute):
            return None
        namespace = self.namespace_of(function.value)
        shape = None if namespace is None else self.member(namespace, function.attr)
        return None if shape is None else Callee(shape, f"{ast.unparse(function.value)}.{function.attr}")

    def namespace_of(self, node: ast.expr) -> str | None:
        """The namespace that an expression is, ``""`` for the module `tools`; None for any other."""
        if isinstance(node, ast.Name):
            return "" if node.id in self.modules else self.servers.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self.modules:
            return node.attr if node.attr in self.namespaces and node.attr not in self.all_tools else None
        return None

    def member(self, namespace: str, name: str) -> ToolShape | None:
        """The tool of that name in a namespace."""
        return _member(namespace, name, self.all_tools, self.namespaces)

    def by_any_name(self, name: str) -> ToolShape | None:
        """The tool that ``tool_call`` finds."""
        return self.all_tools.get(self.resolve(name) or "")


def literal_name(call: ast.Call) -> str | None:
    """The first positional argument of a call, where it is a text written out."""
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def callees(
    seen: Survey,
    tools: Mapping[str, ToolShape],
    known_names: Collection[str],
    namespaces: Namespaces = NONE,
    resolve: Callable[[str], str | None] = str,
) -> Callees:
    """Reads the imports and drops the names that the program binds itself; see `check_program` for the arguments."""
    bound = dict(seen.counts)
    modules: set[str] = set()
    imported: list[tuple[str, str, str]] = []
    """The name in the program, the namespace, the name there."""
    for node, _ in seen.imports:
        for alias in node.names:
            name = alias.asname or alias.name
            if isinstance(node, ast.ImportFrom):
                if (namespace := imports_from(node)) is not None and (not namespace or namespace in namespaces):
                    bound[name] = bound.get(name, 0) - 1
                    imported.append((name, namespace, alias.name))
            elif alias.name == TOOLS:
                bound[name] = bound.get(name, 0) - 1
                if bound[name] == 0:
                    modules.add(name)
    for name in (TOOLS, TOOL_CALL):
        if bound.get(name) == 0:
            del bound[name]
    if TOOLS not in bound and TOOLS not in known_names:
        modules.add(TOOLS)
    taken = {name for name, count in bound.items() if count > 0}
    taken.update(name for name in known_names if name in tools or name in namespaces)
    given: Mapping[str, ToolShape] = tools
    if not taken.isdisjoint(tools):
        given = {name: shape for name, shape in tools.items() if name not in taken}
    servers = {name: name for name in namespaces if name and name not in taken}
    own: dict[str, ToolShape] = {}
    for name, namespace, member in imported:
        if bound.get(name):
            continue
        if not namespace and member in namespaces and member not in tools:
            servers[name] = member
        elif (shape := _member(namespace, member, tools, namespaces)) is not None:
            own[name] = shape
    return Callees(
        tools={**given, **own} if own else given,
        modules=frozenset(modules),
        servers=servers,
        tool_call=TOOL_CALL not in taken and TOOL_CALL not in known_names and TOOL_CALL not in tools,
        all_tools=tools,
        namespaces=namespaces,
        resolve=resolve,
    )


def imports_from(node: ast.ImportFrom) -> str | None:
    """The namespace that names are imported from, ``""`` for the module `tools`; None for any other module."""
    package, _, namespace = (node.module or "").partition(".")
    return namespace if package == TOOLS and not node.level else None


def _member(namespace: str, name: str, tools: Mapping[str, ToolShape], namespaces: Namespaces) -> ToolShape | None:
    if not namespace and (shape := tools.get(name)) is not None:
        return shape
    return tools.get(namespaces.get(namespace, _EMPTY).get(name, ""))
