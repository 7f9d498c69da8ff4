"""Symbols as they stand in a plan: JSON where they are constant, references where they are results, else `$expr`."""

from __future__ import annotations

import ast
import copy
import json
import math
import re
from typing import Any

from callgate.plan.expressions import ExpressionFault, parse_expression

from .symbols import is_literal

__all__ = ["NotSpelt", "condition", "literal", "value"]

_SPECIAL = re.compile(r"\$|^steps\[|\{\{")
"""Texts that a plan reads, or warns of, as references."""
_BOOLEAN_CALLS = frozenset({"all", "any", "bool", "endswith", "isalnum", "isalpha", "isdigit", "isspace", "startswith"})


class NotSpelt(Exception):
    """An expression of a plan cannot be that large or deep."""


def value(node: ast.expr, *, is_place: bool = False) -> Any:
    """A value in a plan; with `is_place` it is a place within the item. Raises `NotSpelt`."""
    if is_literal(node):
        found = literal(node)
        if found is not _NONE:
            return {"$literal": found} if _is_special(found) else found
    if isinstance(node, ast.Name):
        return "$item" if node.id == "item" else f"$ref:{node.id}"
    if is_place:
        return f"${ast.unparse(node)}"
    return {"$expr": _text(node)}


def condition(tests: list[ast.expr]) -> Any:
    """All of the tests, for `when`. Raises `NotSpelt`."""
    parts = [test if _is_boolean(test) else _bool(test) for test in tests]
    return {"$expr": _text(parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts))}


def literal(node: ast.expr) -> Any:
    """The JSON value that is written there, as arguments of a call it becomes; `_NONE` where it is none."""
    if isinstance(node, ast.Constant):
        is_json = node.value is None or isinstance(node.value, str | int)
        return node.value if is_json or (type(node.value) is float and math.isfinite(node.value)) else _NONE
    if isinstance(node, ast.UnaryOp):
        number = literal(node.operand)
        return -number if type(number) in (int, float) else _NONE
    if isinstance(node, ast.List | ast.Tuple):
        items = [literal(each) for each in node.elts]
        return _NONE if any(item is _NONE for item in items) else items
    assert isinstance(node, ast.Dict)
    found = {_key(key): literal(each) for key, each in zip(node.keys, node.values, strict=True)}
    return _NONE if any(item is _NONE for item in found.values()) else found


_NONE = object()


def _key(node: ast.expr | None) -> str:
    """A key as JSON has it: ``1`` becomes ``"1"``, ``True`` becomes ``"true"``."""
    assert isinstance(node, ast.Constant)
    (key,) = json.loads(json.dumps({node.value: None}))
    return str(key)


def _is_special(found: Any) -> bool:
    if isinstance(found, str):
        return _SPECIAL.search(found) is not None
    if isinstance(found, list):
        return any(map(_is_special, found))
    return isinstance(found, dict) and (any(key[:1] == "$" for key in found) or any(map(_is_special, found.values())))


def _is_boolean(node: ast.expr) -> bool:
    if isinstance(node, ast.Compare):
        return True
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.Not)
    if isinstance(node, ast.BoolOp):
        return all(map(_is_boolean, node.values))
    if isinstance(node, ast.Call):
        function = node.func
        return (function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")) in _BOOLEAN_CALLS
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _bool(node: ast.expr) -> ast.expr:
    return ast.Call(ast.Name("bool", ast.Load()), [node], [])


def _text(node: ast.expr) -> str:
    """The expression as text, which is read as the very same expression."""
    for tree in (node, None):
        try:
            tree = _Joins().visit(copy.deepcopy(node)) if tree is None else tree
            text = ast.unparse(tree)
            parse_expression(text)
            if _dumped(ast.parse(text, mode="eval").body) == _dumped(tree):
                return text
        except (ExpressionFault, ValueError, RecursionError, SyntaxError, MemoryError):
            continue
    raise NotSpelt


class _Joins(ast.NodeTransformer):
    """F-strings as `''.join([...])`: before Python 3.12 an f-string cannot hold every text within its braces."""

    def visit_JoinedStr(self, node: ast.JoinedStr) -> ast.AST:
        self.generic_visit(node)
        parts: list[ast.expr] = []
        for part in node.values:
            if not isinstance(part, ast.FormattedValue):
                parts.append(part)
            elif part.format_spec is None and part.conversion in (-1, ord("s")):
                parts.append(ast.Call(ast.Name("str", ast.Load()), [part.value], []))
            else:
                parts.append(ast.JoinedStr([part]))
        return ast.Call(ast.Attribute(ast.Constant(""), "join", ast.Load()), [ast.List(parts, ast.Load())], [])


def _dumped(node: ast.AST) -> str:
    return ast.dump(node).replace(", kind='u'", "")
