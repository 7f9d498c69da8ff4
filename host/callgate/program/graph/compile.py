"""From source to a flow, or to the reasons why not. Never raises, runs nothing."""

from __future__ import annotations

import ast
from collections.abc import Collection
from typing import Final

from callgate.plan.expressions.trees import nodes_of
from callgate.program.findings import Finding
from callgate.program.syntax import compiler_warning, parse_program

from .flow import Flow
from .reading.read import read_flow
from .reading.scope import GraphTools
from .reasons import NotAGraph

__all__ = ["MOST_SOURCE_BYTES", "Flow", "GraphTools", "NotAGraph", "compile_program"]

MOST_SOURCE_BYTES: Final = 64 * 1024
"""A longer program is not read: reading it would hold the host's event loop for too long."""

_LONG: Final = 4 * 1024
"""Characters; any shorter program is compiled in a few milliseconds."""
_MOST_SCOPES: Final = 200
"""Scopes of a longer program. CPython copies the names of a function into each scope within it."""
_MOST_KEYWORDS: Final = 1_000
"""Keyword arguments of one call of a longer program: CPython compares each with each."""

_TOO_DEEP: Final = NotAGraph(1, "the program", "it is nested too deeply", "split it")


def compile_program(source: str, tools: GraphTools, *, inputs: Collection[str] = ()) -> Flow | list[NotAGraph]:
    """Read a program as a flow.

    Args:
        source: the program.
        tools: the tools that the program may call.
        inputs: names of the variables that the run binds.
    """
    source = source.removeprefix("\ufeff")
    tree = parse_program(source, max_source_bytes=MOST_SOURCE_BYTES)
    if isinstance(tree, Finding):
        return [NotAGraph(tree.line, "the program", tree.message, tree.hint)]
    try:
        flow = read_flow(tree, source, tools, inputs)
    except RecursionError:
        return [_TOO_DEEP]
    if isinstance(flow, list):
        return flow
    if len(source) > _LONG and _is_costly(tree):
        return [NotAGraph(1, "the program", "it has too many functions, comprehensions or arguments", "split it")]
    warning = compiler_warning(tree, source)
    if warning is not None:
        return [NotAGraph(warning.line, "the program", f"the compiler says: {warning.message}", warning.hint)]
    return flow


def _is_costly(tree: ast.Module) -> bool:
    nodes = nodes_of([tree])
    scopes = sum(isinstance(node, ast.Lambda | ast.comprehension) for node in nodes)
    keywords = max((len(node.keywords) for node in nodes if isinstance(node, ast.Call)), default=0)
    return scopes > _MOST_SCOPES or keywords > _MOST_KEYWORDS
