"""Which nodes of a graph lead back to each other.

Tarjan's strongly connected components (SIAM Journal on Computing 1(2), 1972), without recursion: the graphs come from
schemas of strangers, and may be deep.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

__all__ = ["components"]

_Node = TypeVar("_Node", bound=Hashable)


def components(leads_to: Mapping[_Node, Sequence[_Node]]) -> dict[_Node, int]:
    """A number for each node; two that lead to each other, over however many others, have the same.

    Args:
        leads_to: the nodes with those that each leads to, all of them among the nodes.
    """
    order: dict[_Node, int] = {}
    lowest: dict[_Node, int] = {}
    found: dict[_Node, int] = {}
    waiting: list[_Node] = []
    for start in leads_to:
        if start in order:
            continue
        walk: list[tuple[_Node, Iterator[_Node]]] = [(start, iter(leads_to[start]))]
        order[start] = lowest[start] = len(order)
        waiting.append(start)
        while walk:
            node, below = walk[-1]
            for each in below:
                if each not in order:
                    order[each] = lowest[each] = len(order)
                    waiting.append(each)
                    walk.append((each, iter(leads_to[each])))
                    break
                if each not in found:
                    lowest[node] = min(lowest[node], order[each])
            else:
                walk.pop()
                if walk:
                    lowest[walk[-1][0]] = min(lowest[walk[-1][0]], lowest[node])
                if lowest[node] == order[node]:
                    while True:
                        member = waiting.pop()
                        found[member] = order[node]
                        if member is node:
                            break
    return found
