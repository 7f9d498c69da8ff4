"""What a tool may know of the plan that it runs in: `execution_context()`. Knows no runtime but the gate's cache.

A context variable: it goes with a call into its task, and into the thread of a sync tool. A tool that was called
outside of a plan gets None.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass

from callgate.agent.planning.tool_plan import ExecutionContext
from callgate.runtime.gate.cache import depends_on_the_caller

__all__ = ["Here", "execution_context", "is_part_of", "running_in"]


@dataclass(frozen=True, slots=True, eq=False)
class Here:
    """A context while something runs in it.

    Attributes:
        context: what tools may know.
        around: the surrounding one, where a tool runs a plan.
    """

    context: ExecutionContext
    around: Here | None = None


_current: ContextVar[Here | None] = ContextVar("callgate_execution_context", default=None)


def execution_context() -> ExecutionContext | None:
    """For a tool: the plan that this call is part of, with the results so far; None outside of a plan.

    `previous_results` is live: it grows as steps end. Do not change it. The result of a tool that asks is not kept for
    other plans, because it may depend on more than its arguments.
    """
    depends_on_the_caller()
    here = _current.get()
    return None if here is None else here.context


@contextlib.contextmanager
def running_in(context: ExecutionContext) -> Iterator[Here]:
    """Whatever is called inside is part of this."""
    before = _current.get()
    here = Here(context, before)
    _current.set(here)
    try:
        yield here
    finally:
        _current.set(before)  # `reset` would refuse where a run is cancelled in another context


def is_part_of(here: Here) -> bool:
    """Whether the caller runs inside of this, through other plans too."""
    inside = _current.get()
    while inside is not None and inside is not here:
        inside = inside.around
    return inside is not None
