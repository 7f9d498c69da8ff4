"""Which variables an operation reads, and which it gives a value. Knows the operations; follows none."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from callgate.plan.expressions.trees import nodes_of
from callgate.program.graph.flow import (
    Assign,
    Augment,
    CallTool,
    Change,
    Finish,
    For,
    Gather,
    Has,
    Hold,
    If,
    Item,
    Operation,
    Print,
    Pure,
    Return,
    Target,
)  # fmt: skip

__all__ = ["bound_in", "pures_of", "read", "stored", "variables_of"]


def pures_of(operation: Operation) -> Iterator[Pure]:
    """Its expressions; not those of the blocks in it."""
    if isinstance(operation, Assign):
        yield operation.value
        yield from _pures_of_target(operation.target)
    elif isinstance(operation, Augment):
        yield operation.value
    elif isinstance(operation, Change):
        yield operation.object
        yield from operation.arguments
    elif isinstance(operation, Has):
        yield operation.object
    elif isinstance(operation, CallTool):
        yield from (pure for _, pure in operation.arguments)
    elif isinstance(operation, For):
        yield operation.values
        yield from _pures_of_target(operation.target)
    elif isinstance(operation, If):
        yield operation.test
    elif isinstance(operation, Print):
        yield operation.texts
    elif isinstance(operation, Return):
        yield operation.value


def _pures_of_target(target: Target) -> Iterator[Pure]:
    if isinstance(target, Item):
        yield target.object
        yield target.index
    elif isinstance(target, tuple):
        for each in target:
            yield from _pures_of_target(each)


def stored(operation: Operation) -> tuple[str, ...]:
    """Variables and slots that it gives another value."""
    if isinstance(operation, Assign | For):
        return variables_of(operation.target)
    if isinstance(operation, Augment):
        return (operation.name,)
    if isinstance(operation, CallTool):
        return (operation.slot,)
    if isinstance(operation, Hold):
        return () if operation.slot is not None else (operation.slots,)
    if isinstance(operation, Finish | Gather):
        return (operation.variable,)
    return ()


def read(operation: Operation) -> Iterator[str]:
    """Every variable and slot that it reads or changes, as often as it does; not where it only asks for a method."""
    if isinstance(operation, Has):
        return
    for pure in pures_of(operation):
        yield from pure.expression.names
    if isinstance(operation, Augment):
        yield operation.name
    elif isinstance(operation, Hold):
        if operation.slot is not None:
            yield operation.slots
            yield operation.slot
    elif isinstance(operation, Finish):
        yield operation.slot
    elif isinstance(operation, Gather):
        yield from (part.slot for part in operation.parts)


def variables_of(target: Target) -> tuple[str, ...]:
    """The variables of a target."""
    if isinstance(target, str):
        return (target,)
    if isinstance(target, Item):
        return ()
    return tuple(name for each in target for name in variables_of(each))


def bound_in(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Names that expressions bind themselves."""
    for each in nodes_of(nodes):
        if isinstance(each, ast.Name):
            if isinstance(each.ctx, ast.Store):
                yield each.id
        elif isinstance(each, ast.arg):
            yield each.arg
