"""Makes one order of several: the results of several queries share the places.

Knows keys and orders, the best first; nothing about tools.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

__all__ = ["spread"]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


def spread(orders: Sequence[Mapping[Key, Value]]) -> Iterator[Value]:
    """Take from each order in turn its best value that no order gave before. Each key comes once.

    Args:
        orders: values by key, the best first.
    """
    taken: set[Key] = set()
    waiting = [iter(order.items()) for order in orders]
    while waiting:
        left = []
        for order in waiting:
            for key, value in order:
                if key not in taken:
                    taken.add(key)
                    yield value
                    left.append(order)
                    break
        waiting = left
