"""Marks of a program's output: when and where it printed, for the page of its run. Keeps no text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .result import PrintMark

__all__ = ["PrintMarks", "after"]

_MOST: Final = 1_000


class PrintMarks:
    """The marks of one run, at most 1,000: later output belongs to the last one.

    Args:
        seconds: returns the seconds from the start of the run.
    """

    __slots__ = ("_seconds", "all")

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.all: list[PrintMark] = []
        self._seconds = seconds

    def add(self, offset: int, line: int | None, artifact: str | None = None) -> None:
        """Mark output that comes now; see `PrintMark` for the arguments."""
        if len(self.all) < _MOST:
            self.all.append(PrintMark(self._seconds(), line, offset, artifact))


def after(earlier: list[PrintMark], later: list[PrintMark], printed: int) -> list[PrintMark]:
    """The marks of a program that ran twice: the second run printed again what the first had printed.

    Args:
        earlier: of the first run.
        later: of the second run.
        printed: characters that the first run had printed.
    """
    return [*earlier, *(mark for mark in later if mark.offset >= printed)][:_MOST]
