"""What a tool may know of the plan that it runs in: `execution_context()`. Knows no runtime.

A context variable: it goes with a call into its task, and into the thread of a sync tool. A tool that was called
without a plan gets None.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from callgate.agent.planning.tool_plan import ExecutionContext

__all__ = ["Here", "execution_context", "is_part_of", "running_in"]


@dataclass(slots=True, eq=False)
class Here:
    """A context while something runs in it.

    Attributes:
        context: what tools may know.
        around: the one that this one is inside of, where a tool runs a plan.
        was_read: whether one asked: its result may depend on it.
    """

    context: ExecutionContext
    around: Here | None = None
    was_read: bool = False


_current: ContextVar[Here | None] = ContextVar("callgate_execution_context", default=None)


def execution_context() -> ExecutionContext | None:
    """For a tool: the plan that this call is part of, with the results so far; None outside of a plan.

    `previous_results` is live: it grows as steps end. It is not to be changed.
    """
    here = _current.get()
    if here is None:
        return None
    here.was_read = True
    return here.context


@contextlib.contextmanager
def running_in(context: ExecutionContext) -> Iterator[Here]:
    """Whatever is called inside is part of this."""
    before = _current.get()
    here = Here(context, before)
    _current.set(here)
    try:
        yield here
    finally:
        _current.set(before)  # `reset` would refuse where a run is given up in another context


def is_part_of(here: Here | None) -> bool:
    """Whether whoever asks is called inside of this, through other plans too."""
    inside = _current.get()
    while inside is not None and inside is not here:
        inside = inside.around
    return inside is not None
