"""Lists, dicts and sets to which each round of a loop adds one thing: comprehensions."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from callgate.plan.expressions.parse import DEFAULT_MAX_BYTES
from callgate.program.graph.flow import Assign, Change, Hold, Item, Operation

from .rows import Rows, Unaligned, clauses, free_names, is_known, levels, list_of
from .sharing import Shares
from .symbols import Symbol, made, too_large, unknown
from .variables import Variables, kind_of
from .work import Work

__all__ = ["Gathered", "added_to", "gathered_in"]

_KINDS = {"append": "list", "add": "set", "item": "dict"}


@dataclass(slots=True, eq=False)
class Gathered:
    """One of them, while its loop is followed."""

    before: Symbol
    outer: Rows | None
    """Rows around the loop."""
    way: str
    """``"append"``, ``"add"``, or ``"item"``."""
    given: tuple[Symbol, ...] = ()
    """What each round adds: a value, or a key and a value."""
    rows: Rows | None = None
    lost: Symbol | None = None

    def add(self, given: list[Symbol], rows: Rows | None) -> None:
        """The rounds come to where it grows."""
        self.given, self.rows = tuple(given), rows
        self.lost = self.lost or next((each for each in given if each.node is None), None)

    def again(self) -> Gathered:
        """The same, for another round."""
        return Gathered(self.before, self.outer, self.way)

    def after(self, name: str, shares: Shares, calls: int, work: Work) -> Symbol:
        """What it is after the loop."""
        lost = self.lost or is_known(self.rows, self.outer)
        if lost is not None:
            return lost.sharing(shares, calls)
        if not self.given:
            return self.before.sharing(self.before.shares, calls)
        parts = [self.before, *self.given, *_values(self.rows, self.outer)]
        size = sum(part.size for part in parts)
        if size > DEFAULT_MAX_BYTES:
            return too_large(ast.Name(name), shares, calls)
        names = work.union(*(each.names for each in self.given))
        work(size + len(names) * levels(self.rows))
        try:
            node = self._whole(self._comprehension(names))
        except Unaligned:
            why = "holds results of an inner loop, anew in each round of an outer one"
            return unknown(name, why, "put them into one list, over both loops", shares, calls)
        return made(node, free_names(node), *parts, shares=shares, calls=calls)

    def _comprehension(self, names: frozenset[str]) -> ast.expr:
        nodes = [each.node for each in self.given if each.node is not None]
        if self.way == "append":
            return list_of(nodes[0], names, self.rows, self.outer)
        rounds = clauses(self.rows, names, self.outer)
        return ast.SetComp(nodes[0], rounds) if self.way == "add" else ast.DictComp(nodes[0], nodes[1], rounds)

    def _whole(self, more: ast.expr) -> ast.expr:
        before = self.before.node
        assert before is not None
        if _is_empty(before):
            return more
        if self.way == "item":
            return ast.Dict([None, None], [before, more])
        items: list[ast.expr] = [ast.Starred(each, ast.Load()) for each in (before, more)]
        return ast.List(items, ast.Load()) if self.way == "append" else ast.Set(items)


def added_to(operation: Operation) -> tuple[str, str] | None:
    """The variable to which an operation adds one thing, and the way; None for any other operation."""
    if isinstance(operation, Hold) and operation.slot is not None:
        return operation.slots, "append"
    if isinstance(operation, Change) and operation.method in _KINDS and len(operation.arguments) == 1:
        holder = operation.object.node
        return (holder.id, operation.method) if isinstance(holder, ast.Name) else None
    if isinstance(operation, Assign) and isinstance(operation.target, Item):
        holder = operation.target.object.node
        return (holder.id, "item") if isinstance(holder, ast.Name) else None
    return None


def gathered_in(
    operations: Iterable[Operation],
    mentions: Mapping[str, int],
    variables: Variables,
    values: Symbol,
    rows: Rows | None,
    taken: Collection[str],
) -> Iterator[tuple[str, Gathered]]:
    """The variables that a loop's body adds to in one place, and has nothing else to do with.

    Args:
        operations: of the body.
        mentions: how often it has to do with each variable.
        variables: before the loop.
        values: what it goes over.
        rows: around the loop.
        taken: those that an outer loop gathers.
    """
    for operation in operations:
        found = added_to(operation)
        if found is None:
            continue
        name, way = found
        symbol = variables.symbols.get(name)
        if mentions[name] != 1 or symbol is None or symbol.node is None or name in taken:
            continue
        if kind_of(symbol.node, variables.lists) != _KINDS[way] or symbol.shares.own & values.shares.all:
            continue
        if variables.is_alone(name):
            yield name, Gathered(symbol, rows, way)


def _is_empty(node: ast.expr) -> bool:
    if isinstance(node, ast.List):
        return not node.elts
    if isinstance(node, ast.Dict):
        return not node.values
    return isinstance(node, ast.Call) and not node.args and not node.keywords


def _values(rows: Rows | None, outer: Rows | None) -> Iterator[Symbol]:
    while rows is not outer and rows is not None:
        yield rows.values
        rows = rows.outer
