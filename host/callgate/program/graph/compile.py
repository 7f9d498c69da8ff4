"""From source to a flow, or to the reasons why not. Never raises, runs nothing."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from itertools import islice
from typing import Final

from callgate.plan.expressions.trees import Walked, walked
from callgate.program.findings import Finding
from callgate.program.survey import FEW_NODES, HARMLESS, MOST_HARMLESS_BLOCKS
from callgate.program.syntax import compiler_warning, parse_program, parser_may_warn

from .flow import Flow
from .reading.read import MOST_NODES, read_flow
from .reading.scope import GraphTools
from .reasons import NotAGraph

__all__ = [
    "MOST_SOURCE_BYTES", "Flow", "GraphTools", "NotAGraph", "compile_beginning", "compile_program", "first_lines",
    "is_silent",
]  # fmt: skip

MOST_SOURCE_BYTES: Final = 64 * 1024
"""A longer program is not read: reading it would hold the host's event loop for too long."""

_LONG: Final = 4 * 1024
"""Characters; any shorter program is compiled in a few milliseconds."""
_MOST_SCOPES: Final = 200
"""Scopes of a longer program. CPython copies the names of a function into each scope within it."""
_MOST_KEYWORDS: Final = 1_000
"""Keyword arguments of one call of a longer program: CPython compares each with each."""

_LINE_END: Final = re.compile(r"\r\n?|\n")
_NAMED: Final = (ast.Name, ast.Attribute)
_BLOCKS: Final = (ast.For, ast.If)
_HARMLESS: Final = HARMLESS | {ast.Module, ast.Name, ast.Constant}
_TOO_DEEP: Final = NotAGraph(1, "the program", "it is nested too deeply", "split it")


def compile_program(
    source: str, tools: GraphTools, *, inputs: Collection[str] = (), tree: ast.Module | None = None
) -> Flow | list[NotAGraph]:
    """Read a program as a flow.

    Args:
        source: the program.
        tools: the tools that the program may call.
        inputs: names of the variables that the run binds.
        tree: the tree of `source`, if the caller has parsed it; notes are left on its nodes.
    """
    source = source.removeprefix("\ufeff")
    if tree is None:
        parsed = parse_program(source, max_source_bytes=MOST_SOURCE_BYTES)
        if isinstance(parsed, Finding):
            return [NotAGraph(parsed.line, "the program", parsed.message, parsed.hint)]
        tree = parsed
    try:
        whole = walked(tree, MOST_NODES)
        flow = read_flow(whole, source, tools, inputs)
    except RecursionError:
        return [_TOO_DEEP]
    if isinstance(flow, list):
        return flow
    if len(source) > _LONG and _is_costly(whole.nodes):
        return [NotAGraph(1, "the program", "it has too many functions, comprehensions or arguments", "split it")]
    warning = None if is_silent(whole, source) else compiler_warning(tree, source)
    if warning is not None:
        return [NotAGraph(warning.line, "the program", f"the compiler says: {warning.message}", warning.hint)]
    return flow


def compile_beginning(source: str, tools: GraphTools, *, inputs: Collection[str] = ()) -> tuple[Flow | None, bool]:
    """Read whole statements of a program as a flow, up to the first that is not part of a graph.

    Args:
        source: the beginning of a program, without a byte order mark.
        tools: see `compile_program`, like `inputs`.

    Returns:
        The flow, None if there is none; and whether the rest of the program can add to it.
    """
    goes_on = True
    for _ in range(2):
        tree = parse_program(source, max_source_bytes=MOST_SOURCE_BYTES)
        if isinstance(tree, Finding):
            return None, False
        try:
            flow = read_flow(walked(tree, MOST_NODES), source, tools, inputs, whole=False)
        except RecursionError:
            return None, False
        if not isinstance(flow, list):
            return flow, goes_on
        source, goes_on = first_lines(source, _last_line_before(tree.body, flow[0].line)), False
    return None, False


def first_lines(source: str, count: int) -> str:
    """The first lines of a program, as its tree counts them."""
    ends = [match.end() for match in islice(_LINE_END.finditer(source), count)]
    return source[: ends[-1] if len(ends) == count else len(source)] if count else ""


def _last_line_before(body: list[ast.stmt], line: int) -> int:
    """Where the last whole statement before a line ends; a statement of the function that holds the line counts."""
    last = 0
    for statement in body:
        if (statement.end_lineno or 0) < line:
            last = statement.end_lineno or 0
        elif isinstance(statement, ast.AsyncFunctionDef) and statement.lineno < line:
            return _last_line_before(statement.body, line) or last
    return last


def is_silent(tree: Walked, source: str) -> bool:
    """Whether the compiler certainly takes a graph without a fault and without a warning; then it need not be asked.

    Its warnings are about literals that are called, subscripted or compared with `is`.
    """
    if len(tree.nodes) > FEW_NODES or not tree.kinds <= _HARMLESS or "__debug__" in source or parser_may_warn(source):
        return False
    blocks = 0
    for node in tree.nodes:
        if isinstance(node, ast.Call):
            names = [each.arg for each in node.keywords]
            if not isinstance(node.func, _NAMED) or len(set(names)) < len(names) or "__debug__" in names:
                return False
        elif isinstance(node, ast.Subscript):
            if not isinstance(node.value, _NAMED):
                return False
        elif isinstance(node, ast.Compare):
            if any(isinstance(each, ast.Is | ast.IsNot) for each in node.ops):
                return False
        else:
            blocks += isinstance(node, _BLOCKS)
    return blocks < MOST_HARMLESS_BLOCKS


def _is_costly(nodes: list[ast.AST]) -> bool:
    scopes = sum(isinstance(node, ast.Lambda | ast.comprehension) for node in nodes)
    keywords = max((len(node.keywords) for node in nodes if isinstance(node, ast.Call)), default=0)
    return scopes > _MOST_SCOPES or keywords > _MOST_KEYWORDS
