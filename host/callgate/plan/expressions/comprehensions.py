"""Compile comprehensions and generators to closures. Each run has a scope of its own, as in CPython.

The first `for` reads its values in the scope around. Later parts see the comprehension's own names, but the names of a
later `for` only behind it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any, Final

from .budget import Budget
from .compilation import Compilation, Node, Scope
from .kinds import KNOWN, foreign, known
from .weight import Keys

__all__ = ["COMPREHENSION_BUILDERS", "UNPACK", "generator"]

Bind = Callable[[Scope, Any], None]
Rounds = Callable[[Budget, Scope, Any], Iterator[Any]]

_MOST_TARGETS: Final = 6
_ITEM_BYTES: Final = 16


def _two(value: Any) -> tuple[Any, ...]:
    a, b = value
    return a, b


def _three(value: Any) -> tuple[Any, ...]:
    a, b, c = value
    return a, b, c


def _four(value: Any) -> tuple[Any, ...]:
    a, b, c, d = value
    return a, b, c, d


def _five(value: Any) -> tuple[Any, ...]:
    a, b, c, d, e = value
    return a, b, c, d, e


def _six(value: Any) -> tuple[Any, ...]:
    a, b, c, d, e, f = value
    return a, b, c, d, e, f


def _one(value: Any) -> tuple[Any, ...]:
    (a,) = value
    return (a,)


UNPACK: Final = {1: _one, 2: _two, 3: _three, 4: _four, 5: _five, 6: _six}
"""Unpacking by Python itself, whose messages differ from version to version."""


def generator(compilation: Compilation, node: ast.GeneratorExp) -> Node:
    """Compile a generator that is the argument of a call."""
    return _values(compilation, node, node.elt)


def _values(compilation: Compilation, node: Any, *elements: ast.expr) -> Node:
    """Compile a comprehension to a generator of its values, or of its pairs of key and value."""
    compilation.size += 1
    names: list[str] = []
    for clause in node.generators:
        if clause.is_async:
            raise compilation.fault(node, "`async for` cannot stand here", "write `for`")
        _collect(compilation, clause.target, names)
    with compilation.variables(list(dict.fromkeys(names))) as not_yet:
        not_yet.update(names)
        with compilation.outside():
            first = compilation.build(node.generators[0].iter)
        rounds = _rounds(compilation, node.generators, elements, not_yet)
    empty = [None] * len(set(names))

    def start(budget: Budget, scope: Scope) -> Any:
        values = first(budget, scope)
        return rounds(budget, [scope, scope[1], *empty], iter(values))

    return start


def _rounds(
    compilation: Compilation, clauses: list[ast.comprehension], elements: tuple[ast.expr, ...], not_yet: set[str]
) -> Rounds:
    """Compile the rounds of the first clause, each with the rounds of the others inside."""
    clause, *others = clauses
    bound: list[str] = []
    _collect(compilation, clause.target, bound)
    not_yet.difference_update(bound)
    bind = _binder(compilation, clause.target)
    inner: Rounds | None = None
    with compilation.measured() as size:
        conditions = [compilation.build(test) for test in clause.ifs]
        value_of = compilation.build(others[0].iter) if others else _element(compilation, elements)
        cost = 1 + size()
    if others:
        inner = _rounds(compilation, others, elements, not_yet)

    def rounds(budget: Budget, scope: Scope, values: Any) -> Iterator[Any]:
        for value in values:
            budget.work(cost)
            bind(scope, value)
            for condition in conditions:
                if not condition(budget, scope):
                    break
            else:
                if inner is None:
                    yield value_of(budget, scope)
                else:
                    yield from inner(budget, scope, iter(value_of(budget, scope)))

    return rounds


def _element(compilation: Compilation, elements: tuple[ast.expr, ...]) -> Node:
    if len(elements) == 1:
        return compilation.build(elements[0])
    key_of, value_of = (compilation.build(element) for element in elements)
    return lambda budget, scope: (key_of(budget, scope), value_of(budget, scope))


# Targets


def _collect(compilation: Compilation, target: ast.expr, names: list[str]) -> None:
    if isinstance(target, ast.Name):
        if target.id.startswith("__"):
            hint = "use a name without underscores"
            raise compilation.fault(target, f"the name `{target.id[:80]}` leads into the interpreter", hint)
        names.append(target.id)
    elif isinstance(target, ast.Tuple | ast.List):
        if not 1 <= len(target.elts) <= _MOST_TARGETS:
            message = f"`for` takes apart at most {_MOST_TARGETS} values, and at least one"
            raise compilation.fault(target, message, "take them by position: `for row in rows`, row[0]")
        for element in target.elts:
            _collect(compilation, element, names)
    else:
        message = f"`{_shown(target)}` cannot be a variable of `for`"
        raise compilation.fault(target, message, "use plain names, like `for key, value in pairs`")


def _shown(target: ast.expr) -> str:
    try:
        return ast.unparse(target)[:60]
    except ValueError:  # an integer of thousands of digits
        return type(target).__name__.lower()


def _binder(compilation: Compilation, target: ast.expr) -> Bind:
    """Return the function that binds a value in a scope; a tuple as target takes the value apart."""
    if isinstance(target, ast.Name):
        place = compilation.place(target.id)

        def bind(scope: Scope, value: Any) -> None:
            if type(value) not in KNOWN:  # written out: this is the innermost loop
                raise foreign(value)
            scope[place] = value

        return bind
    assert isinstance(target, ast.Tuple | ast.List)
    unpack = UNPACK[len(target.elts)]
    binders = [_binder(compilation, element) for element in target.elts]

    def bind_all(scope: Scope, value: Any) -> None:
        for bind_one, part in zip(binders, unpack(known(value)), strict=True):
            bind_one(scope, part)

    return bind_all


# The three displays


def _list(compilation: Compilation, node: ast.ListComp) -> Node:
    values_of = _values(compilation, node, node.elt)

    def build(budget: Budget, scope: Scope) -> Any:
        made: list[Any] = []
        for value in values_of(budget, scope):
            budget.make(_ITEM_BYTES)
            made.append(value)
        return made

    return build


def _set(compilation: Compilation, node: ast.SetComp) -> Node:
    values_of = _values(compilation, node, node.elt)

    def build(budget: Budget, scope: Scope) -> Any:
        keys = Keys(budget)
        made: set[Any] = set()
        for value in values_of(budget, scope):
            budget.make(64)
            keys.pay(value)
            made.add(value)
        return made

    return build


def _dict(compilation: Compilation, node: ast.DictComp) -> Node:
    pairs_of = _values(compilation, node, node.key, node.value)

    def build(budget: Budget, scope: Scope) -> Any:
        keys = Keys(budget)
        made: dict[Any, Any] = {}
        for key, value in pairs_of(budget, scope):
            budget.make(100)
            keys.pay(key)
            made[key] = value
        return made

    return build


COMPREHENSION_BUILDERS: Final[dict[type[ast.expr], Any]] = {
    ast.ListComp: _list,
    ast.SetComp: _set,
    ast.DictComp: _dict,
}
