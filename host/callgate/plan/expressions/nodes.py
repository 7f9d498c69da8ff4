"""Compile the plain nodes to closures: constants, displays, fields, subscripts, operators, f-strings.

A closure does what CPython's bytecode does, in the same order. Values from other closures have known types; a value
that is taken out of a container is checked.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any, Final

from callgate_guest.records import no_field

from .budget import INTEGER_BITS, Budget, ExpressionFault
from .compilation import Compilation, Node, Scope
from .functions import collected
from .kinds import DICTS, ITERATORS, KNOWN, RECORD_ATTRIBUTES, SIZED, Record, foreign, has_attribute, known
from .methods import METHODS
from .operators import BINARY, COMPARISONS, MODULO_HINT, UNARY, charge_unary, formatted, item_of, joined, slice_of
from .weight import Keys, charge_keys_of, charge_text

__all__ = ["PLAIN_BUILDERS", "check_attribute_name", "field_of", "items_of"]

_CONSTANTS: Final = frozenset[type]({str, int, float, bool, type(None)})
_MOST_FIELDS_SHOWN: Final = 20
_MOST_AT_ONCE: Final = 15  # pairs of a dict display that CPython evaluates before it hashes the first key


def _constant(compilation: Compilation, node: ast.Constant) -> Node:
    value: Any = node.value
    if type(value) not in _CONSTANTS:
        what = "..." if value is ... else f"{type(value).__name__} `{ast.unparse(node)[:40]}`"
        hint = "use texts, numbers, True, False and None"
        raise compilation.fault(node, f"the constant {what} is not a JSON value", hint)
    if type(value) is int and value.bit_length() > INTEGER_BITS:
        message = f"an integer of {value.bit_length():,} bits is too long"
        raise compilation.fault(node, message, f"the longest has {INTEGER_BITS:,} bits")
    return lambda budget, scope: value


def _name(compilation: Compilation, node: ast.Name) -> Node:
    return compilation.name(node)


# Displays


def items_of(
    elements: list[ast.expr], build: Callable[[ast.expr], Node], *, size: int = 8, steps: int = 0, extra: int = 0
) -> Node:
    """Compile elements to a new list of their values, `*` spread.

    Args:
        elements: of a display or a call.
        build: compiles one element.
        size: bytes of each value.
        steps: cost of each value that is spread.
        extra: bytes that each of these takes besides.
    """
    if not any(isinstance(element, ast.Starred) for element in elements):
        nodes = [build(element) for element in elements]
        made = (56 + size * len(nodes)) if size else 0

        def plain(budget: Budget, scope: Scope) -> list[Any]:
            budget.make(made)
            return [node(budget, scope) for node in nodes]

        return plain
    parts = _parts(elements, build)

    def starred(budget: Budget, scope: Scope) -> list[Any]:
        values: list[Any] = []
        for is_spread, node in parts:
            value = node(budget, scope)
            if is_spread:
                before = len(values)
                values.extend([*collected(budget, value)])  # in Python's own words where it cannot be spread
                budget.work(steps * (len(values) - before))
                budget.make(extra * (len(values) - before))
            else:
                values.append(value)
        budget.make(56 + size * len(values))
        return values

    return starred


def _parts(elements: list[ast.expr], build: Callable[[ast.expr], Node]) -> list[tuple[bool, Node]]:
    """Compile each element; True marks one with `*`."""
    return [(True, build(each.value)) if isinstance(each, ast.Starred) else (False, build(each)) for each in elements]


def _list(compilation: Compilation, node: ast.List) -> Node:
    return items_of(node.elts, compilation.build)


def _tuple(compilation: Compilation, node: ast.Tuple) -> Node:
    items = items_of(node.elts, compilation.build)
    return lambda budget, scope: tuple(items(budget, scope))


def _set(compilation: Compilation, node: ast.Set) -> Node:
    if not any(isinstance(element, ast.Starred) for element in node.elts):
        items = items_of(node.elts, compilation.build)
        return lambda budget, scope: {*Keys(budget).paying(items(budget, scope))}
    parts = _parts(node.elts, compilation.build)

    def build(budget: Budget, scope: Scope) -> Any:
        keys = Keys(budget)
        made: set[Any] = set()
        for is_spread, part in parts:
            value = part(budget, scope)
            values = collected(budget, value) if is_spread else [value]
            made.update(keys.paying(values) if type(values) in SIZED or type(values) in ITERATORS else values)
        return made

    return build


def _dict(compilation: Compilation, node: ast.Dict) -> Node:
    runs: list[list[tuple[Node | None, Node]]] = [[]]
    for key, value in zip(node.keys, node.values, strict=True):
        if key is None:
            runs += [[(None, compilation.build(value))], []]
        else:
            runs[-1].append((compilation.build(key), compilation.build(value)))
            if len(runs[-1]) > _MOST_AT_ONCE:
                runs += [[pair] for pair in runs.pop()] + [[]]
    size = 200 + 100 * len(node.keys)

    def build(budget: Budget, scope: Scope) -> Any:
        budget.make(size)
        keys = Keys(budget)
        made: dict[Any, Any] = {}
        for run in runs:
            pairs = [(key and key(budget, scope), value(budget, scope)) for key, value in run]
            if run and run[0][0] is None:
                made = _merged(budget, made, pairs[0][1])
                continue
            for key, value in pairs:
                keys.pay(key)
                made[key] = value
        return made

    return build


def _merged(budget: Budget, made: dict[Any, Any], mapping: Any) -> dict[Any, Any]:
    if type(mapping) in DICTS:
        budget.make(100 * (len(made) + len(mapping)))
        charge_keys_of(budget, mapping)
        charge_keys_of(budget, made)
    return {**made, **mapping}


# Fields and subscripts


def check_attribute_name(compilation: Compilation, node: ast.Attribute) -> None:
    """Refuse a name that leads into the interpreter."""
    if node.attr.startswith("__"):
        message = f"the attribute `{node.attr[:80]}` leads into the interpreter"
        raise compilation.fault(node, message, f"to read a field of that name, write [{node.attr[:80]!r}]")


def _attribute(compilation: Compilation, node: ast.Attribute) -> Node:
    check_attribute_name(compilation, node)
    name, records_only = node.attr, compilation.records_only
    if records_only and name in RECORD_ATTRIBUTES:
        message = f"`.{name}` without a call is the dict's own method, not a field"
        raise compilation.fault(node, message, f"write [{name!r}] for the field, or .{name}() for the call")
    value_of = compilation.build(node.value)

    def read(budget: Budget, scope: Scope) -> Any:
        return field_of(budget, value_of(budget, scope), name, records_only)

    return read


def field_of(budget: Budget, value: Any, name: str, records_only: bool) -> Any:
    """Return `value.name`, a field of an object, or raise as the guest's objects do."""
    kind = type(value)
    if kind is Record or (kind is dict and not records_only):
        try:
            found = value[name]
        except KeyError:
            charge_text(budget, list(value)[:_MOST_FIELDS_SHOWN])
            raise AttributeError(no_field(value, name)) from None
        if type(found) not in KNOWN:
            raise foreign(found)
        return found
    if not has_attribute(kind, name):
        raise AttributeError(f"{kind.__name__!r} object has no attribute {name!r}")
    hint = f"call it: .{name}(...)" if kind in METHODS.get(name, ()) else "use what Python's operators give of it"
    raise ExpressionFault(f"`.{name}` of a {kind.__name__} is not supported", hint)


