"""Long work in short steps, so that other tasks can run in between. Knows neither the work nor an event loop.

One call of a parser or a validator holds the interpreter's lock until it returns, in any thread. So work that may take
long is a generator: it yields where other tasks may run, and returns its result. An event loop lets other tasks run at
each yield; a thread runs the generator through, and Python switches threads at each yield.
"""

from __future__ import annotations

import gc
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["LARGE_BYTES", "Work", "at_once", "uncollected"]

T = TypeVar("T")
Work = Generator[None, None, T]
"""Yields where other tasks may run; returns the result."""

LARGE_BYTES = 1 << 18
"""Work on fewer bytes is done at once, in a few milliseconds."""


@contextmanager
def uncollected() -> Iterator[None]:
    """Pause garbage collection for one short step that makes very many lasting objects: collecting takes several times
    as long as making them."""
    on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if on:
            gc.enable()


def at_once(work: Work[T]) -> T:
    """Run the work to its end in one go."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            result: T = done.value
            return result
