"""The variables of a program while it is followed without values: assigned, changed in place, merged after branches.

A change in place is known where the variable alone has the object; else everything that may share it is not known any
more. Knows no steps and no calls.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from callgate.plan.expressions.parse import DEFAULT_MAX_BYTES, MOST_NESTING
from callgate.plan.expressions.trees import nodes_of
from callgate.program.graph.flow import Item, Pure, Target

from .iterators import holds_iterator, may_hold_iterator
from .rows import free_names
from .sharing import Shares, Tokens, aged, both, shares_of
from .symbols import Symbol, blamed, made, substituted, too_large, unknown
from .work import Work

__all__ = ["Variables", "kind_of"]

_LISTS: Final = frozenset({"list", "sorted"})
_WIDE: Final = 12
"""Sets of tokens get wide: of so many bits, as a power of two, each look at a variable costs as much again."""


@dataclass(slots=True, eq=False)
class _Known:
    """What is the same whenever an expression of the program is come to."""

    nodes: int
    kept_iterator: bool
    """Where it is kept, an iterator is kept with it."""
    inner_iterator: bool
    """So it is where the value itself, should it be an iterator, is read at once."""
    constant: Symbol | None = None
    """Its symbol, where it has no variables."""


class Variables:
    """All variables at one moment; slots are among them.

    Args:
        renamed: other names for variables that expressions bind themselves.
        work: the budget.
    """

    def __init__(self, renamed: Mapping[str, str], work: Work) -> None:
        self.symbols: dict[str, Symbol] = {}
        self.tokens = Tokens()
        self.changed = 0
        """What was changed in place so far."""
        self.rounds = 0
        """Loops around here."""
        self.lists: set[str] = set()
        """Steps whose result is a list for certain."""
        self.work = work
        self._renamed = renamed
        self._known: dict[int, _Known] = {}

    def look(self, count: int) -> None:
        """Pay for a look at so many variables."""
        self.work(1 + (count * (1 + (len(self.tokens) >> _WIDE)) >> 2))

    def value(self, pure: Pure, *, at_once: bool = False) -> Symbol:
        """The value of an expression. `at_once`: it is used up here, should it be an iterator."""
        if isinstance(pure.node, ast.Name):
            symbol = self.symbols.get(pure.node.id)
            if symbol is None:
                return unknown(pure.node.id, "may have no value here")
            return symbol.sharing(symbol.shares)
        known = self._known.get(id(pure))
        if known is None:
            known = self._known[id(pure)] = self._learnt(pure)
        if known.inner_iterator if at_once else known.kept_iterator:
            return self._iterator(pure)
        if known.constant is not None:
            return known.constant
        names = pure.expression.names
        self.work(1 + known.nodes + len(names))
        found = substituted(pure, self.symbols, self._renamed, self.work)
        found = found.sharing(shares_of(pure.node, self._shares(names), id(pure), self.tokens))
        if not names:
            known.constant = found
        return found

    def _learnt(self, pure: Pure) -> _Known:
        nodes = nodes_of([pure.node], 4 * self.work.left)
        self.work(len(nodes) >> 2)
        if not may_hold_iterator(pure.expression.functions, map(type, nodes)):
            return _Known(len(nodes), False, False)
        kept, inner = (holds_iterator(pure.node, at_once=at_once) for at_once in (False, True))
        return _Known(len(nodes), kept, inner)

    def _iterator(self, pure: Pure) -> Symbol:
        shares = shares_of(pure.node, self._shares(pure.expression.names), id(pure), self.tokens)
        return unknown("$", "holds an iterator, which is used up by whoever reads it", "write list(...)", shares)

    def _shares(self, names: frozenset[str]) -> dict[str, Shares]:
        return {name: self.symbols[name].shares for name in names if name in self.symbols}

    def new(self, pure: Pure) -> Symbol:
        """The same, where it is kept: what was made here in an earlier round is another object."""
        self.age(id(pure))
        return self.value(pure)

    def bind(self, target: Target, symbol: Symbol) -> None:
        """Variables get a value, or the parts of one."""
        if isinstance(target, str):
            self.symbols[target] = blamed(symbol, target)
            return
        assert not isinstance(target, Item)  # items among several targets are no graph
        parts = Shares(symbol.shares.parts, symbol.shares.parts)
        whole = symbol.node
        self.work(2 * len(target))
        for index, each in enumerate(target):
            if whole is None:
                part = symbol.sharing(parts)
            elif isinstance(whole, ast.List | ast.Tuple) and len(whole.elts) == len(target) and _is_plain(whole.elts):
                part = self._element(symbol, whole.elts[index], parts)
            else:
                is_list = kind_of(whole, self.lists) == "list"
                values = whole if is_list else ast.Call(ast.Name("list", ast.Load()), [whole], [])
                node = ast.Subscript(values, ast.Constant(index), ast.Load())
                part = made(node, symbol.names, symbol, shares=parts)
            self.bind(each, part)

    def _element(self, whole: Symbol, node: ast.expr, shares: Shares) -> Symbol:
        """One of the elements that are written there; its size is at most that of the whole."""
        names = whole.names
        if names:
            self.work(whole.size >> 2)
            names = free_names(node)
        return Symbol(node, names, whole.size, whole.depth, shares)

    def age(self, key: int) -> None:
        """An operation makes new containers."""
        newest = self.tokens.newest(key) if self.rounds else 0
        if not newest:
            return
        self.look(len(self.symbols))
        for name, symbol in self.symbols.items():
            shares = symbol.shares
            if (shares.own | shares.parts) & newest:
                self.symbols[name] = symbol.sharing(aged(shares, newest), symbol.calls)

    def is_alone(self, name: str) -> bool:
        """Whether the variable holds an object that no other variable can reach."""
        own = self.symbols[name].shares.own
        if not own or own & (own - 1):
            return False
        self.look(len(self.symbols))
        return not any(
            own & symbol.shares.parts or (own & symbol.shares.own and other != name)
            for other, symbol in self.symbols.items()
        )

    def touch(self, tokens: int, added: int, line: int) -> None:
        """These objects are changed in place, and may have parts more."""
        self.changed |= tokens
        self.look(len(self.symbols))
        hint = "make it in one expression, like [row.name for row in rows]"
        why = f"is changed in place in line {line}, or shares parts with what is"
        touched = [name for name, symbol in self.symbols.items() if tokens & (symbol.shares.own | symbol.shares.parts)]
        self.work(2 * len(touched))
        for name in touched:
            symbol = self.symbols[name]
            shares = Shares(symbol.shares.own, symbol.shares.parts | added)
            self.symbols[name] = unknown(name, why, hint, shares, symbol.calls)

    def grow(self, name: str, method: str, given: list[Symbol], line: int) -> None:
        """A method changes the object of a variable."""
        before = self.symbols[name]
        added = 0
        for each in given:
            added |= each.shares.all
        if before.node is not None and all(each.node is not None for each in given) and self.is_alone(name):
            self.work(before.size >> 7)
            node = _grown(before.node, method, [each.node for each in given if each.node is not None], self.lists)
            if node is not None:
                self.changed |= before.shares.own
                names = self.work.union(before.names, *(each.names for each in given))
                shares = Shares(before.shares.own, before.shares.parts | added)
                self.symbols[name] = _larger(node, names, before, given, shares)
                return
        lost = next((each for each in (before, *given) if each.node is None), None)
        self.touch(before.shares.own, added, line)
        if lost is not None:
            after = self.symbols[name]
            self.symbols[name] = lost.sharing(after.shares, after.calls)

    def augment(self, name: str, operator: type[ast.operator], value: Symbol, line: int) -> None:
        """``name += value`` and the like."""
        before = self.symbols[name]
        if before.node is None or value.node is None:
            if not (value.node is not None and is_number(value.node)):
                self.touch(before.shares.own, value.shares.all, line)
            lost = before if before.node is None else value
            shares = Shares(before.shares.own, before.shares.parts | value.shares.parts)  # never the value itself
            self.symbols[name] = lost.sharing(shares)
        elif not before.shares.own or is_number(value.node):
            node = ast.BinOp(before.node, operator(), value.node)
            self.symbols[name] = made(node, self.work.union(before.names, value.names), before, value)
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
        self.look(len(one) + len(other))
        self.symbols = one
        for name, symbol in one.items():
            there = other.get(name)
            if there is not symbol:
                self.symbols[name] = self._merged(name, symbol, there, test, hidden, line)
        for name, symbol in other.items():
            if name not in one:
                self.symbols[name] = self._merged(name, None, symbol, test, hidden, line)

    def _merged(
        self, name: str, one: Symbol | None, other: Symbol | None, test: Symbol, hidden: frozenset[str], line: int
    ) -> Symbol:
        if one is None or other is None:
            there = one or other
            assert there is not None
            why = f"has a value only on one side of the condition in line {line}"
            return unknown(name, why, "", there.shares, there.calls)
        shares = both(one.shares, other.shares)
        calls = one.calls | other.calls
        if one.node is other.node and one.node is not None:
            return one.sharing(shares, calls)
        lost_side = one if one.node is None else other if other.node is None else test if test.node is None else None
        if lost_side is not None:
            return lost_side.sharing(shares, calls)
        self.work(1 + (len(one.names) + len(other.names) >> 3))
        if not (hidden.isdisjoint(one.names) and hidden.isdisjoint(other.names)):
            hint = "use the result in the same branch, or make the call without the condition"
            why = f"comes of a call that is made only if the condition in line {line} says so"
            return unknown(name, why, hint, shares, calls)
        assert one.node is not None
        assert other.node is not None
        assert test.node is not None
        node = ast.IfExp(test.node, one.node, other.node)
        return made(
            node, self.work.union(test.names, one.names, other.names), test, one, other, shares=shares, calls=calls
        )


def _larger(node: ast.expr, names: frozenset[str], before: Symbol, given: list[Symbol], shares: Shares) -> Symbol:
    """An object that has grown; one level deeper at most, where it is a display that got one more element."""
    if not (type(node) is type(before.node) and isinstance(node, ast.List | ast.Dict | ast.Set)):
        return made(node, names, before, *given, shares=shares, calls=before.calls)
    size = before.size + sum(each.size + 4 for each in given)
    depth = max(before.depth, *(each.depth + 2 for each in given))
    if size > DEFAULT_MAX_BYTES or depth > MOST_NESTING:
        return too_large(node, shares, before.calls)
    return Symbol(node, names, size, depth, shares, calls=before.calls)


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
    if way == ("list", "become", 1):
        return given[0]
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


def _is_plain(elements: list[ast.expr]) -> bool:
    return not any(isinstance(element, ast.Starred) for element in elements)