def _subscript(compilation: Compilation, node: ast.Subscript) -> Node:
    value_of = compilation.build(node.value)
    if isinstance(node.slice, ast.Slice):
        ends = (node.slice.lower, node.slice.upper, node.slice.step)
        lower, upper, step = (compilation.build(end or ast.Constant(None)) for end in ends)

        def take(budget: Budget, scope: Scope) -> Any:
            value = value_of(budget, scope)
            return slice_of(budget, value, lower(budget, scope), upper(budget, scope), step(budget, scope))

        return take
    index_of = compilation.build(node.slice)

    def read(budget: Budget, scope: Scope) -> Any:
        return known(item_of(budget, value_of(budget, scope), index_of(budget, scope)))

    return read


# Operators


def _binary(compilation: Compilation, node: ast.BinOp) -> Node:
    if type(node.op) not in BINARY:
        raise compilation.fault(node, "the operator `@` cannot stand here", "use + - * / // % ** & | ^ << >>")
    left = node.left.value if isinstance(node.left, ast.Constant) else "" if isinstance(node.left, ast.JoinedStr) else 0
    if isinstance(node.op, ast.Mod) and isinstance(left, str):
        raise compilation.fault(node, "`%` on a text is not supported", MODULO_HINT)
    left_of, right_of = compilation.build(node.left), compilation.build(node.right)
    apply, charge, free = BINARY[type(node.op)]

    def compute(budget: Budget, scope: Scope) -> Any:
        left = left_of(budget, scope)
        right = right_of(budget, scope)
        if not (type(left) in free and type(right) in free):
            charge(budget, left, right)
        return apply(left, right)

    return compute


