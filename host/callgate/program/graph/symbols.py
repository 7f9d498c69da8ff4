"""What a variable stands for while a program is followed without its values: an expression over the results of calls.

1. A symbol is known, an expression over step ids and the variables of loops, or it is not, and says why.
2. Expressions are put into each other as trees that share their parts; sizes are counted before, so that nothing grows
   beyond what an expression of a plan may be.
3. Names that an expression binds itself (in a comprehension, a lambda) are never among those put in: see `naming`.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from callgate.plan.expressions.parse import DEFAULT_MAX_BYTES, MOST_NESTING

from .flow import Pure
from .sharing import NOTHING, Shares

__all__ = ["TOO_LARGE", "Symbol", "blamed", "copied", "is_literal", "made", "measured", "substituted", "unknown"]

TOO_LARGE: Final = "gets too large for an expression of a plan"
_NAMELESS: Final = "a value"
_MOST_LITERAL: Final = 1 << 20


@dataclass(frozen=True, slots=True, eq=False)
class Symbol:
    """The value of a variable at one moment."""

    node: ast.expr | None
    """The expression; None where the value is not known. Shared: never changed."""
    names: frozenset[str] = frozenset()
    """Its free names: step ids and variables of loops."""
    size: int = 0
    """Characters of the expression, about."""
    depth: int = 0
    shares: Shares = NOTHING
    subject: str = ""
    """The variable that is to blame, where it is not known."""
    why: str = ""
    hint: str = ""
    calls: frozenset[int] = frozenset()
    """Of a slot: the sites whose calls it holds."""


def unknown(subject: str, why: str, hint: str = "", shares: Shares = NOTHING) -> Symbol:
    """A value that is not known. `why` goes on from the variable's name: "is changed in line 5"."""
    shown = _NAMELESS if subject.startswith("$") else f"`{subject}`"
    return Symbol(None, shares=shares, subject=shown, why=why, hint=hint)


def blamed(symbol: Symbol, name: str) -> Symbol:
    """The same; where nothing has a name that is to blame, this variable has."""
    if symbol.subject != _NAMELESS or name.startswith("$"):
        return symbol
    return replace(symbol, subject=f"`{name}`")


def copied(symbol: Symbol, shares: Shares) -> Symbol:
    """The same value, sharing other things."""
    return symbol if symbol.shares == shares else replace(symbol, shares=shares)


def substituted(pure: Pure, symbols: Mapping[str, Symbol], renamed: Mapping[str, str]) -> Symbol:
    """A program's expression with what its variables stand for.

    Args:
        pure: the expression.
        symbols: by variable.
        renamed: other names for variables that expressions bind themselves.
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
    if _is_too_large(size, depth, pure.node, used):
        return unknown(_shown(pure.node), TOO_LARGE, "let a tool give the value, or do it in several calls")
    node = _Substitution(used, renamed).visit(pure.node, {})
    assert isinstance(node, ast.expr)
    names = frozenset().union(*(symbol.names for symbol in used.values()))
    return Symbol(node, names, size, depth)


def made(node: ast.expr, names: frozenset[str], *parts: Symbol, shares: Shares = NOTHING) -> Symbol:
    """An expression put together of known symbols and a few nodes more."""
    size = 40 + sum(part.size for part in parts)
    depth = 4 + max((part.depth for part in parts), default=0)
    if size > DEFAULT_MAX_BYTES or depth > MOST_NESTING:
        return unknown(_shown(node), TOO_LARGE, "let a tool give the value, or do it in several calls", shares)
    return Symbol(node, names, size, depth, shares)


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


def _is_too_large(size: int, depth: int, node: ast.expr, used: Mapping[str, Symbol]) -> bool:
    if depth > MOST_NESTING or size > _MOST_LITERAL:
        return True
    if size <= DEFAULT_MAX_BYTES:
        return False
    whole = used[node.id].node if isinstance(node, ast.Name) else None if used else node
    return whole is None or not is_literal(whole)


def _shown(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else "$"


def measured(node: ast.AST, symbols: Mapping[str, Symbol]) -> tuple[int, int]:
    """Characters and levels of the tree, once the symbols are put in; about, and rather more."""
    if isinstance(node, ast.Name):
        symbol = symbols.get(node.id)
        return (len(node.id) + 2, 1) if symbol is None else (symbol.size + 2, symbol.depth)
    if isinstance(node, ast.Constant):
        return (len(node.value) + 2 if isinstance(node.value, str) else 8), 1
    size, depth = 3, 0
    for name, value in ast.iter_fields(node):
        if isinstance(value, str):
            size += len(value)
        for each in value if isinstance(value, list) else (value,):
            if isinstance(each, ast.AST) and name not in ("ctx", "op"):
                inner, below = measured(each, symbols)
                size += inner
                depth = max(depth, below)
    return size, depth + 1


class _Substitution:
    """Makes a new tree where something changes, and shares the rest."""

    def __init__(self, symbols: Mapping[str, Symbol], renamed: Mapping[str, str]) -> None:
        self._symbols = symbols
        self._renamed = renamed

    def visit(self, node: ast.AST, bound: Mapping[str, str]) -> ast.AST:
        """`bound`: names bound around here, and what they are called now."""
        if isinstance(node, ast.Name):
            return self._name(node, bound)
        if isinstance(node, ast.arg):
            return node if bound[node.arg] == node.arg else ast.arg(bound[node.arg])
        if isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
            return self._comprehension(node, bound)
        if isinstance(node, ast.Lambda):
            names = [argument.arg for argument in node.args.args]
            bound = {**bound, **{name: self._renamed.get(name, name) for name in names}}
        return self._fields(node, bound, ())

    def _name(self, node: ast.Name, bound: Mapping[str, str]) -> ast.AST:
        if node.id in bound:
            return node if bound[node.id] == node.id else ast.Name(bound[node.id], node.ctx)
        symbol = self._symbols.get(node.id)
        return node if symbol is None or symbol.node is None else symbol.node

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp, bound: Mapping[str, str]
    ) -> ast.AST:
        first, *others = node.generators
        names = {
            each.id for clause in node.generators for each in ast.walk(clause.target) if isinstance(each, ast.Name)
        }
        inner = {**bound, **{name: self._renamed.get(name, name) for name in names}}
        values = self.visit(first.iter, bound)  # it is evaluated outside
        again = self._fields(first, inner, ("iter",))
        assert isinstance(again, ast.comprehension)
        assert isinstance(values, ast.expr)
        clauses = [ast.comprehension(again.target, values, again.ifs, 0), *(self.visit(each, inner) for each in others)]
        whole = self._fields(node, inner, ("generators",))
        return type(node)(**{**dict(ast.iter_fields(whole)), "generators": clauses})

    def _fields(self, node: ast.AST, bound: Mapping[str, str], without: tuple[str, ...]) -> ast.AST:
        changed: dict[str, object] = {}
        for name, value in ast.iter_fields(node):
            if name in without:
                continue
            again: object = value
            if isinstance(value, ast.AST):
                again = self.visit(value, bound)
            elif isinstance(value, list):
                items = [self.visit(each, bound) if isinstance(each, ast.AST) else each for each in value]
                again = value if all(a is b for a, b in zip(items, value, strict=True)) else items
            if again is not value:
                changed[name] = again
        return type(node)(**{**dict(ast.iter_fields(node)), **changed}) if changed else node
