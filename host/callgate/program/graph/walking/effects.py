"""What an operation may do, a loop or a branch whichever way it goes: found out without values."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from callgate.plan.expressions.trees import nodes_of
from callgate.program.graph.flow import (
    Assign,
    Augment,
    CallTool,
    Change,
    For,
    Gather,
    Hold,
    Item,
    Operation,
    Pure,
    Site,
    Target,
    names_in,
    operations_of,
    pures_of,
)

__all__ = ["MAKE_NEW", "Effects", "effects_of"]

MAKE_NEW: Final = frozenset[type](
    {ast.BinOp, ast.Compare, ast.Dict, ast.DictComp, ast.JoinedStr, ast.List, ast.ListComp, ast.Set, ast.SetComp}
    | {ast.Constant, ast.UnaryOp}
)
"""Expressions whose value is none of the containers that there are."""


@dataclass(frozen=True, slots=True)
class Effects:
    """What an operation may do, with the blocks within it."""

    sites: tuple[Site, ...]
    stores: dict[str, bool]
    """Variables, and whether they are only augmented."""
    slots: frozenset[str]
    reads: frozenset[str]
    changes: tuple[tuple[str, bool], ...]
    """Variables whose container it may change; with True also those within it."""
    over_parts: bool
    """What a loop goes over may be a part of a variable's value."""


def effects_of(operation: Operation) -> Effects:
    """What an operation may do, with the blocks within it."""
    stores: dict[str, bool] = {}
    slots: set[str] = set()
    reads: set[str] = set()
    sites: list[Site] = []
    sources: dict[str, set[str]] = {}
    """For each variable those that it may have its value, or a part of it, from."""
    changed: list[tuple[bool, frozenset[str]]] = []
    """For each change whether a variable's own container is changed, and the variables."""

    def store(target: Target, value: Pure | None) -> None:
        if isinstance(target, Item):
            change(target.object)
        for name in names_in(target):
            stores[name] = False
            sources.setdefault(name, set()).update(() if value is None else value.expression.names)

    def change(holder: Pure) -> None:
        changed.append((isinstance(holder.node, ast.Name), holder.expression.names))

    for each in operations_of((operation,)):
        for pure in pures_of(each):
            reads |= pure.expression.names
        match each:
            case Assign():
                store(each.target, each.value)
            case For():
                store(each.target, each.values)
            case Augment():
                reads.add(each.name)
                stores.setdefault(each.name, True)
                sources.setdefault(each.name, set()).update(each.value.expression.names)
                changed.append((True, frozenset({each.name})))
            case Gather():
                store(each.variable, None)
            case Change():
                change(each.object)
            case CallTool():
                sites.append(each.site)
                slots.add(each.slot)
            case Hold():
                slots.add(each.slots)
    changes: dict[str, bool] = {}
    for own, names in changed:
        for name in _closure(names, sources):
            changes[name] = changes.get(name, False) or not (own and name in names)
    over_parts = isinstance(operation, For) and not all(
        isinstance(node, ast.Name | ast.Call | ast.Constant | ast.expr_context)
        for node in nodes_of([operation.values.node])
    )
    return Effects(tuple(sites), stores, frozenset(slots), frozenset(reads), tuple(sorted(changes.items())), over_parts)


def _closure(names: Iterable[str], sources: Mapping[str, set[str]]) -> set[str]:
    """These variables, and those that they may have parts of, and so on."""
    found: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo.extend(sources.get(name, ()))
    return found
