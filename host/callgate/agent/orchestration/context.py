"""The context of a plan: what a tool may know of the plan that calls it (`execution_context()`), and the arguments of a
step that runs alone.

The context is a context variable: it goes with a call into its task, and into the thread of a sync tool. Outside of a
plan it is None.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from callgate.agent.planning.tool_plan import ExecutionContext, ToolResult, ToolStep
from callgate.errors import ConfigurationError
from callgate.plan.faults import Faults, Spot
from callgate.plan.inputs import Inputs, Unresolvable
from callgate.plan.outcomes import Result
from callgate.plan.references import Names
from callgate.plan.templates import Scope, compile_template
from callgate.runtime.gate.cache import depends_on_the_caller
from callgate.tools.encoding import NotJson, compact_json

__all__ = ["Here", "Unresolvable", "execution_context", "is_part_of", "resolved", "running_in"]

_NO_BOUND = 1 << 62  # the results are in memory already


@dataclass(frozen=True, slots=True, eq=False)
class Here:
    """A context that something runs in.

    Attributes:
        context: what tools may know.
        around: the context around this one, where a tool runs a plan of its own.
    """

    context: ExecutionContext
    around: Here | None = None


_current: ContextVar[Here | None] = ContextVar("callgate_execution_context", default=None)


def execution_context() -> ExecutionContext | None:
    """For a tool: the plan that this call is part of, with the results so far; None outside of a plan.

    `previous_results` is live: it grows as steps end. Do not change it. A result of a tool that calls this function is
    not kept for other plans, because it may depend on more than its arguments.
    """
    depends_on_the_caller()
    here = _current.get()
    return None if here is None else here.context


@contextlib.contextmanager
def running_in(context: ExecutionContext) -> Iterator[Here]:
    """Make this the context of every call inside."""
    before = _current.get()
    here = Here(context, before)
    _current.set(here)
    try:
        yield here
    finally:
        _current.set(before)  # `reset` would refuse where a run is cancelled in another context


def is_part_of(here: Here) -> bool:
    """Whether the caller runs inside of this context, also through other plans."""
    inside = _current.get()
    while inside is not None and inside is not here:
        inside = inside.around
    return inside is not None


def resolved(step: ToolStep, results: Mapping[str, ToolResult], *, max_bytes: int) -> dict[str, Any]:
    """The arguments of a step with its references resolved to results that exist already.

    Args:
        step: with parameters in the plan language.
        results: the results that references may name, by step id.
        max_bytes: the most bytes that the arguments may be put together from.

    Raises:
        Unresolvable: a reference names an unknown step or field, or the arguments cannot be put together.
        ConfigurationError: a result is not JSON.
    """
    inputs = Inputs(max_bytes, _NO_BOUND)
    for id, result in results.items():
        try:
            inputs.results.append(Result(compact_json(result.data)))
        except NotJson as error:
            raise ConfigurationError(f"the result of {id!r} in the context is not JSON: {error}") from None
    faults = Faults()
    scope = Scope(Spot(step.id, "", faults), Names(list(results)), None)
    try:
        template = compile_template(dict(step.parameters), scope, ())
        for fault in faults:
            if fault.severity == "error":
                raise Unresolvable(str(fault))
        inputs.begin()
        arguments: dict[str, Any] = template.resolve(inputs)
    except RecursionError:
        raise Unresolvable("a value is nested too deeply") from None
    return arguments
