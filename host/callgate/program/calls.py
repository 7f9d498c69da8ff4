"""Calls of tools: which call is which tool's, and whether its arguments fit. Knows shapes of tools, no schemas.

A call counts as a tool's only where that is certain: the program (or an earlier one of its session) binds the name to
nothing else, anywhere. The four ways to write it are ``name(…)``, ``tools.name(…)``, ``tool_call("name", …)`` and a
name imported with ``from tools import name``.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from .findings import Finding, Severity, ToolShape
from .suggestions import nearest
from .survey import Survey

__all__ = ["Callees", "callees", "tool_findings"]

_TOOLS: Final = "tools"
_TOOL_CALL: Final = "tool_call"


@dataclass(frozen=True, slots=True)
class Callees:
    """What the names of a program stand for, where that is certain."""

    tools: Mapping[str, ToolShape]
    """Names, aliases of imports included, that are tools."""
    namespaces: frozenset[str]
    """Names of the module `tools`."""
    tool_call: bool
    """`tool_call` is what every program is given."""
    all_tools: Mapping[str, ToolShape]
    """Every tool by its name, for ``tools.name``."""

    def tool_of(self, call: ast.Call) -> tuple[ToolShape, bool] | None:
        """The tool a call is for, and whether it is called by way of ``tool_call``."""
        function = call.func
        if isinstance(function, ast.Name):
            if (shape := self.tools.get(function.id)) is not None:
                return shape, False
            if function.id == _TOOL_CALL and self.tool_call and (name := literal_name(call)) is not None:
                return (shape, True) if (shape := by_any_name(name, self.all_tools)) is not None else None
        elif isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name):
            shape = self.all_tools.get(function.attr) if function.value.id in self.namespaces else None
            return None if shape is None else (shape, False)
        return None


def literal_name(call: ast.Call) -> str | None:
    """The first positional argument of a call, where it is a text written out."""
    first = call.args[0] if call.args else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else None


def by_any_name(name: str, tools: Mapping[str, ToolShape]) -> ToolShape | None:
    """The tool of that name, or of that alias."""
    if (shape := tools.get(name)) is not None:
        return shape
    return next((shape for shape in tools.values() if name in shape.aliases), None)


def callees(seen: Survey, tools: Mapping[str, ToolShape], known_names: Collection[str]) -> Callees:
    """Reads the imports and drops the names that the program binds itself."""
    bound: dict[str, int] = {}
    for scope in seen.scopes:
        for name in scope.stores:
            bound[name] = bound.get(name, 0) + 1
    own: dict[str, ToolShape] = {}
    namespaces = set()
    for node, _ in seen.imports:
        for alias in node.names:
            name = alias.asname or alias.name
            if isinstance(node, ast.ImportFrom):
                if node.module != _TOOLS or node.level:
                    continue
                bound[name] = bound.get(name, 0) - 1
                if (shape := tools.get(alias.name)) is not None and bound[name] == 0:
                    own[name] = shape
            elif alias.name == _TOOLS:
                bound[name] = bound.get(name, 0) - 1
                if bound[name] == 0:
                    namespaces.add(name)
    for name in (_TOOLS, _TOOL_CALL):
        if bound.get(name) == 0:
            del bound[name]
    if _TOOLS not in bound and _TOOLS not in known_names:
        namespaces.add(_TOOLS)
    taken = {name for name, count in bound.items() if count > 0}
    taken.update(name for name in known_names if name in tools)
    given: Mapping[str, ToolShape] = tools
    if not taken.isdisjoint(tools):
        given = {name: shape for name, shape in tools.items() if name not in taken}
    return Callees(
        tools={**given, **own} if own else given,
        namespaces=frozenset(namespaces),
        tool_call=_TOOL_CALL not in taken and _TOOL_CALL not in known_names and _TOOL_CALL not in tools,
        all_tools=tools,
    )


def tool_findings(seen: Survey, known: Callees) -> Iterator[Finding]:
    """Findings for tools that do not exist and for arguments that do not fit."""
    yield from _unknown_imports(seen, known)
    yield from _unknown_attributes(seen, known)
    for call, _ in seen.calls:
        found = known.tool_of(call)
        if found is not None:
            yield from _arguments(call, *found)
        elif known.tool_call and isinstance(call.func, ast.Name) and call.func.id == _TOOL_CALL:
            name = literal_name(call)
            if name is not None:
                yield _unknown_tool(call.args[0], name, known, 'tool_call("{}", ...)')


def _unknown_imports(seen: Survey, known: Callees) -> Iterator[Finding]:
    for node, _ in seen.imports:
        if isinstance(node, ast.ImportFrom) and node.module == _TOOLS and not node.level:
            for alias in node.names:
                if alias.name != "*" and alias.name not in known.all_tools:
                    yield _unknown_tool(alias, alias.name, known, "from tools import {}", _guard(seen, node.lineno))


def _unknown_attributes(seen: Survey, known: Callees) -> Iterator[Finding]:
    for attribute in seen.attributes:
        holder = attribute.value
        if (
            isinstance(holder, ast.Name)
            and holder.id in known.namespaces
            and isinstance(attribute.ctx, ast.Load)
            and attribute.attr not in known.all_tools
            and not attribute.attr.startswith("_")
        ):
            yield _unknown_tool(attribute, attribute.attr, known, holder.id + ".{}", _guard(seen, attribute.lineno))


def _guard(seen: Survey, line: int) -> Severity:
    """A fault that a `try` around it may be there to catch is a warning."""
    for guard in seen.tries[:1000]:
        last = guard.body[-1]
        if guard.lineno <= line <= (last.end_lineno or last.lineno):
            return "warning"
    return "error"


def _unknown_tool(
    node: ast.expr | ast.alias, name: str, known: Callees, way: str, severity: Severity = "error"
) -> Finding:
    shown = " ".join(name.split())
    shown = shown if len(shown) <= 80 else shown[:77] + "..."
    guess = nearest(name, known.all_tools)
    if guess is not None:
        hint = f"did you mean `{way.format(guess)}`?"
    elif not known.all_tools:
        hint = "there are no tools in this program"
    elif len(known.all_tools) <= 20:
        hint = "the tools are: " + ", ".join(known.all_tools)
    else:
        hint = f"use one of the {len(known.all_tools):,} tools by its name"
    return Finding("unknown-tool", node.lineno, node.col_offset + 1, f"there is no tool `{shown}`", hint, severity)


def _arguments(call: ast.Call, shape: ToolShape, by_name: bool) -> Iterator[Finding]:
    line, column = call.lineno, call.col_offset + 1
    positional = call.args[1:] if by_name else call.args
    unpacked = next((index for index, value in enumerate(positional) if isinstance(value, ast.Starred)), None)
    certain = positional if unpacked is None else positional[:unpacked]
    least = len(positional) - sum(isinstance(value, ast.Starred) for value in positional)
    takes = _takes(shape)
    if by_name and positional:
        yield Finding(
            "too-many-arguments",
            line,
            column,
            f'tool_call("{shape.name}", ...) takes the arguments of the tool by name only',
            f'write `tool_call("{shape.name}"{"".join(f", {name}=..." for name in _first(shape))})`',
        )
        return
    if least > len(shape.parameters) and not shape.accepts_any:
        yield Finding(
            "too-many-arguments",
            line,
            column,
            f"{shape.name}(...) takes {_count(len(shape.parameters), 'argument')}, and {least} are given",
            takes,
        )
        return
    given = set(shape.parameters[: len(certain)])
    everything = unpacked is not None
    meant = set()
    for keyword in call.keywords:
        name = keyword.arg
        if name is None:
            everything = True
        elif name not in shape.parameters:
            if not shape.accepts_any:
                guess = nearest(name, (other for other in shape.parameters if other not in given))
                meant.add(guess)
                yield Finding(
                    "unknown-argument",
                    keyword.lineno,
                    keyword.col_offset + 1,
                    f"{shape.name}(...) has no argument `{name[:80]}`",
                    f"did you mean `{guess}`?" if guess else takes,
                )
        elif name in given:
            yield Finding(
                "repeated-argument",
                keyword.lineno,
                keyword.col_offset + 1,
                f"{shape.name}(...) is given `{name}` twice, by position and by name",
                f"leave one of them out: {takes}",
            )
        else:
            given.add(name)
    missing = [name for name in shape.parameters if name in shape.required and name not in given | meant]
    if missing and not everything:
        opening = f"{'tool_call' if by_name else shape.name}("
        written = ([f'"{shape.name}"'] if by_name else []) + [
            f"{name}=..." for name in shape.parameters if name in given or name in shape.required
        ]
        yield Finding(
            "missing-argument",
            line,
            column,
            f"{shape.name}(...) is called without {', '.join(f'`{name}`' for name in missing)}",
            f"write `{opening}{', '.join(written)})`",
        )


def _first(shape: ToolShape) -> tuple[str, ...]:
    return tuple(name for name in shape.parameters if name in shape.required) or shape.parameters[:1]


def _takes(shape: ToolShape) -> str:
    if not shape.parameters:
        return f"write `{shape.name}()`"
    return f"its arguments are: {', '.join(shape.parameters[:30])}"


def _count(number: int, noun: str) -> str:
    return f"no {noun}s" if number == 0 else f"{number} {noun}" if number == 1 else f"{number} {noun}s"
