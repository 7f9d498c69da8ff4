"""Which expressions hold an iterator: an object that is used up by whoever reads it, so that no copy is the same.

What is said here may be too much, never too little. Knows Python's expressions; no value.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import Final

__all__ = ["holds_iterator", "may_hold_iterator"]

_LAZY: Final = frozenset({"enumerate", "filter", "map", "reversed", "zip"})
_READERS: Final = frozenset({"all", "any", "dict", "list", "max", "min", "set", "sorted", "sum", "tuple"}) | _LAZY
"""Functions that read an iterator to its end, or are iterators over it themselves."""


def may_hold_iterator(functions: frozenset[str], kinds: Iterable[type[ast.AST]]) -> bool:
    """Whether it is worth a look: the functions of an expression, and the types of its nodes."""
    return not functions.isdisjoint(_LAZY) or ast.GeneratorExp in kinds


def holds_iterator(node: ast.AST, *, at_once: bool) -> bool:
    """Whether the value may be or have an iterator.

    Args:
        node: the expression.
        at_once: an iterator that is the value itself is read to its end at once, and no harm.
    """
    if isinstance(node, ast.Name):
        return node.id in _LAZY  # a function that is handed to another
    if isinstance(node, ast.Call):
        return _call(node, at_once)
    if isinstance(node, ast.GeneratorExp | ast.ListComp | ast.SetComp):
        if isinstance(node, ast.GeneratorExp) and not at_once:
            return True
        return holds_iterator(node.elt, at_once=False) or _clauses(node.generators)
    if isinstance(node, ast.DictComp):
        return _any((node.key, node.value), at_once=False) or _clauses(node.generators)
    if isinstance(node, ast.IfExp):
        return holds_iterator(node.test, at_once=True) or _any((node.body, node.orelse), at_once=at_once)
    if isinstance(node, ast.BoolOp):
        return _any(node.values, at_once=at_once)
    within = isinstance(node, ast.Starred | ast.Compare | ast.JoinedStr | ast.FormattedValue)
    return _any(ast.iter_child_nodes(node), at_once=within)


def _call(node: ast.Call, at_once: bool) -> bool:
    function = node.func
    keywords = [keyword.value for keyword in node.keywords]
    if isinstance(function, ast.Name):
        if function.id in _LAZY and not at_once:
            return True
        return _any((*node.args, *keywords), at_once=function.id in _READERS)
    assert isinstance(function, ast.Attribute)
    reads = function.attr == "join"
    return holds_iterator(function.value, at_once=True) or _any((*node.args, *keywords), at_once=reads)


def _clauses(clauses: list[ast.comprehension]) -> bool:
    return any(holds_iterator(each.iter, at_once=True) or _any(each.ifs, at_once=True) for each in clauses)


def _any(nodes: Iterable[ast.AST], *, at_once: bool) -> bool:
    return any(holds_iterator(each, at_once=at_once) for each in nodes)
