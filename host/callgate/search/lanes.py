"""Adding up the scores of all tools at once: one long integer, 16 bits of it for each tool.

Theory of operation. Ranking adds, for every word of the query, a number to each tool that has the word. Word by word
and tool by tool that takes Python some 100 ns each. Here a word's numbers for *all* tools are one integer, tool 0 in
its lowest 16 bits, and CPython adds such integers at about half a nanosecond a tool. Which tools are best is then found
by the byte: `bytes.translate` counts those above a mark, `bytes.find` says where they are. No loop over all tools is in
Python.

1. A lane holds at most 65,535, and no sum may reach more: a carry would run into the neighbour's lane. `Lanes` does not
   look; whoever adds knows the largest number of each summand.
2. Numbers are whole. `STEP` is the score that 1 stands for.

Knows places and numbers, not what is counted.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable

__all__ = ["MOST", "STEP", "Sums", "best", "packed"]

STEP = 1 / 128
"""The score of 1 in a lane. A tool that fits a query of 20 words scores 20 to 60, and a lane holds 512."""
MOST = 65_535
"""What a lane holds."""

_LOW = 0 if sys.byteorder == "little" else 1  # which byte of a lane is the low one
_BELOW = [bytes(range(mark)) for mark in range(257)]
_FROM = [bytes(value >= mark for value in range(256)) for mark in range(257)]


def packed(places: int, numbers: Iterable[tuple[int, int]]) -> int:
    """Lanes with these numbers; several at one place are added.

    Args:
        places: how many lanes there are.
        numbers: place and number.
    """
    lanes = array("H", bytes(2 * places))
    for place, number in numbers:
        lanes[place] += number
    return int.from_bytes(lanes.tobytes(), sys.byteorder)


class Sums:
    """The sums of all places, to be read.

    Args:
        places: how many lanes there are.
        total: the lanes.
    """

    __slots__ = ("_total", "numbers", "places")

    def __init__(self, places: int, total: int) -> None:
        self.places = places
        self._total = total
        self.numbers = memoryview(total.to_bytes(2 * places, sys.byteorder)).cast("H")
        """By place."""

    def best(self, count: int) -> list[int]:
        """The places with the largest numbers, at most `count` of them, in no particular order.

        Left out is 0, and where there are not that many places, what is less than a 128th of the largest.
        """
        raw = self.numbers.obj
        assert isinstance(raw, bytes)
        upper = raw[1 - _LOW :: 2]
        found = (
            best(upper, count) if len(upper.translate(None, _BELOW[1])) >= count else best(self._shifted(upper), count)
        )
        if len(found) > count:
            found.sort(key=self.numbers.__getitem__, reverse=True)
            del found[count:]
        return found

    def _shifted(self, upper: bytes) -> bytes:
        """The upper 8 bits that are in use, of each number.

        Args:
            upper: the upper byte of each.
        """
        bits, left = 0, upper.translate(None, _BELOW[1])
        while left:
            bits += 1
            left = left.translate(None, _BELOW[1 << bits])
        if bits == 8:
            return upper
        # what the shift brings in from the neighbour lies above the 8 bits that are taken
        return (self._total >> bits).to_bytes(2 * self.places, sys.byteorder)[_LOW::2]


def best(plane: bytes, count: int) -> list[int]:
    """The positions of the `count` largest bytes, 0 left out, and of those that equal the last of them; in order.

    Args:
        plane: one byte for each place.
        count: how many are wanted.
    """
    left = plane.translate(None, _BELOW[1])
    low, high = 1, 256
    if len(left) > count:
        while high - low > 1:
            middle = (low + high) // 2
            above = left.translate(None, _BELOW[middle])
            if len(above) >= count:
                left, low = above, middle
            else:
                high = middle
    marks = plane.translate(_FROM[low])
    found: list[int] = []
    at = marks.find(1)
    while at >= 0:
        found.append(at)
        at = marks.find(1, at + 1)
    return found
