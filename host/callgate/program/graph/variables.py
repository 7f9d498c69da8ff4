"""The variables of a program while it is followed without values: assigned, changed in place, merged after branches.

A change in place is known where the variable alone has the object; else everything that may share it is not known any
more. Knows no steps and no calls.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import replace

from .flow import Pure
from .reasons import NotAGraph, Refusal
from .sharing import Shares, Token, aged, both, shares_of
from .symbols import Symbol, copied, made, substituted, unknown

__all__ = ["Variables", "kind_of"]

_MOST_WORK = 1_000_000
"""Looks at a variable, all together; some tenths of a second."""
_LISTS = frozenset({"list", "sorted"})


class Variables:
    """All variables at one moment; slots are among them.

    Args:
        renamed: other names for variables that expressions bind themselves.
    """

    def __init__(self, renamed: Mapping[str, str]) -> None:
        self.symbols: dict[str, Symbol] = {}
        self.changed: set[Token] = set()
        """What was changed in place so far."""
        self.rounds = 0
        """Loops around here."""
        self.lists: set[str] = set()
        """Steps whose result is a list for certain."""
        self._renamed = renamed
        self._work = 0

    def value(self, pure: Pure) -> Symbol:
        """The value of an expression."""
        found = substituted(pure, self.symbols, self._renamed)
        known = {name: self.symbols[name].shares for name in pure.expression.names if name in self.symbols}
        return copied(found, shares_of(pure.node, known, id(pure)))

    def new(self, pure: Pure) -> Symbol:
        """The same, where it is kept: what was made here in an earlier round is another object."""
        self.age(id(pure))
        return self.value(pure)

    def age(self, key: int) -> None:
        """An operation makes new containers."""
        if not self.rounds:
            return
        self.work(len(self.symbols))
        for name, symbol in self.symbols.items():
            shares = aged(symbol.shares, key)
            if shares is not symbol.shares:
                self.symbols[name] = replace(symbol, shares=shares)

    def work(self, looks: int) -> None:
        """Count what is done. Raises a `Refusal` where it is too much."""
        self._work += looks
        if self._work > _MOST_WORK:
            message = "it takes too long to see what its variables hold"
            raise Refusal(NotAGraph(1, "the program", message, "split it"))

    def is_alone(self, name: str) -> bool:
        """Whether the variable holds an object that no other variable can reach."""
        own = self.symbols[name].shares.own
        self.work(len(self.symbols))
        return len(own) == 1 and not any(
            own & symbol.shares.parts or (other != name and own & symbol.shares.own)
            for other, symbol in self.symbols.items()
        )

    def touch(self, tokens: frozenset[Token], added: frozenset[Token], line: int) -> None:
        """These objects are changed in place, and may have parts more."""
        self.changed |= tokens
        self.work(len(self.symbols))
        for name, symbol in self.symbols.items():
            if not tokens.isdisjoint(symbol.shares.all):
                shares = Shares(symbol.shares.own, symbol.shares.parts | added)
                hint = "make it in one expression, like [row.name for row in rows]"
                lost = unknown(name, f"is changed in place in line {line}, or shares parts with what is", hint, shares)
                self.symbols[name] = replace(lost, calls=symbol.calls)

    def grow(self, name: str, method: str, given: list[Symbol], line: int) -> None:
        """A method changes the object of a variable."""
        before = self.symbols[name]
        added = frozenset[Token]().union(*(each.shares.all for each in given))
        if before.node is not None and all(each.node is not None for each in given) and self.is_alone(name):
            node = _grown(before.node, method, [each.node for each in given if each.node is not None], self.lists)
            if node is not None:
                self.changed |= before.shares.own
                names = before.names.union(*(each.names for each in given))
                shares = Shares(before.shares.own, before.shares.parts | added)
                grown = made(node, names, before, *given, shares=shares)
                self.symbols[name] = replace(grown, calls=before.calls)
                return
        lost = next((each for each in (before, *given) if each.node is None), None)
        self.touch(before.shares.own, added, line)
        if lost is not None:
            after = self.symbols[name]
            self.symbols[name] = replace(lost, shares=after.shares, calls=after.calls)

    def augment(self, name: str, operator: type[ast.operator], value: Symbol, line: int) -> None:
        """``name += value`` and the like."""
        before = self.symbols[name]
        if before.node is None or value.node is None:
            if not (value.node is not None and is_number(value.node)):
                self.touch(before.shares.own, value.shares.all, line)
            lost = before if before.node is None else value
            shares = both(before.shares, value.shares)
            self.symbols[name] = replace(lost, shares=Shares(shares.own, shares.parts), calls=frozenset())
        elif not before.shares.own or is_number(value.node):
            node = ast.BinOp(before.node, operator(), value.node)
            self.symbols[name] = made(node, before.names | value.names, before, value)
        else:
            self.grow(name, "extend" if operator is ast.Add else "", [value], line)

    def merge(
        self, test: Symbol, sides: tuple[dict[str, Symbol], dict[str, Symbol]], hidden: frozenset[str], line: int
    ) -> None:
        """After a branch: what every variable is now.

        Args:
            test: the condition.
            sides: the variables after each side.
            hidden: results of calls made in the branch.
            line: of the branch.
        """
        one, other = sides
        self.work(len(one) + len(other))
        self.symbols = {}
        for name in {**one, **other}:
            self.symbols[name] = _merged(name, one.get(name), other.get(name), test, hidden, line)


def is_number(node: ast.expr) -> bool:
    """Whether the value is a number for certain."""
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id in ("abs", "float", "int", "len")
    return False


def kind_of(node: ast.expr, lists: set[str]) -> str:
    """``"list"``, ``"dict"`` or ``"set"``; empty where that is not certain."""
    if isinstance(node, ast.List | ast.ListComp) or (isinstance(node, ast.Name) and node.id in lists):
        return "list"
    if isinstance(node, ast.Dict | ast.DictComp):
        return "dict"
    if isinstance(node, ast.Set | ast.SetComp):
        return "set"
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return "list" if node.func.id in _LISTS else node.func.id if node.func.id in ("dict", "set") else ""
    return ""


def _grown(node: ast.expr, method: str, given: list[ast.expr], lists: set[str]) -> ast.expr | None:
    """The object after the method; ``"item"`` sets one. None where that cannot be said."""
    kind = kind_of(node, lists)
    way = (kind, method, len(given))
    if way == ("list", "append", 1):
        return ast.List([*_elements(node), given[0]], ast.Load())
    if way == ("list", "extend", 1):
        more = given[0].elts if isinstance(given[0], ast.List) else [ast.Starred(given[0], ast.Load())]
        return ast.List([*_elements(node), *more], ast.Load())
    if way == ("list", "sort", 0):
        return ast.Call(ast.Name("sorted", ast.Load()), [node], [])
    if way == ("set", "add", 1):
        return ast.Set([*_elements(node), given[0]])
    if way == ("dict", "item", 2):
        keys, values = _pairs(node)
        return ast.Dict([*keys, given[0]], [*values, given[1]])
    if way == ("dict", "update", 1) and kind_of(given[0], lists) == "dict":
        keys, values = _pairs(node)
        return ast.Dict([*keys, None], [*values, given[0]])
    return None


def _elements(node: ast.expr) -> list[ast.expr]:
    if isinstance(node, ast.List | ast.Set):
        return node.elts
    if isinstance(node, ast.Call) and not node.args:
        return []
    return [ast.Starred(node, ast.Load())]


def _pairs(node: ast.expr) -> tuple[list[ast.expr | None], list[ast.expr]]:
    if isinstance(node, ast.Dict):
        return node.keys, node.values
    return ([], []) if isinstance(node, ast.Call) and not node.args and not node.keywords else ([None], [node])


def _merged(
    name: str, one: Symbol | None, other: Symbol | None, test: Symbol, hidden: frozenset[str], line: int
) -> Symbol:
    if one is None or other is None:
        there = one or other
        assert there is not None
        lost = unknown(name, f"has a value only on one side of the condition in line {line}", "", there.shares)
        return replace(lost, calls=there.calls)
    if one is other:
        return one
    shares = both(one.shares, other.shares)
    calls = one.calls | other.calls
    if one.node is other.node and one.node is not None:
        return replace(one, shares=shares, calls=calls)
    lost_side = one if one.node is None else other if other.node is None else test if test.node is None else None
    if lost_side is not None:
        return replace(lost_side, shares=shares, calls=calls)
    if not hidden.isdisjoint(one.names | other.names):
        hint = "use the result in the same branch, or make the call without the condition"
        why = f"comes of a call that is made only if the condition in line {line} says so"
        return replace(unknown(name, why, hint, shares), calls=calls)
    assert one.node is not None
    assert other.node is not None
    assert test.node is not None
    node = ast.IfExp(test.node, one.node, other.node)
    return replace(made(node, test.names | one.names | other.names, test, one, other, shares=shares), calls=calls)
