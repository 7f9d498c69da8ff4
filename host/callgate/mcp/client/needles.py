"""Where some values stand in a text: in time that grows with the text, however many values there are.

Knows strings and bytes; not what the values mean.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Generic, TypeVar

__all__ = ["SHORTEST", "Needles", "Text"]

Text = TypeVar("Text", str, bytes)

SHORTEST = 6
"""Characters of the shortest value that is looked for; shorter ones are passed over."""
_FEW = 64
"""So few values are looked for one by one first: most texts have none."""


class Needles(Generic[Text]):
    """Values to look for."""

    def __init__(self, values: Iterable[Text]) -> None:
        self._values: set[Text] = {value for value in values if len(value) >= SHORTEST}
        self._by_beginning: dict[Text, list[Text]] = {}
        self._by_end: dict[Text, list[Text]] = {}
        self._lengths: dict[Text, list[int]] = {}
        for value in self._values:
            self._by_beginning.setdefault(value[:SHORTEST], []).append(value)
            self._by_end.setdefault(value[-SHORTEST:], []).append(value)
        for beginning, values_of_it in self._by_beginning.items():
            self._lengths[beginning] = sorted({len(value) for value in values_of_it}, reverse=True)
        self._longest = max(map(len, self._values), default=0)

    def spans(self, text: Text) -> Iterator[tuple[int, int]]:
        """Where they stand, from left to right: the first, and of those that begin there the longest."""
        if len(self._values) <= _FEW and not any(value in text for value in self._values):
            return
        place, last = 0, len(text) - SHORTEST
        lengths, values = self._lengths, self._values
        while place <= last:
            for length in lengths.get(text[place : place + SHORTEST], ()):
                if text[place : place + length] in values:
                    yield place, place + length
                    place += length
                    break
            else:
                place += 1

    def begun(self, text: Text) -> int:
        """How many characters at the end of the text are the beginning of a value that does not end there."""
        for length in range(min(self._longest - 1, len(text)), SHORTEST - 1, -1):
            start = len(text) - length
            found = self._by_beginning.get(text[start : start + SHORTEST], ())
            if any(value.startswith(text[start:]) for value in found):
                return length
        return 0

    def ended(self, text: Text) -> int:
        """How many characters at the beginning of the text are the end of a value that does not begin there."""
        for length in range(min(self._longest - 1, len(text)), SHORTEST - 1, -1):
            found = self._by_end.get(text[length - SHORTEST : length], ())
            if any(value.endswith(text[:length]) for value in found):
                return length
        return 0
