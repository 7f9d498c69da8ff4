"""Walk syntax trees in loops, faster than `ast.walk`, which looks at every field of every node."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

__all__ = ["Walked", "children_of", "nodes_of", "walked"]

_NO_NODES: Final = frozenset(
    {
        "arg", "asname", "attr", "attributes", "conversion", "ctx", "id", "is_async", "kind", "kwd_attrs", "level",
        "module", "n", "name", "op", "ops", "rest", "simple", "str", "tag", "type_comment", "type_ignores",
    }
)  # fmt: skip
"""Fields that hold texts and numbers, or nodes that have nothing but a type."""
_LEAVES: Final = (ast.Constant, ast.Global, ast.MatchSingleton, ast.Nonlocal)


class _Fields(dict[type[ast.AST], tuple[str, ...]]):
    """Per type of node, the fields that may hold nodes."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        none = kind in _LEAVES
        plain = _NO_NODES - {"name"} if kind.__name__ == "TypeAlias" else _NO_NODES  # since 3.12; its name is a node
        found = self[kind] = () if none else tuple(name for name in kind._fields if name not in plain)
        return found


_FIELDS: Final = _Fields()


def children_of(node: ast.AST) -> list[ast.AST]:
    """Return the nodes directly below a node, without contexts and operators."""
    found: list[Any] = []
    values = node.__dict__
    for name in _FIELDS[type(node)]:
        value = values.get(name)
        if value is None:
            continue
        if type(value) is list:
            found += value
        else:
            found.append(value)
    return [each for each in found if each is not None] if None in found else found


class Walked(NamedTuple):
    """A tree, and what one walk through it has found.

    Attributes:
        nodes: every node, parents first.
        below: the nodes directly below each.
        kinds: the types of the nodes.
        levels: how many levels of nodes there are.
    """

    nodes: list[ast.AST]
    below: list[list[ast.AST]]
    kinds: set[type[ast.AST]]
    levels: int


def walked(top: ast.AST, most: int = sys.maxsize) -> Walked:
    """Walk through a tree; stop a little above `most` nodes."""
    found: list[ast.AST] = [top]
    below: list[list[ast.AST]] = []
    level, levels = found[:], 0
    while level and len(found) <= most:
        inside = [children_of(node) for node in level]
        below += inside
        level = [node for nodes in inside for node in nodes]
        found += level
        levels += 1
    return Walked(found, below, set(map(type, found)), levels)


def nodes_of(tops: Iterable[ast.AST], most: int = sys.maxsize) -> list[ast.AST]:
    """Return every node of these trees, the tops included, in any order; stops a little above `most`."""
    found = list(tops)
    for node in found:  # `found` grows meanwhile
        found += children_of(node)
        if len(found) > most:
            break
    return found
