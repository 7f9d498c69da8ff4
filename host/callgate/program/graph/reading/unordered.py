"""Finds places that could show the order of a set. The order differs between processes, so the sandbox has to run it.

A set may be counted, sorted, searched, compared and combined where it is made. A set that gets a name, is printed,
looped over or passed on could show its order. Not found: the set that an operator makes of two views with names (``a =
x.keys()``, ``b = y.keys()``, ``a - b``).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Final

from callgate.program.graph.reasons import NotAGraph

from .scope import written

__all__ = ["may_have_sets", "visible_orders"]

_OPERATORS: Final = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Sub)
_DISPLAYS: Final = (ast.Set, ast.SetComp)
_VIEWS: Final = frozenset({"keys", "items"})
_BLIND: Final = frozenset({"bool", "len", "max", "min", "set", "sorted"})
"""Functions whose result does not depend on the order."""


def may_have_sets(nodes: list[ast.AST], kinds: set[type[ast.AST]]) -> bool:
    """Whether a program could make a set; `nodes` are all nodes of its tree, `kinds` their types."""
    written = not kinds.isdisjoint(_DISPLAYS) or any(type(node) is ast.Name and node.id == "set" for node in nodes)
    return written or (ast.BinOp in kinds and bool(_sets(nodes)))


def visible_orders(nodes: list[ast.AST]) -> Iterator[NotAGraph]:
    """A reason for each place that could show the order of a set; `nodes` are all nodes of the tree."""
    sets = _sets(nodes)
    for parent in nodes:
        for node in ast.iter_child_nodes(parent):
            if isinstance(node, ast.expr) and node in sets and not _hides(parent, node):
                message = "the order of a set differs from run to run"
                yield NotAGraph(node.lineno, written(node), message, "write sorted(…)")


def _sets(nodes: list[ast.AST]) -> set[ast.AST]:
    """The expressions that make sets. In `nodes`, parents stand before their children."""
    found: set[ast.AST] = set()
    for node in reversed(nodes):
        if isinstance(node, ast.Call):
            made = any(isinstance(each, ast.Name) and each.id == "set" for each in (node.func, *node.args))
        elif isinstance(node, ast.BinOp) and isinstance(node.op, _OPERATORS):
            made = any(side in found or _is_view(side) for side in (node.left, node.right))
        else:
            made = isinstance(node, _DISPLAYS)
        if made:
            found.add(node)
    return found


def _is_view(node: ast.expr) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _VIEWS


def _hides(parent: ast.AST, node: ast.expr) -> bool:
    if isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name):
        ties = any(keyword.arg != "reverse" for keyword in parent.keywords)
        return parent.func.id in _BLIND and parent.args == [node] and not ties
    return isinstance(parent, ast.Compare) or (isinstance(parent, ast.BinOp) and isinstance(parent.op, _OPERATORS))
