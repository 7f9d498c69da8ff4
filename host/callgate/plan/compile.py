"""Read and compile a whole plan: its steps, its graph and every fault that can be seen before anything runs.

No tool is called here. Waves and cycles are found by loops, never by recursion: a chain of 100,000 steps is fine.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any

from callgate.limits import Limits
from callgate_guest.wire import FINAL_ANSWER

from .faults import Faults, PlanFault, Spot
from .model import Plan, Step, read_model
from .steps import CompiledStep, Offering, StepCompiler

__all__ = ["CompiledPlan", "CompiledStep", "Offering", "Reading", "cycles", "read_plan", "waves"]


@dataclass(frozen=True, slots=True)
class CompiledPlan:
    """A plan without faults."""

    model: Plan
    steps: tuple[CompiledStep, ...]
    waves: tuple[int, ...]
    outputs: tuple[int, ...]
    """Indices of the output steps."""


@dataclass(slots=True)
class Reading:
    """Result of reading a plan."""

    plan: CompiledPlan | None
    """The compiled plan; None if it has errors."""
    model: Plan | None
    faults: list[PlanFault] = field(default_factory=list)
    """Errors first; `MAX_ERRORS` of them end the search. At most `MAX_WARNINGS` warnings."""

    @property
    def errors(self) -> list[PlanFault]:
        """The faults that keep the plan from running."""
        return [fault for fault in self.faults if fault.severity == "error"]


def read_plan(given: Any, offering: Offering, limits: Limits) -> Reading:
    """Read, check and compile a plan. Every input gives a `Reading`, never an exception.

    A large plan takes seconds: read it in a thread. Nothing here holds the interpreter's lock for long.

    Args:
        given: an object, or its JSON as text.
        offering: the tools that the plan may call.
        limits: `max_message_bytes`, `max_tool_calls` and `memory_bytes` bound the plan.
    """
    model, steps, ids, faults = read_model(
        given,
        max_bytes=limits.max_message_bytes,
        max_steps=limits.max_tool_calls,
        max_memory_bytes=limits.memory_bytes,
        answers=FINAL_ANSWER in offering.tools,
    )
    if model is None or not steps or faults.too_many:
        return _reading(None, model, faults)
    return _reading(_compiled(model, ids, steps, StepCompiler(offering, model.missing, faults, limits)), model, faults)


def _reading(plan: CompiledPlan | None, model: Plan | None, faults: Faults) -> Reading:
    return Reading(None if faults.errors else plan, model, sorted(faults, key=lambda fault: fault.severity))


def _compiled(model: Plan, ids: list[str], steps: list[Step | None], compiler: StepCompiler) -> CompiledPlan | None:
    """Compile the plan; None if it has faults."""
    for name, step in zip(ids, steps, strict=True):
        compiler.know(name, step)
        if compiler.faults.too_many:
            return None
    compiled = []
    for index in range(len(ids)):
        compiled.append(compiler.compile(index))
        if compiler.faults.too_many:
            return None
    outputs: dict[int, None] = {}
    for number, name in enumerate(model.output_steps):
        source = compiler.names.ids.get(name)
        if source is not None:
            outputs[source] = None
        elif not compiler.faults.too_many:
            fault = compiler.names.unknown(name)
            Spot(None, f"output_steps[{number}]", compiler.faults).fault(fault.message, fault.hint, code=fault.code)
    wave = waves(compiler.edges)
    for cycle in cycles(compiler.edges) if -1 in wave else ():
        named = [ids[step] for step in cycle]
        shown = named if len(named) <= 12 else [*named[:6], f"… ({len(named) - 12} more) …", *named[-6:]]
        hint = "each waits for the next: leave one of these references (or 'sequential') out"
        if len(named) == 1:
            hint = "a step cannot refer to its own result"
        compiler.spot(cycle[0]).fault(f"cycle in the plan: {' → '.join([*shown, named[0]])}", hint, code="cycle")
    plan = tuple(step for step in compiled if step is not None)
    if len(plan) < len(compiled):
        return None
    return CompiledPlan(
        model, plan, tuple(wave), tuple(outputs) or tuple(range(len(plan) - (model.answer is not None)))
    )


def waves(needs: Sequence[Sequence[int]]) -> list[int]:
    """Return the wave of every step: 0 if it waits for nothing, else one more than the latest step it waits for.

    Args:
        needs: for every step the steps it waits for.

    Returns:
        Steps in a cycle, and those that wait for one, get -1.
    """
    if all(need < step for step, each in enumerate(needs) for need in each):  # the common order, without a cycle
        found: list[int] = []
        for each in needs:
            found.append(max([found[need] for need in each]) + 1 if each else 0)
        return found
    waves, wave = [-1] * len(needs), 0
    sorter = TopologicalSorter(dict(enumerate(needs)))
    with suppress(CycleError):  # steps that no cycle blocks are sorted all the same
        sorter.prepare()
    while ready := sorter.get_ready():
        for step in ready:
            waves[step] = wave
        sorter.done(*ready)
        wave += 1
    return waves


def cycles(needs: Sequence[Sequence[int]], most: int = 10) -> list[list[int]]:
    """Find cycles that have no step in common; each in the order in which its steps wait, the first step first.

    Args:
        needs: as for `waves`.
        most: how many to find.
    """
    graph: dict[int, Sequence[int]] = dict(enumerate(needs))
    found: list[list[int]] = []
    while len(found) < most:
        try:
            TopologicalSorter(graph).prepare()
            break
        except CycleError as error:
            cycle = error.args[1][:0:-1]
        first = cycle.index(min(cycle))
        found.append([*cycle[first:], *cycle[:first]])
        graph |= dict.fromkeys(cycle, ())
    return sorted(found)
