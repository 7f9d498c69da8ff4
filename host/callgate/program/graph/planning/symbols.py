"""What a variable stands for while a program is followed without its values: an expression over the results of calls.

1. A symbol is known, an expression over step ids and the variables of loops, or it is not, and says why.
2. Expressions are put into each other as trees that share their parts; sizes are counted before, so that nothing grows
   beyond what an expression of a plan may be. Only what is written as a JSON value may be larger.
3. Names that an expression binds itself (in a comprehension, a lambda) are never among those put in: see `naming`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from callgate.plan.expressions.parse import DEFAULT_MAX_BYTES, MOST_NESTING
from callgate.plan.expressions.trees import children_of, fields_of, nodes_of
from callgate.program.graph.flow import Pure

from .sharing import NOTHING, Shares
from .work import Work

__all__ = ["TOO_LARGE", "Symbol", "blamed", "is_literal", "made", "measured", "substituted", "too_large", "unknown"]

TOO_LARGE: Final = "gets too large for an expression of a plan"
_NAMELESS: Final = "a value"
_MOST_LITERAL: Final = 1 << 18
_WORDS: Final[dict[type[ast.AST], int]] = {ast.IfExp: 12, ast.Lambda: 10, ast.comprehension: 10}
"""Characters of a node itself, where they are more than three."""


@dataclass(slots=True, eq=False)
class Symbol:
    """The value of a variable at one moment. Not frozen, for they are made by the dozen; never changed all the same."""

    node: ast.expr | None
    """The expression; None where the value is not known. Shared: never changed."""
    names: frozenset[str] = frozenset()
    """Its free names: step ids and variables of loops."""
    size: int = 0
    """Characters of the expression, about; no less than its nodes."""
    depth: int = 0
    shares: Shares = NOTHING
    subject: str = ""
    """The variable that is to blame, where it is not known."""
    why: str = ""
    hint: str = ""
    calls: int = 0
    """Of a slot: the sites whose calls it holds, a bit for each."""

    def sharing(self, shares: Shares, calls: int = 0) -> Symbol:
        """The same value, sharing other things, and as a slot holding other calls."""
        if self.calls == calls and self.shares is shares:
            return self
        return Symbol(self.node, self.names, self.size, self.depth, shares, self.subject, self.why, self.hint, calls)


def unknown(subject: str, why: str, hint: str = "", shares: Shares = NOTHING, calls: int = 0) -> Symbol:
    """A value that is not known. `why` goes on from the variable's name: "is changed in line 5"."""
    shown = _NAMELESS if subject.startswith("$") else f"`{subject}`"
    return Symbol(None, frozenset(), 0, 0, shares, shown, why, hint, calls)


def blamed(symbol: Symbol, name: str) -> Symbol:
    """The same; where nothing has a name that is to blame, this variable has."""
    if symbol.subject != _NAMELESS or name.startswith("$"):
        return symbol
    return unknown(name, symbol.why, symbol.hint, symbol.shares, symbol.calls)


def substituted(pure: Pure, symbols: Mapping[str, Symbol], renamed: Mapping[str, str], work: Work) -> Symbol:
    """A program's expression with what its variables stand for. Its own nodes are paid for already.

    Args:
        pure: the expression.
        symbols: by variable.
        renamed: other names for variables that expressions bind themselves.
        work: the budget.
    """
    used: dict[str, Symbol] = {}
    for name in sorted(pure.expression.names):
        symbol = symbols.get(name)
        if symbol is None:
            return unknown(name, "may have no value here")
        if symbol.node is None:
            return symbol
        used[name] = symbol
    size, depth = measured(pure.node, used)
    is_large = size > DEFAULT_MAX_BYTES and (used or size > _MOST_LITERAL or not is_literal(pure.node))
    if depth > MOST_NESTING or is_large:
        return too_large(pure.node)
    node = _Substitution(used, renamed).visit(pure.node, {})
    assert isinstance(node, ast.expr)
    return Symbol(node, work.union(*(symbol.names for symbol in used.values())), size, depth)


def made(
    node: ast.expr, names: frozenset[str], *parts: Symbol, shares: Shares = NOTHING, calls: int = 0, more: int = 40
) -> Symbol:
    """An expression put together of known symbols and a few nodes more: `more` characters, and four levels."""
    size = more + sum(part.size for part in parts)
    depth = 4 + max((part.depth for part in parts), default=0)
    if size > DEFAULT_MAX_BYTES or depth > MOST_NESTING:
        return too_large(node, shares, calls)
    return Symbol(node, names, size, depth, shares, calls=calls)


