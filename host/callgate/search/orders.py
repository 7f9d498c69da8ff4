"""Makes one order of several: the results of several queries share the places (`spread`), and two orders for one query
are fused by rank (`fused`).

Knows keys and orders, the best first; nothing about tools.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import TypeVar

__all__ = ["fused", "spread"]

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


def fused(first: Sequence[Key], second: Sequence[Key], weight: float) -> dict[Key, float]:
    """Fuse two orders by rank: a key's score is 1 / its rank in the first order, and `weight` / its rank in the second.

    Reciprocal rank fusion: ranks need no common scale, and the scores of BM25 and cosines have none. Source: Cormack,
    Clarke, Büttcher, "Reciprocal Rank Fusion outperforms Condorcet and individual Rank Learning Methods" (SIGIR 2009).
    They add 60 to each rank, for orders of a thousand documents of which many are relevant. Here a few tools of some
    ten are, and 0 finds more of them: docs/model.md has the figures.

    Args:
        first: keys, the best first, each once.
        second: as `first`.
        weight: of the second order.

    Returns:
        Scores by key, the best first; equals in the order of `first`.
    """
    scores = {key: 1 / rank for rank, key in enumerate(first, 1)}
    for rank, key in enumerate(second, 1):
        scores[key] = scores.get(key, 0.0) + weight / rank
    return dict(sorted(scores.items(), key=lambda item: -item[1]))
