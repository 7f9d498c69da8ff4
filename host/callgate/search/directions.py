"""Compares texts by the directions of their vectors (cosine), for all tools at once, without a compiled package.

Theory of operation. A vector is scaled to the length `_SCALE`, and its numbers are rounded to whole numbers of 16 bits.
One dimension of *all* tools is one long integer, with 32 bits for each tool (`lanes` has the idea). A query multiplies
each of these integers by its own number for that dimension, and adds the products: 4,000 tools with 384 dimensions take
some 3 ms, and a loop in Python takes some 180 ms. The product of two such vectors is at most `_SCALE` squared, so no
lane overflows.

Knows vectors by place; not what they stand for, nor where they come from.
"""

from __future__ import annotations

import heapq
import math
import sys
from array import array
from collections.abc import Iterable, Sequence
from operator import mul

__all__ = ["MAX_DIMENSIONS", "Directions", "direction", "likeness", "nearest"]

MAX_DIMENSIONS = 4_096
"""Most numbers of a vector; models have 256 to 3,072."""
_SCALE = 1 << 14
_MIDDLE = 1 << 31
"""The number in a lane for a cosine of 0."""


def direction(vector: Iterable[float]) -> bytes:
    """The direction of a vector, two bytes for each dimension. A vector of zeros has none and is like no other.

    Raises:
        ValueError, TypeError: not 1 to 4,096 finite numbers.
    """
    numbers = array("d", vector)
    length = math.hypot(*numbers)
    if not 0 < len(numbers) <= MAX_DIMENSIONS:
        raise ValueError(f"a vector has {len(numbers):,} numbers, not 1 to {MAX_DIMENSIONS:,}")
    if not math.isfinite(length):
        raise ValueError("a vector has a number that is not finite")
    factor = _SCALE / length if length else 0.0
    return array("H", [_SCALE + round(number * factor) for number in numbers]).tobytes()


def likeness(one: bytes, other: bytes) -> float:
    """The cosine of the angle between two directions of the same number of dimensions."""
    return sum(a * b for a, b in zip(_numbers(one), _numbers(other), strict=True)) / _SCALE**2


def _numbers(of: bytes) -> list[int]:
    return [number - _SCALE for number in array("H", of)]


class Directions:
    """Directions by place.

    Args:
        directions: all of one length; at least one.
    """

    def __init__(self, directions: Sequence[bytes]) -> None:
        self.size_bytes = len(directions[0])
        """The length of each."""
        self._places = len(directions)
        every, dimensions = array("H", b"".join(directions)), self.size_bytes // 2
        columns = (array("I", every[first::dimensions]) for first in range(dimensions))
        self._columns = [int.from_bytes(column.tobytes(), sys.byteorder) for column in columns]
        self._ones = int.from_bytes(array("I", [1] * self._places).tobytes(), sys.byteorder)

    def likes(self, to: bytes) -> array[int]:
        """How much each place is like a direction of the same length: larger is more, by place."""
        numbers = _numbers(to)
        start = (_MIDDLE - _SCALE * sum(numbers)) * self._ones  # each column is larger by `_SCALE`
        total = sum(map(mul, self._columns, numbers), start)
        return array("I", total.to_bytes(4 * self._places, sys.byteorder))


def nearest(likes: array[int], count: int, among: Iterable[int] | None = None) -> list[int]:
    """At most `count` places whose cosine is above 0, the most similar first; equals in order of place.

    Args:
        likes: a result of `Directions.likes`.
        count: most places.
        among: the places that count, in order; None for all.
    """
    best = heapq.nlargest(count, range(len(likes)) if among is None else among, key=likes.__getitem__)
    return [place for place in best if likes[place] > _MIDDLE]
