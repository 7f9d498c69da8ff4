"""Adds up the scores of all tools at once: one long integer with 16 bits for each tool.

Theory of operation. For each word of the query, ranking adds a number to each tool with the word. In plain Python that
takes some 100 ns for each word and tool. Here the numbers of a word for *all* tools are one integer, with tool 0 in its
lowest 16 bits, and CPython adds such integers in about half a nanosecond per tool. The best tools are then found by
bytes: `bytes.translate` counts those above a mark, and `bytes.find` finds them. No Python loop visits all tools.

1. A lane holds at most 65,535, and no sum may be larger: it would carry into the next lane. This file does not check
   that; its callers know the largest number of each summand.
2. Numbers are whole. `STEP` is the score of 1.

Knows places and numbers, not what they count.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable

__all__ = ["MOST", "STEP", "Sums", "best", "lanes", "packed", "whole"]

STEP = 1 / 128
"""The score of 1 in a lane. A tool that fits a query of 20 words scores 20 to 60; a lane holds a score of 512."""
MOST = 65_535
"""Largest number in a lane."""

_USUAL = 4
"""A mark that bytes of good tools reach in most queries."""
_LOW = 0 if sys.byteorder == "little" else 1  # which byte of a lane is the low one
_BELOW = [bytes(range(mark)) for mark in range(257)]
_FROM = [bytes(value >= mark for value in range(256)) for mark in range(257)]


def packed(places: int, numbers: Iterable[tuple[int, int]]) -> int:
    """Lanes with these numbers; numbers at one place are added.

    Args:
        places: number of lanes.
        numbers: place and number.
    """
    found = lanes(places, 0)
    for place, number in numbers:
        found[place] += number
    return whole(found)


def lanes(places: int, total: int) -> array[int]:
    """The numbers in the lanes of `total`, by place."""
    return array("H", total.to_bytes(2 * places, sys.byteorder))


def whole(numbers: array[int]) -> int:
    """Lanes with these numbers."""
    return int.from_bytes(numbers.tobytes(), sys.byteorder)


class Sums:
    """The sums of all places.

    Args:
        numbers: the sums, by place.
    """

    __slots__ = ("numbers",)

    def __init__(self, numbers: array[int]) -> None:
        self.numbers = numbers
        """By place."""

    def best(self, count: int) -> list[int]:
        """At most `count` places with the largest numbers, in any order.

        Places with 0 are left out. If fewer than `count` are left, so are places with less than a 128th of the largest
        number.
        """
        upper = self.numbers.tobytes()[1 - _LOW :: 2]
        found = best(upper, count)
        if len(found) < count:
            found = best(self._shifted(upper), count)
        if len(found) > count:
            found.sort(key=self.numbers.__getitem__, reverse=True)
            del found[count:]
        return found

    def _shifted(self, upper: bytes) -> bytes:
        """The upper 8 used bits of each number.

        Args:
            upper: the upper byte of each number.
        """
        bits, left = 0, upper.translate(None, _BELOW[1])
        while left:
            bits += 1
            left = left.translate(None, _BELOW[1 << bits])
        # bits that the shift brings in from the next lane lie above the 8 bits that are taken
        return (whole(self.numbers) >> bits).to_bytes(2 * len(self.numbers), sys.byteorder)[_LOW::2]


def best(plane: bytes, count: int) -> list[int]:
    """The positions of the `count` largest bytes above 0, and of bytes equal to the last of them; in order.

    Args:
        plane: one byte for each place.
        count: number of wanted bytes.
    """
    low, high = _USUAL, 256
    left = plane.translate(None, _BELOW[low])
    if len(left) < count:
        low, high = 1, low
        left = plane.translate(None, _BELOW[low])
    if len(left) > count:
        while high - low > 1:  # most bytes are small: look from below
            middle = min(2 * low, (low + high) // 2)
            above = left.translate(None, _BELOW[middle])
            if len(above) >= count:
                left, low = above, middle
            else:
                high = middle
    marks = plane.translate(_FROM[low])
    find = marks.find
    found: list[int] = []
    at = find(1)
    while at >= 0:
        found.append(at)
        at = find(1, at + 1)
    return found
