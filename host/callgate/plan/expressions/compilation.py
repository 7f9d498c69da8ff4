"""The state of a compilation: scopes, names and size so far, and the refusals.

A node becomes a closure, called with the budget and a scope. A scope is a list: the scope around it, the values of the
free names, then its own variables by position, like CPython's cells. Scope and position of a variable are fixed here,
so a generator that is read late finds its variables as CPython's would.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from callgate.tools.faults import did_you_mean

from .budget import Budget, ExpressionFault
from .functions import FUNCTIONS
from .kinds import known
from .parse import column_of

__all__ = ["FIRST_VARIABLE", "Compilation", "Node", "Scope"]

Scope = list[Any]
Node = Callable[[Budget, Scope], Any]
Builder = Callable[["Compilation", Any], Node]

FIRST_VARIABLE: Final = 2
"""Where a scope's own variables begin: before them are the scope around it and the values of the free names."""

_THERE_IS: Final = (
    "an expression has constants, names, fields, subscripts, operators, comparisons, `x if a else b`, f-strings, "
    "comprehensions and calls of listed functions"
)


class _Variables:
    """Names that a comprehension or a lambda binds."""

    def __init__(self, names: list[str]) -> None:
        self.place = {name: FIRST_VARIABLE + index for index, name in enumerate(names)}
        self.not_yet: set[str] = set()


class Compilation:
    """Compiles one expression from its tree to closures.

    Attributes:
        names: the free names met so far.
        functions: the listed functions that are called.
        size: the nodes built so far, without those inside of comprehensions and lambdas.
        records_only: whether a plain dict has only Python's own attributes.
    """

    def __init__(self, source: str, builders: Mapping[type[ast.expr], Builder], *, records_only: bool) -> None:
        self.source = source
        self.records_only = records_only
        self.names: set[str] = set()
        self.functions: set[str] = set()
        self.size = 0
        self._builders = builders
        self._scopes: list[_Variables] = []

    def build(self, node: ast.expr) -> Node:
        """Compile a node. Raises `ExpressionFault` for a kind of node that is not in the table."""
        builder = self._builders.get(type(node))
        if builder is None:
            raise self.refused(node)
        self.size += 1
        return builder(self, node)

    def fault(self, node: ast.AST, message: str, hint: str) -> ExpressionFault:
        """Return a refusal that points at a node."""
        return ExpressionFault(message, hint, column_of(node, self.source) if self.source else None)

    def refused(self, node: ast.expr) -> ExpressionFault:
        """Return the refusal of a node that cannot stand where it does."""
        what, hint = _REFUSED.get(type(node), (f"`{type(node).__name__}` syntax", _THERE_IS))
        return self.fault(node, f"{what} cannot stand here", hint)

    def unknown_function(self, node: ast.expr, name: str) -> ExpressionFault:
        """Return the refusal of a function that is not on the list."""
        close = did_you_mean(name, FUNCTIONS)
        return self.fault(node, f"there is no function `{name[:80]}`{close}", f"there are: {', '.join(FUNCTIONS)}")

    # Names

    @contextmanager
    def variables(self, names: list[str]) -> Iterator[set[str]]:
        """Open a scope for these names. Names in the set yielded have no value yet."""
        scope = _Variables(names)
        self._scopes.append(scope)
        try:
            yield scope.not_yet
        finally:
            self._scopes.pop()

    @contextmanager
    def outside(self) -> Iterator[None]:
        """Step into the scope around the present one, for parts that CPython evaluates there."""
        scope = self._scopes.pop()
        try:
            yield
        finally:
            self._scopes.append(scope)

    def place(self, name: str) -> int:
        """Return the position of a variable in the present scope."""
        return self._scopes[-1].place[name]

    def is_variable(self, name: str) -> bool:
        """Return whether a comprehension or a lambda around here binds that name."""
        return any(name in scope.place for scope in self._scopes)

    def name(self, node: ast.Name) -> Node:
        """Compile the reading of a name."""
        name = node.id
        if name.startswith("__"):
            raise self.fault(
                node, f"the name `{name[:80]}` leads into the interpreter", "use a name without underscores"
            )
        for hops, scope in enumerate(reversed(self._scopes)):
            if name in scope.not_yet:
                hint = "put the `for` that binds it before the place that uses it"
                raise self.fault(node, f"`{name[:80]}` is used before it has a value", hint)
            if name in scope.place:
                return _variable(hops, scope.place[name])
        self.names.add(name)
        return _free_name(name)

    # Sizes

    @contextmanager
    def measured(self) -> Iterator[Callable[[], int]]:
        """Count nodes apart from the whole. The function yielded returns their number so far."""
        outer, self.size = self.size, 0
        try:
            yield lambda: self.size
        finally:
            self.size = outer


def _free_name(name: str) -> Node:
    def read(budget: Budget, scope: Scope) -> Any:
        try:
            return known(scope[1][name])
        except KeyError:
            raise NameError(f"name {name!r} is not defined") from None

    return read


def _variable(hops: int, place: int) -> Node:
    def own(budget: Budget, scope: Scope) -> Any:
        return scope[place]

    def around(budget: Budget, scope: Scope) -> Any:
        return scope[0][place]

    def further(budget: Budget, scope: Scope) -> Any:
        for _ in range(hops):
            scope = scope[0]
        return scope[place]

    return own if hops == 0 else around if hops == 1 else further


_REFUSED: Final[dict[type[ast.expr], tuple[str, str]]] = {
    ast.Await: ("`await`", "a step's result is there already: write its id"),
    ast.Yield: ("`yield`", "write a list"),
    ast.YieldFrom: ("`yield from`", "write a list"),
    ast.NamedExpr: ("`:=`", "repeat the value, or give it a step of its own"),
    ast.Lambda: ("`lambda`", "write it as key= of sorted, min or max, or as the first argument of map or filter"),
    ast.GeneratorExp: ("a generator", "write a list, [x for x in values], or put it directly into a call"),
    ast.Starred: ("`*`", "write it in a list, a tuple, a set or in the arguments of a call"),
    ast.Slice: ("a slice", "write values[a:b]"),
}
