"""Possible effects of an operation, whichever way its loops and branches go. Found without values.

A variable that the operation does not assign is changed under its own name. Any other change, of a part or of a value
that got its name in the operation, may be a change of everything that the operation reads.
"""

from __future__ import annotations

import ast
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
    Site,
    names_in,
    operations_of,
    pures_of,
)

__all__ = ["MAKE_NEW", "Effects", "effects_of"]

MAKE_NEW: Final = frozenset[type](
    {ast.BinOp, ast.Compare, ast.Dict, ast.DictComp, ast.JoinedStr, ast.List, ast.ListComp, ast.Set, ast.SetComp}
    | {ast.Constant, ast.UnaryOp}
)
"""Expressions that never give a container that already exists."""


@dataclass(frozen=True, slots=True)
class Effects:
    """Possible effects of an operation and of the blocks within it."""

    sites: tuple[Site, ...]
    stores: dict[str, bool]
    """Variables that get a value; True where each of these assignments is augmented."""
    slots: frozenset[str]
    reads: frozenset[str]
    changes: tuple[tuple[str, bool], ...]
    """Variables whose container it may change; True where containers within that one may change, too."""
    over_parts: bool
    """A loop may go over a part of a variable's value."""


def effects_of(operation: Operation) -> Effects:
    """Possible effects of an operation and of the blocks within it."""
    stores: dict[str, bool] = {}
    slots: set[str] = set()
    reads: set[str] = set()
    sites: list[Site] = []
    changed: list[ast.expr] = []
    for each in operations_of((operation,)):
        for pure in pures_of(each):
            reads |= pure.expression.names
        match each:
            case Assign(target=target) | For(target=target):
                stores.update(dict.fromkeys(names_in(target), False))
                if isinstance(target, Item):
                    changed.append(target.object.node)
            case Augment(name=name):
                reads.add(name)
                stores.setdefault(name, True)
                changed.append(ast.Name(name))
            case Gather(variable=variable):
                stores[variable] = False
            case Change(object=holder):
                changed.append(holder.node)
            case CallTool(site=site, slot=slot):
                sites.append(site)
                slots.add(slot)
            case Hold(slots=held):
                slots.add(held)
    own = {node.id for node in changed if isinstance(node, ast.Name) and stores.get(node.id, True)}
    is_own = all(isinstance(node, ast.Name) and node.id in own for node in changed)
    changes = dict.fromkeys(own, False) if is_own else dict.fromkeys(reads, True)
    over_parts = isinstance(operation, For) and not all(
        isinstance(node, ast.Name | ast.Call | ast.Constant | ast.expr_context)
        for node in nodes_of([operation.values.node])
    )
    return Effects(tuple(sites), stores, frozenset(slots), frozenset(reads), tuple(sorted(changes.items())), over_parts)
