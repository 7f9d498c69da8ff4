"""What one message may hold, told from its bytes before it is parsed. Pure.

A few bytes of JSON become a Python object of many: 32 MiB of ``[],[],`` take 3.6 GB and 16 s to parse. So the marks
that make values, commas and opening brackets, are counted first, outside strings. The count is exact up to the first
place where a text is no JSON, and there a parser stops. Linear in the bytes, and done when there are too many.
"""

from __future__ import annotations

from callgate.tools.decoding import outside_strings

__all__ = ["MAX_DEPTH", "MAX_VALUES", "EventLines", "is_too_deep", "marks_in"]

MAX_VALUES = 1_000_000
"""Commas and opening brackets in one message. That many values take up to 0.35 GB while they are read."""
MAX_DEPTH = 200
"""Levels of nesting in one message; pydantic parses no more."""

_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def marks_in(text: bytes, most: int | None = None) -> int:
    """Commas and opening brackets outside strings. Where no more than `most` are there in all, those in strings are
    counted with them; where there are more, counting ends.

    Args:
        text: JSON, or what may be some.
        most: by default `MAX_VALUES`.
    """
    most = MAX_VALUES if most is None else most
    marks = _marks(text)
    if marks <= most:
        return marks
    marks = 0
    for block in outside_strings(text):
        marks += _marks(block)
        if marks > most:
            break
    return marks


def is_too_deep(text: bytes) -> bool:
    """Whether it is nested more than `MAX_DEPTH` levels deep. Takes a step for each bracket."""
    depth = 0
    for block in outside_strings(text):
        for bracket in block.translate(None, _NO_BRACKETS):
            depth += 1 if bracket in b"[{" else -1
            if depth > MAX_DEPTH:
                return True
    return False


def _marks(text: bytes) -> int:
    return text.count(b",") + text.count(b"[") + text.count(b"{")


class EventLines:
    """A stream of events, chunk by chunk: whole lines only, and what one event holds. It ends with an empty line."""

    def __init__(self) -> None:
        self.too_many = False
        """Whether one event has more than `MAX_VALUES`, and must not be passed on."""
        self.held = bytearray()
        """Of the line that is not complete."""
        self._of_event = 0
        self._after_return = False

    def whole(self, chunk: bytes) -> bytes:
        """The lines that this chunk completes, each with a line feed at its end."""
        text = chunk.removeprefix(b"\n") if self._after_return else chunk
        self._after_return = chunk.endswith(b"\r")
        text = text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        end = text.rfind(b"\n") + 1
        if not end:
            self.held += text
            return b""
        lines = bytes(self.held) + text[:end]
        self.held = bytearray(text[end:])
        for line in lines[:-1].split(b"\n"):
            self._of_event = self._of_event + marks_in(line) if line else 0
            self.too_many = self.too_many or self._of_event > MAX_VALUES
        return lines
