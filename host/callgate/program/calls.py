"""Findings about calls: tools that do not exist, arguments that do not fit. Knows shapes of tools, no schemas."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Callable, Iterator
from typing import Final

from .callees import TOOL_CALL, Callee, Callees, imports_from, literal_name
from .findings import Finding, Severity, ToolShape, is_name, nearest
from .survey import Survey

__all__ = ["tool_findings"]

_MOST_LISTED: Final = 20

WhyAbsent = Callable[[str], str | None]


def tool_findings(seen: Survey, known: Callees, why_absent: WhyAbsent | None = None) -> Iterator[Finding]:
    """Findings for tools that do not exist and for arguments that do not fit.

    Args:
        seen: the program.
        known: what it may call.
        why_absent: why a tool or server of that name is not there, though it is expected.
    """
    why_absent = why_absent or _never_expected
    yield from _unknown_imports(seen, known, why_absent)
    yield from _unknown_attributes(seen, known, why_absent)
    for call, _ in seen.calls:
        found = known.tool_of(call)
        if found is not None:
            yield from _arguments(call, found)
        elif known.tool_call and isinstance(call.func, ast.Name) and call.func.id == TOOL_CALL:
            name = literal_name(call)
            if name is not None:
                way = 'tool_call("{}", ...)'
                yield _unknown_tool(call.args[0], name, known, None, way, absent=why_absent(name))


def _never_expected(_: str) -> str | None:
    return None


def _unknown_imports(seen: Survey, known: Callees, why_absent: WhyAbsent) -> Iterator[Finding]:
    for node, _ in seen.imports:
        namespace = imports_from(node) if isinstance(node, ast.ImportFrom) else None
        if namespace is None:
            continue
        severity = _guard(seen, node.lineno)
        if namespace and namespace not in known.namespaces:
            way = "from tools.{} import " + ", ".join(alias.name for alias in node.names)[:80]
            yield _unknown_namespace(node, namespace, known, way, severity, why_absent(namespace))
            continue
        way = f"from tools{f'.{namespace}' if namespace else ''} import {{}}"
        for alias in node.names:
            if alias.name != "*" and not _has(known, namespace, alias.name):
                absent = None if namespace else why_absent(alias.name)
                yield _unknown_tool(alias, alias.name, known, namespace, way, severity, absent)


def _unknown_attributes(seen: Survey, known: Callees, why_absent: WhyAbsent) -> Iterator[Finding]:
    for attribute in seen.attributes:
        if not isinstance(attribute.ctx, ast.Load) or attribute.attr.startswith("_"):
            continue
        namespace = known.namespace_of(attribute.value)
        if namespace is not None and not _has(known, namespace, attribute.attr):
            way = ast.unparse(attribute.value) + ".{}"
            severity = _guard(seen, attribute.lineno)
            absent = None if namespace else why_absent(attribute.attr)
            yield _unknown_tool(attribute, attribute.attr, known, namespace, way, severity, absent)


def _has(known: Callees, namespace: str, name: str) -> bool:
    return known.member(namespace, name) is not None or (not namespace and name in known.namespaces)


def _guard(seen: Survey, line: int) -> Severity:
    """A fault that a `try` around it may be there to catch is a warning."""
    for guard in seen.tries[:1000]:
        last = guard.body[-1]
        if guard.lineno <= line <= (last.end_lineno or last.lineno):
            return "warning"
    return "error"


def _unknown_tool(
    node: ast.expr | ast.alias,
    name: str,
    known: Callees,
    namespace: str | None,
    way: str,
    severity: Severity = "error",
    absent: str | None = None,
) -> Finding:
    """`namespace`: where it was looked for; None for any name there is. `absent`: why it is not there, if expected."""
    listed = [each for each, shape in known.all_tools.items() if shape.listed]
    where, some = "", listed
    if namespace:
        where, some = f" in {namespace}", list(known.namespaces[namespace])
        guess = nearest(name, some)
    else:
        guess = nearest(name, known.all_tools, known.namespaces, known.namespaces.get("", ()))
        if namespace is None and "." in name:
            inner = ((each, member) for each, members in known.namespaces.items() if each for member in members)
            guess = nearest(name, (f"{each}.{member}" for each, member in inner)) or guess
    if absent:
        hint = absent
    elif guess is not None:
        hint = f"did you mean `{way.format(guess)}`?"
    elif namespace in sys.stdlib_module_names and way == f"{namespace}.{{}}":
        hint = f"for Python's own module of that name write `import {namespace}` first"
    elif not some:
        hint = "there are no tools in this program"
    elif len(some) <= _MOST_LISTED:
        hint = f"the tools{where} are: {', '.join(some)}"
    else:
        hint = f"use one of the {len(some):,} tools{where} by its name"
    message = f"there is no tool `{_shown(name)}`{where}"
    return Finding("unknown-tool", node.lineno, node.col_offset + 1, message, hint, severity)


def _unknown_namespace(
    node: ast.stmt, name: str, known: Callees, way: str, severity: Severity, absent: str | None
) -> Finding:
    servers = [each for each in known.namespaces if each]
    guess = nearest(name, servers)
    if absent:
        hint = absent
    elif guess is not None:
        hint = f"did you mean `{way.format(guess)}`?"
    elif servers and len(servers) <= _MOST_LISTED:
        hint = f"there are: {', '.join(servers)}"
    else:
        hint = "write `from tools import` and the tool's name"
    message = f"`tools` has no namespace `{_shown(name)}`"
    return Finding("unknown-tool", node.lineno, node.col_offset + 1, message, hint, severity)


def _shown(name: str) -> str:
    shown = " ".join(name.split())
    return shown if len(shown) <= 80 else shown[:77] + "..."


def _arguments(call: ast.Call, callee: Callee) -> Iterator[Finding]:
    shape, by_name, called = callee.shape, callee.by_name, callee.written
    line, column = call.lineno, call.col_offset + 1
    positional = call.args[1:] if by_name else call.args
    unpacked = next((index for index, value in enumerate(positional) if isinstance(value, ast.Starred)), None)
    certain = positional if unpacked is None else positional[:unpacked]
    least = len(positional) - sum(isinstance(value, ast.Starred) for value in positional)
    takes = _takes(shape, called)
    if by_name and positional:
        yield Finding(
            "too-many-arguments",
            line,
            column,
            f"tool_call({_quoted(called)}, ...) takes the arguments of the tool by name only",
            f"write `tool_call({_quoted(called)}{''.join(f', {shape.keyword(name)}' for name in _first(shape))})`",
        )
        return
    if least > len(shape.parameters) and not shape.accepts_any and not shape.variadic:
        yield Finding(
            "too-many-arguments",
            line,
            column,
            f"{called}(...) takes {_count(len(shape.parameters), 'argument')}, and {least} are given",
            takes,
        )
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
                yield Finding(
                    "unknown-argument",
                    keyword.lineno,
                    keyword.col_offset + 1,
                    f"{called}(...) has no argument `{name[:80]}`",
                    f"did you mean `{guess if is_name(guess) else shape.keyword(guess)}`?" if guess else takes,
                )
        elif name in given:
            yield Finding(
                "repeated-argument",
                keyword.lineno,
                keyword.col_offset + 1,
                f"{called}(...) is given `{name}` twice, by position and by name",
                f"leave one of them out: {takes}",
            )
        else:
            given.add(name)
    missing = [name for name in shape.parameters if name in shape.required and name not in given | meant]
    if missing and not everything:
        opening = f"{'tool_call' if by_name else called}("
        written = ([_quoted(called)] if by_name else []) + [
            shape.keyword(name) for name in shape.parameters if name in given or name in shape.required
        ]
        yield Finding(
            "missing-argument",
            line,
            column,
            f"{called}(...) is called without {', '.join(f'`{name}`' for name in missing)}",
            f"write `{opening}{', '.join(written)})`",
        )


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
