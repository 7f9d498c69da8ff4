"""Finds the tool that a call is for. Knows names of tools and of namespaces, no schemas.

A call counts as a call of a tool only if that is certain: the program (or an earlier one of its session) binds the name
to nothing else, anywhere. The ways to write it are ``name(...)``, ``tools.name(...)``, ``server.name(...)``,
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

__all__ = ["NONE", "TOOLS", "TOOL_CALL", "CalledTool", "Namespaces", "ToolNames", "imports_from", "literal_name"]

TOOLS: Final = "tools"
TOOL_CALL: Final = "tool_call"

Namespaces = Mapping[str, Mapping[str, str]]
"""Names of tools in programs, by namespace and by the name in that namespace; ``""`` is the module `tools`."""
NONE: Final[Namespaces] = {}
_EMPTY: Final[Mapping[str, str]] = {}
_BY_TEXT: Final = frozenset({"getattr", "globals", "locals", "methodcaller", "attrgetter", "vars"})
"""Functions that find what a text names."""
_NAME_CHARACTERS: Final = 600
"""Longer texts are not looked at as names of tools."""


@dataclass(frozen=True, slots=True)
class CalledTool:
    """A tool that is called, and how."""

    shape: ToolShape
    written: str
    """The tool's name, as the program has it."""
    by_name: bool = False
    """The program uses ``tool_call``."""


class ToolNames:
    """The tools, namespaces and modules that names of a program certainly stand for. Arguments: see `check_program`.

    Attributes:
        all_tools: every tool by its name, for ``tools.name``.
        namespaces: every namespace, for ``tools.server.name``.
        has_tool_call: `tool_call` is the function that every program is given.
    """

    def __init__(
        self,
        seen: Survey,
        tools: Mapping[str, ToolShape],
        known_names: Collection[str],
        namespaces: Namespaces = NONE,
        resolve: Callable[[str], str | None] = str,
    ) -> None:
        self.all_tools = tools
        self.namespaces = namespaces
        self._resolve = resolve
        bound = dict(seen.counts)
        imported: list[tuple[str, str, str]] = []
        """Name in the program, namespace, name in that namespace."""
        modules: set[str] = set()
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
        taken = {name for name, count in bound.items() if count > 0}
        if TOOLS not in taken and TOOLS not in known_names:
            modules.add(TOOLS)
        self.has_tool_call = TOOL_CALL not in taken and TOOL_CALL not in known_names and TOOL_CALL not in tools
        self._modules = frozenset(modules)
        """Names of the module `tools`."""
        taken.update(name for name in known_names if name in tools or name in namespaces)
        self._tools = tools
        """Tools by their names in the program, aliases of imports included."""
        if not taken.isdisjoint(tools):
            self._tools = {name: shape for name, shape in tools.items() if name not in taken}
        self._servers = {name: name for name in namespaces if name and name not in taken}
        """Namespaces by their names in the program."""
        own: dict[str, ToolShape] = {}
        for name, namespace, member in imported:
            if bound.get(name):
                continue
            if not namespace and member in namespaces and member not in tools:
                self._servers[name] = member
            elif (shape := self.member(namespace, member)) is not None:
                own[name] = shape
        if own:
            self._tools = {**self._tools, **own}

    def tool_of(self, call: ast.Call) -> CalledTool | None:
        """The tool a call is for."""
        function = call.func
        if isinstance(function, ast.Name):
            if (shape := self._tools.get(function.id)) is not None:
                return CalledTool(shape, function.id)
            if function.id == TOOL_CALL and self.has_tool_call and (name := literal_name(call)) is not None:
                return None if (shape := self.by_any_name(name)) is None else CalledTool(shape, name, by_name=True)
            return None
        if not isinstance(function, ast.Attribute):
            return None
        namespace = self.namespace_of(function.value)
        shape = None if namespace is None else self.member(namespace, function.attr)
        return None if shape is None else CalledTool(shape, f"{ast.unparse(function.value)}.{function.attr}")

    def mentioned(self, seen: Survey) -> set[str]:
        """The names of all tools that the program may call, as far as its text says so: those that it calls or passes
        on, by any way to write them. A name that the program binds as well counts, since the name may stand for the
        tool elsewhere. So does a text that is the name of a tool, if the program finds tools or names by texts.

        Args:
            seen: the program.
        """
        found = [called.shape for call, _ in seen.calls if (called := self.tool_of(call)) is not None]
        names = {use.id for scope in seen.scopes for use in scope.uses}
        found += [shape for tools in (self._tools, self.all_tools) for name in names if (shape := tools.get(name))]
        for node in seen.attributes:
            namespace = self.namespace_of(node.value)
            if namespace is None and isinstance(node.value, ast.Name):
                namespace = node.value.id
            if namespace is not None and (shape := self.member(namespace, node.attr)) is not None:
                found.append(shape)
        if self._finds_by_text(seen, names):
            values = {node.value for node in ast.walk(seen.module.node) if isinstance(node, ast.Constant)}
            texts = [each for each in values if isinstance(each, str) and len(each) <= _NAME_CHARACTERS]
            found += [shape for text in texts if (shape := self.by_any_name(text)) is not None]
        return {shape.name for shape in found}

    def _finds_by_text(self, seen: Survey, names: set[str]) -> bool:
        """Whether the program finds tools by texts from elsewhere: ``getattr(tools, name)``, ``tool_call(name)``."""
        if not names.isdisjoint(_BY_TEXT) or any(node.attr == TOOL_CALL for node in seen.attributes):
            return True
        literal = sum(
            isinstance(call.func, ast.Name) and call.func.id == TOOL_CALL and literal_name(call) is not None
            for call, _ in seen.calls
        )
        return literal < sum(use.id == TOOL_CALL for scope in seen.scopes for use in scope.uses)

    def namespace_of(self, node: ast.expr) -> str | None:
        """The namespace that an expression is, ``""`` for the module `tools`; None for any other."""
        if isinstance(node, ast.Name):
            return "" if node.id in self._modules else self._servers.get(node.id)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in self._modules:
            return node.attr if node.attr in self.namespaces and node.attr not in self.all_tools else None
        return None

    def member(self, namespace: str, name: str) -> ToolShape | None:
        """The tool of that name in a namespace."""
        if not namespace and (shape := self.all_tools.get(name)) is not None:
            return shape
        return self.all_tools.get(self.namespaces.get(namespace, _EMPTY).get(name, ""))

    def by_any_name(self, name: str) -> ToolShape | None:
        """The tool that ``tool_call`` finds."""
        return self.all_tools.get(self._resolve(name) or "")


def literal_name(call: ast.Call) -> str | None:
    """The first positional argument of a call, where it is a text written out."""
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def imports_from(node: ast.ImportFrom) -> str | None:
    """The namespace that names are imported from, ``""`` for the module `tools`; None for any other module."""
    package, _, namespace = (node.module or "").partition(".")
    return namespace if package == TOOLS and not node.level else None