def _unary(compilation: Compilation, node: ast.UnaryOp) -> Node:
    operand_of, apply = compilation.build(node.operand), UNARY[type(node.op)]

    def compute(budget: Budget, scope: Scope) -> Any:
        operand = operand_of(budget, scope)
        charge_unary(budget, operand)
        return apply(operand)

    return compute


def _boolean(compilation: Compilation, node: ast.BoolOp) -> Node:
    *firsts, last = [compilation.build(value) for value in node.values]
    stops_at = isinstance(node.op, ast.Or)

    def decide(budget: Budget, scope: Scope) -> Any:
        for first in firsts:
            value = first(budget, scope)
            if bool(value) is stops_at:
                return value
        return last(budget, scope)

    return decide


def _compare(compilation: Compilation, node: ast.Compare) -> Node:
    operands = [node.left, *node.comparators]
    for place, operator in enumerate(node.ops):
        if isinstance(operator, ast.Is | ast.IsNot) and not any(
            isinstance(side, ast.Constant) and (side.value is None or type(side.value) is bool)
            for side in operands[place : place + 2]
        ):
            raise compilation.fault(node, "`is` compares only with None, True or False", "write == or !=")
    first = compilation.build(node.left)
    if len(node.ops) == 1:
        second, compare = compilation.build(node.comparators[0]), COMPARISONS[type(node.ops[0])]
        return lambda budget, scope: compare(budget, first(budget, scope), second(budget, scope))
    steps = [
        (COMPARISONS[type(operator)], compilation.build(right))
        for operator, right in zip(node.ops, node.comparators, strict=True)
    ]

    def chain(budget: Budget, scope: Scope) -> Any:
        left = first(budget, scope)
        held: Any = True
        for compare, right_of in steps:
            right = right_of(budget, scope)
            held = compare(budget, left, right)
            if not held:
                break
            left = right
        return held

    return chain


def _choice(compilation: Compilation, node: ast.IfExp) -> Node:
    test, body, other = compilation.build(node.test), compilation.build(node.body), compilation.build(node.orelse)
    return lambda budget, scope: body(budget, scope) if test(budget, scope) else other(budget, scope)


# F-strings


def _formatted(compilation: Compilation, node: ast.FormattedValue) -> Node:
    value_of, conversion = compilation.build(node.value), node.conversion
    if node.format_spec is None:
        return lambda budget, scope: formatted(budget, value_of(budget, scope), conversion, "")
    specification_of = compilation.build(node.format_spec)

    def build(budget: Budget, scope: Scope) -> str:
        value = value_of(budget, scope)
        return formatted(budget, value, conversion, specification_of(budget, scope))

    return build


def _joined(compilation: Compilation, node: ast.JoinedStr) -> Node:
    parts = [compilation.build(value) for value in node.values]
    return lambda budget, scope: joined(budget, [part(budget, scope) for part in parts])


PLAIN_BUILDERS: Final[dict[type[ast.expr], Any]] = {
    ast.Attribute: _attribute,
    ast.BinOp: _binary,
    ast.BoolOp: _boolean,
    ast.Compare: _compare,
    ast.Constant: _constant,
    ast.Dict: _dict,
    ast.FormattedValue: _formatted,
    ast.IfExp: _choice,
    ast.JoinedStr: _joined,
    ast.List: _list,
    ast.Name: _name,
    ast.Set: _set,
    ast.Subscript: _subscript,
    ast.Tuple: _tuple,
    ast.UnaryOp: _unary,
}
"""Every kind of node except calls and comprehensions."""
