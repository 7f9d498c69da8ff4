"""Findings about calls: tools that do not exist, arguments that do not fit. Knows shapes of tools, no schemas."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Iterator
from typing import Final

from .findings import Finding, Severity, ToolShape, is_name, nearest, shown
from .survey import Survey
from .tool_names import TOOL_CALL, CalledTool, ToolNames, imports_from, literal_name

__all__ = ["tool_findings"]

_MOST_LISTED: Final = 20

WhyAbsent = Callable[[str], str | None]


def tool_findings(seen: Survey, known: ToolNames, why_absent: WhyAbsent | None = None) -> Iterator[Finding]:
    """Findings for tools that do not exist and for arguments that do not fit.

    Args:
        seen: the program.
        known: the tools that it may call.
        why_absent: why an expected tool or server of that name is missing.
    """
    why_absent = why_absent or _never_expected
    yield from _unknown_imports(seen, known, why_absent)
    yield from _unknown_attributes(seen, known, why_absent)
    for call, _ in seen.calls:
        found = known.tool_of(call)
        if found is not None:
            yield from _arguments(call, found)
        elif known.has_tool_call and isinstance(call.func, ast.Name) and call.func.id == TOOL_CALL:
            name = literal_name(call)
            if name is not None:
                way = 'tool_call("{}", ...)'
                yield _unknown_tool(call.args[0], name, known, None, way, absent=why_absent(name))


def _never_expected(_: str) -> str | None:
    return None


def _unknown_imports(seen: Survey, known: ToolNames, why_absent: WhyAbsent) -> Iterator[Finding]:
    for node, _ in seen.imports:
        namespace = imports_from(node) if isinstance(node, ast.ImportFrom) else None
        if namespace is None:
            continue
        severity = seen.severity(node.lineno)
        if namespace and namespace not in known.namespaces:
            way = "from tools.{} import " + ", ".join(alias.name for alias in node.names)[:80]
            yield _unknown_namespace(node, namespace, known, way, severity, why_absent(namespace))
            continue
        way = f"from tools{f'.{namespace}' if namespace else ''} import {{}}"
        for alias in node.names:
            if alias.name != "*" and not _has(known, namespace, alias.name):
                absent = None if namespace else why_absent(alias.name)
                yield _unknown_tool(alias, alias.name, known, namespace, way, severity, absent)


def _unknown_attributes(seen: Survey, known: ToolNames, why_absent: WhyAbsent) -> Iterator[Finding]:
    for attribute in seen.attributes:
        if not isinstance(attribute.ctx, ast.Load) or attribute.attr.startswith("_"):
            continue
        namespace = known.namespace_of(attribute.value)
        if namespace is not None and not _has(known, namespace, attribute.attr):
            way = ast.unparse(attribute.value) + ".{}"
            severity = seen.severity(attribute.lineno)
            absent = None if namespace else why_absent(attribute.attr)
            yield _unknown_tool(attribute, attribute.attr, known, namespace, way, severity, absent)


def _has(known: ToolNames, namespace: str, name: str) -> bool:
    return known.member(namespace, name) is not None or (not namespace and name in known.namespaces)


def _unknown_tool(
    node: ast.expr | ast.alias,
    name: str,
    known: ToolNames,
    namespace: str | None,
    way: str,
    severity: Severity = "error",
    absent: str | None = None,
) -> Finding:
    """`namespace`: where the tool was looked up; None for `tool_call`. `absent`: why an expected tool is missing."""
    some = [each for each, shape in known.all_tools.items() if shape.listed]
    where = ""
    if namespace:
        where, some = f" in {namespace}", list(known.namespaces[namespace])
        guess = nearest(name, some)
    else:
        guess = nearest(name, known.all_tools, known.namespaces, known.namespaces.get("", ()))
        if namespace is None and "." in name:
            inner = ((each, member) for each, members in known.namespaces.items() if each for member in members)
            guess = nearest(name, (f"{each}.{member}" for each, member in inner)) or guess
    if namespace in sys.stdlib_module_names and way == f"{namespace}.{{}}":
        otherwise = f"for Python's own module of that name write `import {namespace}` first"
    elif not some:
        otherwise = "there are no tools in this program"
    elif len(some) <= _MOST_LISTED:
        otherwise = f"the tools{where} are: {', '.join(some)}"
    else:
        otherwise = f"use one of the {len(some):,} tools{where} by its name"
    hint = absent or (f"did you mean `{way.format(guess)}`?" if guess is not None else otherwise)
    return Finding.at(node, "unknown-tool", f"there is no tool `{shown(name)}`{where}", hint, severity)


def _unknown_namespace(
    node: ast.stmt, name: str, known: ToolNames, way: str, severity: Severity, absent: str | None
) -> Finding:
    servers = [each for each in known.namespaces if each]
    guess = nearest(name, servers)
    listed = servers and len(servers) <= _MOST_LISTED
    otherwise = f"there are: {', '.join(servers)}" if listed else "write `from tools import` and the tool's name"
    hint = absent or (f"did you mean `{way.format(guess)}`?" if guess is not None else otherwise)
    return Finding.at(node, "unknown-tool", f"`tools` has no namespace `{shown(name)}`", hint, severity)


def _arguments(call: ast.Call, callee: CalledTool) -> Iterator[Finding]:
    shape, by_name, called = callee.shape, callee.by_name, callee.written
    positional = call.args[1:] if by_name else call.args
    unpacked = next((index for index, value in enumerate(positional) if isinstance(value, ast.Starred)), None)
    certain = positional if unpacked is None else positional[:unpacked]
    least = len(positional) - sum(isinstance(value, ast.Starred) for value in positional)
    takes = _takes(shape, called)
    if by_name and positional:
        message = f"tool_call({_quoted(called)}, ...) takes the arguments of the tool by name only"
        named = "".join(f", {shape.keyword(name)}" for name in _first(shape))
        yield Finding.at(call, "too-many-arguments", message, f"write `tool_call({_quoted(called)}{named})`")
        return
    if least > len(shape.parameters) and not shape.accepts_any and not shape.variadic:
        message = f"{called}(...) takes {_count(len(shape.parameters), 'argument')}, and {least} are given"
        yield Finding.at(call, "too-many-arguments", message, takes)
        return
    given = set(shape.parameters[: len(certain)])
    everything = unpacked is not None
    meant = set()
    for keyword in call.keywords:
        name = keyword.arg
        if name is not None and name not in shape.parameters:
            name = shape.spellings.get(name, name)
        if name is None:
            everything = True
        elif name not in shape.parameters:
            if not shape.accepts_any:
                guess = nearest(name, (other for other in shape.parameters if other not in given))
                meant.add(guess)
                hint = f"did you mean `{guess if is_name(guess) else shape.keyword(guess)}`?" if guess else takes
                yield Finding.at(keyword, "unknown-argument", f"{called}(...) has no argument `{name[:80]}`", hint)
        elif name in given:
            message = f"{called}(...) is given `{name}` twice, by position and by name"
            yield Finding.at(keyword, "repeated-argument", message, f"leave one of them out: {takes}")
        else:
            given.add(name)
    missing = [name for name in shape.parameters if name in shape.required and name not in given | meant]
    if missing and not everything:
        opening = f"tool_call({_quoted(called)}, " if by_name else f"{called}("
        written = [shape.keyword(name) for name in shape.parameters if name in given or name in shape.required]
        message = f"{called}(...) is called without {', '.join(f'`{name}`' for name in missing)}"
        yield Finding.at(call, "missing-argument", message, f"write `{opening}{', '.join(written)})`")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _first(shape: ToolShape) -> tuple[str, ...]:
    return tuple(name for name in shape.parameters if name in shape.required) or shape.parameters[:1]


def _takes(shape: ToolShape, called: str) -> str:
    if not shape.parameters:
        return f"write `{called}()`"
    written = {name: spelling for spelling, name in shape.spellings.items()}
    return f"its arguments are: {', '.join(written.get(name, name) for name in shape.parameters[:30])}"


def _count(number: int, noun: str) -> str:
    return f"no {noun}s" if number == 0 else f"{number} {noun}" if number == 1 else f"{number} {noun}s"