def too_large(node: ast.expr | None, shares: Shares = NOTHING, calls: int = 0) -> Symbol:
    """What an expression of a plan cannot hold."""
    subject = node.id if isinstance(node, ast.Name) else "$"
    return unknown(subject, TOO_LARGE, "let a tool give the value, or do it in several calls", shares, calls)


def is_literal(node: ast.AST) -> bool:
    """Whether it is written as a JSON value, or as a tuple of such."""
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.op, ast.USub) and isinstance(node.operand, ast.Constant)
    if isinstance(node, ast.List | ast.Tuple):
        return all(map(is_literal, node.elts))
    if isinstance(node, ast.Dict):
        keys = [key.value if isinstance(key, ast.Constant) else ... for key in node.keys]
        return all(key is None or isinstance(key, str | int) for key in keys) and all(map(is_literal, node.values))
    return False


def measured(node: ast.AST, symbols: Mapping[str, Symbol]) -> tuple[int, int]:
    """Characters and levels of the tree, once the symbols are put in; about, and rather more."""
    if isinstance(node, ast.Name):
        symbol = symbols.get(node.id)
        return (len(node.id) + 2, 1) if symbol is None else (symbol.size + 2, symbol.depth)
    if isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, str):
            return len(value) + 2, 1
        return 8 + (value.bit_length() // 3 if type(value) is int else 0), 1
    size, depth = _WORDS.get(type(node), 3), 0
    if isinstance(node, ast.Attribute):
        size += len(node.attr)
    elif isinstance(node, ast.Compare):
        size += 5 * len(node.ops)
    elif isinstance(node, ast.BoolOp):
        size += 4 * len(node.values)
    elif isinstance(node, ast.keyword | ast.arg):
        size += len(node.arg or "")
    for each in children_of(node):
        inner, below = measured(each, symbols)
        size += inner
        if below > depth:
            depth = below
    return size, depth + 1


class _Substitution:
    """Makes a new tree where something changes, and shares the rest."""

    def __init__(self, symbols: Mapping[str, Symbol], renamed: Mapping[str, str]) -> None:
        self._symbols = symbols
        self._renamed = renamed

    def visit(self, node: ast.AST, bound: Mapping[str, str]) -> ast.AST:
        """`bound`: names bound around here, and what they are called now."""
        if isinstance(node, ast.Constant):
            return node
        if isinstance(node, ast.Name):
            return self._name(node, bound)
        if isinstance(node, ast.arg):
            return node if bound[node.arg] == node.arg else ast.arg(bound[node.arg])
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            return self._comprehension(node, bound)
        if isinstance(node, ast.Lambda):
            names = [argument.arg for argument in node.args.args]
            bound = {**bound, **{name: self._renamed.get(name, name) for name in names}}
        return self._fields(node, bound, "")

    def _name(self, node: ast.Name, bound: Mapping[str, str]) -> ast.AST:
        if node.id in bound:
            return node if bound[node.id] == node.id else ast.Name(bound[node.id], node.ctx)
        symbol = self._symbols.get(node.id)
        return node if symbol is None or symbol.node is None else symbol.node

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, bound: Mapping[str, str]
    ) -> ast.AST:
        first, *others = node.generators
        targets = nodes_of(clause.target for clause in node.generators)
        names = {each.id for each in targets if isinstance(each, ast.Name)}
        inner = {**bound, **{name: self._renamed.get(name, name) for name in names}}
        values = self.visit(first.iter, bound)  # it is evaluated outside
        again = self._fields(first, inner, "iter")
        clauses = [_with(again, {"iter": values}), *(self.visit(each, inner) for each in others)]
        return _with(self._fields(node, inner, "generators"), {"generators": clauses})

    def _fields(self, node: ast.AST, bound: Mapping[str, str], without: str) -> ast.AST:
        changed: dict[str, object] = {}
        values = node.__dict__
        for name in fields_of(type(node)):
            value = values.get(name)
            if value is None or name == without:
                continue
            if type(value) is list:
                items = [None if each is None else self.visit(each, bound) for each in value]
                if any(a is not b for a, b in zip(items, value, strict=True)):
                    changed[name] = items
            else:
                again = self.visit(value, bound)
                if again is not value:
                    changed[name] = again
        return _with(node, changed) if changed else node


def _with(node: ast.AST, changed: Mapping[str, object]) -> ast.AST:
    """A copy with these fields."""
    made: ast.AST = type(node).__new__(type(node))
    made.__dict__.update(node.__dict__)
    made.__dict__.update(changed)
    return made
