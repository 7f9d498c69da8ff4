"""Long work, cut up so that others have their turn meanwhile. Knows neither the work nor an event loop.

One call of a parser or a validator holds the interpreter's lock until it returns, in whatever thread. So work that may
be long is written as a generator: it yields wherever somebody else may go on, and returns its result. Whoever has an
event loop gives others their turn at each yield; a thread runs through, and Python gives others their turn at each.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["LARGE_BYTES", "Work", "at_once", "uncollected"]

T = TypeVar("T")
Work = Generator[None, None, T]
"""Yields where others may have their turn; returns the result."""

LARGE_BYTES = 1 << 18
"""Work on less is done at once: it takes a few milliseconds at most."""


@contextmanager
def uncollected() -> Iterator[None]:
    """For one step that makes very many objects, all of which stay: looking through them for garbage meanwhile
    takes several times as long as making them. For a step that takes a fraction of a second."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def at_once(work: Work[T]) -> T:
    """Run through; nobody else has a turn."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
