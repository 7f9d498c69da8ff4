"""Symbols as they stand in a plan: JSON where they are constant, references where they are results, else `$expr`."""

from __future__ import annotations

import ast
import json
import math
from typing import Any, Final

from callgate.plan.expressions import ExpressionFault
from callgate.plan.expressions.parse import DEFAULT_MAX_BYTES, parse
from callgate.plan.expressions.trees import fields_of, nodes_of
from callgate.plan.notations import is_written_like_a_reference

from .symbols import is_literal
from .work import Work

__all__ = ["NotSpelt", "Spelling"]

_BOOLEAN_CALLS: Final = frozenset(
    {"all", "any", "bool", "endswith", "isalnum", "isalpha", "isdigit", "isspace", "startswith"}
)
_LITERAL_WORK: Final = 5
"""Of each value that is written as JSON, by all who look at it, the reading of the plan included."""
_EXPRESSION_WORK: Final = 12
"""Of each node of an expression, in the same way."""
_AGAIN_WORK: Final = 9
"""The same where the text is known already."""


class NotSpelt(Exception):
    """An expression of a plan cannot be that large or deep."""


class Spelling:
    """Writes the values of one plan.

    Args:
        work: the budget.
    """

    def __init__(self, work: Work) -> None:
        self._work = work
        self._conditions: dict[tuple[int, ...], tuple[list[ast.expr], str, int]] = {}
        """Those that were written, by their tests, which are held; and how many nodes they have."""

    def value(self, node: ast.expr, *, is_place: bool = False) -> Any:
        """A value in a plan; with `is_place` it is a place within the item. Raises `NotSpelt`."""
        if isinstance(node, ast.Name):
            return "$item" if node.id == "item" else f"$ref:{node.id}"
        if is_place:
            return f"${ast.unparse(node)}"
        nodes = nodes_of([node], self._work.left)
        self._work(len(nodes) >> 2)
        if is_literal(node):
            self._work(_LITERAL_WORK * len(nodes) + (_characters(nodes) >> 4))
            try:
                found = literal(node)
            except ValueError:  # a key with thousands of digits
                raise NotSpelt from None
            if found is not _NONE:
                return {"$literal": found} if _is_special(found) else found
        return {"$expr": self._text(node, nodes)}

    def condition(self, tests: list[ast.expr]) -> Any:
        """All of the tests, for `when`. Raises `NotSpelt`."""
        key = tuple(map(id, tests))
        known = self._conditions.get(key)
        if known is None:
            parts = [test if _is_boolean(test) else _bool(test) for test in tests]
            node = parts[0] if len(parts) == 1 else ast.BoolOp(ast.And(), parts)
            nodes = nodes_of([node], DEFAULT_MAX_BYTES)
            known = self._conditions[key] = tests, self._text(node, nodes), len(nodes)
        else:
            self._work(_AGAIN_WORK * known[2])
        return {"$expr": known[1]}

    def _text(self, node: ast.expr, nodes: list[ast.AST]) -> str:
        """The expression as text, which is read as the very same expression."""
        characters = _characters(nodes)
        if len(nodes) > DEFAULT_MAX_BYTES or characters > DEFAULT_MAX_BYTES:
            raise NotSpelt
        self._work(_EXPRESSION_WORK * len(nodes) + (characters >> 3))
        try:
            return _unparsed(node)
        except NotSpelt:
            if not any(isinstance(each, ast.JoinedStr) for each in nodes):
                raise
            self._work(2 * _EXPRESSION_WORK * len(nodes))
            return _unparsed(_joined(node))


def _characters(nodes: list[ast.AST]) -> int:
    """Of the constants among them; rather less."""
    count = 0
    for node in nodes:
        if isinstance(node, ast.Constant):
            value = node.value
            count += len(value) if isinstance(value, str) else 1
            count += value.bit_length() >> 2 if type(value) is int else 0
    return count


def _unparsed(node: ast.expr) -> str:
    try:
        text = ast.unparse(node)
        if _is_same(parse(text, DEFAULT_MAX_BYTES), node):
            return text
    except (ExpressionFault, ValueError, RecursionError, SyntaxError, MemoryError):
        pass
    raise NotSpelt


def _is_same(one: Any, other: Any) -> bool:
    """Whether two trees say the same."""
    if type(one) is not type(other):
        return False
    if isinstance(one, ast.Constant):
        value, there = one.value, other.value
        return type(value) is type(there) and (value == there if isinstance(value, str) else repr(value) == repr(there))
    if isinstance(one, ast.AST):
        return all(_is_same(getattr(one, name, None), getattr(other, name, None)) for name in one._fields)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return bool(one == other)


def _joined(node: ast.expr) -> ast.expr:
    """F-strings as `''.join([...])`: before Python 3.12 an f-string cannot hold every text within its braces."""
    again = _without_joins(node)
    assert isinstance(again, ast.expr)
    return again


def _without_joins(node: ast.AST) -> ast.AST:
    made: ast.AST = type(node).__new__(type(node))
    made.__dict__.update(node.__dict__)
    for name in fields_of(type(node)):
        value = getattr(node, name, None)
        if value is None or name == "format_spec":
            continue
        again = [each and _without_joins(each) for each in value] if isinstance(value, list) else _without_joins(value)
        setattr(made, name, again)
    return _as_call(made) if isinstance(made, ast.JoinedStr) else made


def _as_call(node: ast.JoinedStr) -> ast.expr:
    parts: list[ast.expr] = []
    for part in node.values:
        if not isinstance(part, ast.FormattedValue):
            parts.append(part)
        elif part.format_spec is None and part.conversion in (-1, ord("s")):
            parts.append(ast.Call(ast.Name("str", ast.Load()), [part.value], []))
        else:
            parts.append(ast.JoinedStr([part]))
    return ast.Call(ast.Attribute(ast.Constant(""), "join", ast.Load()), [ast.List(parts, ast.Load())], [])


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
        return "$" in found or "{{" in found or is_written_like_a_reference(found)
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
