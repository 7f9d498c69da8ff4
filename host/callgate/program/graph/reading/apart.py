"""Takes apart each kind of expression that may have a call of a tool inside it."""

from __future__ import annotations

import ast
from typing import Any, Final

from callgate.program.graph.flow import Assign, Block, Has, If

from .awaits import awaited
from .lift import Lifter
from .rounds import comprehension
from .scope import refusal, written

__all__ = ["TAKE_APART"]

_MOST_PAIRS: Final = 15
"""CPython evaluates up to 15 pairs before it builds a dict. For more pairs it hashes the first before it has the
last."""


def _choice(lifter: Lifter, node: ast.IfExp) -> ast.expr:
    test = lifter.value(node.test)
    name = lifter.scope.fresh()
    blocks: list[Block] = []
    for side in (node.body, node.orelse):
        with lifter.nested(node.lineno) as block:
            block_value = lifter.value(side)
            lifter.block.append(Assign(name, block_value, side.lineno))
        blocks.append(tuple(block))
    lifter.block.append(If(test, blocks[0], blocks[1], node.lineno))
    return ast.Name(name, ast.Load())


def _binary(lifter: Lifter, node: ast.BinOp) -> ast.expr:
    left, right = lifter.in_order([node.left, node.right])
    return ast.BinOp(left, node.op, right)


def _compare(lifter: Lifter, node: ast.Compare) -> ast.expr:
    if len(node.ops) > 1:
        raise refusal(node, "a chain of comparisons with a call in it", "give the call a line of its own")
    left, right = lifter.in_order([node.left, *node.comparators])
    return ast.Compare(left, node.ops, [right])


def _unary(lifter: Lifter, node: ast.UnaryOp) -> ast.expr:
    return ast.UnaryOp(node.op, lifter.lift(node.operand))


def _attribute(lifter: Lifter, node: ast.Attribute) -> ast.expr:
    return ast.Attribute(lifter.lift(node.value), node.attr, ast.Load())


def _subscript(lifter: Lifter, node: ast.Subscript) -> ast.expr:
    if isinstance(node.slice, ast.Slice):
        if lifter.calls(node.slice):
            raise refusal(node, "a call stands in a slice", "give it a line of its own")
        return ast.Subscript(lifter.lift(node.value), node.slice, ast.Load())
    value, index = lifter.in_order([node.value, node.slice])
    return ast.Subscript(value, index, ast.Load())


def _display(lifter: Lifter, node: ast.List | ast.Tuple) -> ast.expr:
    return type(node)(lifter.in_order(node.elts), ast.Load())


def _dict(lifter: Lifter, node: ast.Dict) -> ast.expr:
    if len(node.keys) > _MOST_PAIRS:
        raise refusal(node, "a call in so large a display", "give the call a line of its own")
    pairs: list[ast.expr] = []
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            raise refusal(node, "`**` beside a call", "give the call a line of its own")
        pairs += [key, value]
    made = lifter.in_order(pairs)
    return ast.Dict(list(made[::2]), made[1::2])


def _text(lifter: Lifter, node: ast.JoinedStr) -> ast.expr:
    last = max(index for index, part in enumerate(node.values) if lifter.calls(part))
    parts: list[ast.expr] = []
    for index, part in enumerate(node.values):
        if not isinstance(part, ast.FormattedValue) or index > last:
            parts.append(part)
            continue
        if part.format_spec is not None and lifter.calls(part.format_spec):
            raise refusal(node, "a call stands in a format", "give it a line of its own", what=written(part))
        lifted = ast.copy_location(ast.FormattedValue(lifter.lift(part.value), part.conversion, part.format_spec), part)
        if index < last:
            alone = lifter.keep(ast.copy_location(ast.JoinedStr([lifted]), node))
            lifted = ast.copy_location(ast.FormattedValue(alone, -1, None), part)
        parts.append(lifted)
    return ast.JoinedStr(parts)


def _function(lifter: Lifter, node: ast.Call) -> ast.expr:
    """A listed function or method with a call of a tool among its arguments, or in its object."""
    if lifter.is_call(node):
        name = node.func.id if isinstance(node.func, ast.Name) else written(node.func).partition(".")[0]
        if name == "print":
            raise refusal(node, "print within an expression is not part of a graph", "print by itself")
        if isinstance(node.func, ast.Attribute) and node.func.attr == "create_task":
            raise refusal(node, "a call not awaited is held by a name, or by a list", "await it")
        if name == "asyncio":
            raise refusal(node, "of asyncio, only gather, create_task and run are part of a graph")
        raise refusal(node, "the call is not awaited", "write await before it")
    receiver = [node.func.value] if isinstance(node.func, ast.Attribute) and not _is_module(node.func.value) else []
    if any(keyword.arg is None for keyword in node.keywords):
        raise refusal(node, "`**` beside a call", "give the call a line of its own")
    function = node.func
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    if receiver and any(map(lifter.calls, given)):
        assert isinstance(node.func, ast.Attribute)
        receiver = [lifter.keep(node.func.value)]
        lifter.block.append(Has(lifter.pure(receiver[0]), node.func.attr, node.lineno))
    made = lifter.in_order([*receiver, *given])
    if receiver:
        assert isinstance(node.func, ast.Attribute)
        function = ast.copy_location(ast.Attribute(made.pop(0), node.func.attr, ast.Load()), node.func)
    positional, named = made[: len(node.args)], made[len(node.args) :]
    keywords = [ast.keyword(keyword.arg, value) for keyword, value in zip(node.keywords, named, strict=True)]
    return ast.Call(function, positional, keywords)


def _is_module(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "json"


TAKE_APART: Final[dict[type[ast.expr], Any]] = {
    ast.Attribute: _attribute,
    ast.Await: awaited,
    ast.BinOp: _binary,
    ast.Call: _function,
    ast.Compare: _compare,
    ast.Dict: _dict,
    ast.DictComp: comprehension,
    ast.GeneratorExp: comprehension,
    ast.IfExp: _choice,
    ast.JoinedStr: _text,
    ast.List: _display,
    ast.ListComp: comprehension,
    ast.Subscript: _subscript,
    ast.Tuple: _display,
    ast.UnaryOp: _unary,
}
