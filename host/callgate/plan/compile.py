"""From what a model sent to a plan that can run: every step compiled, the graph known, every fault told.

Nothing is called here. What comes out has no fault left that could be seen before anything runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from callgate.limits import Limits

from .faults import MAX_WARNINGS, PlanFault, too_many
from .graph import cycles, waves
from .model import Plan, Step, read_model
from .steps import CompiledStep, Offering, StepCompiler

__all__ = ["CompiledPlan", "CompiledStep", "Offering", "Reading", "read_plan"]

_POSITION = re.compile(r"steps\[[0-9]+\]")
_RESERVED_IDS = {
    "steps": "how steps are named by position",
    "item": "the item of a for_each",
    "index": "the number of an item of a for_each",
}


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
    """What became of reading a plan."""

    plan: CompiledPlan | None
    """None where there are errors."""
    model: Plan | None
    faults: list[PlanFault] = field(default_factory=list)
    """Errors first. After `MAX_ERRORS` of them nobody looks for more; of warnings there are `MAX_WARNINGS` at most."""

    @property
    def errors(self) -> list[PlanFault]:
        """Those that keep the plan from running."""
        return [fault for fault in self.faults if fault.severity == "error"]


def read_plan(given: Any, offering: Offering, limits: Limits) -> Reading:
    """Read, check and compile a plan; whatever is given, the answer is a `Reading`, never an exception.

    A large plan takes seconds: read it in a thread. No step of it holds the interpreter's lock for long.

    Args:
        given: an object, or its JSON as text.
        offering: the tools it may call.
        limits: `max_message_bytes`, `max_tool_calls` and `memory_bytes` bound it.
    """
    model, steps, ids, faults = read_model(
        given,
        max_bytes=limits.max_message_bytes,
        max_steps=limits.max_tool_calls,
        max_memory_bytes=limits.memory_bytes,
    )
    if model is None or not steps or too_many(faults):
        return _reading(None, model, faults)
    compilation = _Compilation(model, offering, faults, limits.memory_bytes)
    compilation.know(ids, steps)
    return _reading(compilation.run(), model, faults)


def _reading(plan: CompiledPlan | None, model: Plan | None, faults: list[PlanFault]) -> Reading:
    errors = [fault for fault in faults if fault.severity == "error"]
    warnings = [fault for fault in faults if fault.severity == "warning"]
    return Reading(None if errors else plan, model, errors + warnings[:MAX_WARNINGS])


class _Compilation:
    def __init__(self, model: Plan, offering: Offering, faults: list[PlanFault], max_memory_bytes: int) -> None:
        self._model = model
        self._faults = faults
        self._steps = StepCompiler(offering, model.missing, faults, max_memory_bytes)

    def know(self, ids: list[str], steps: list[Step | None]) -> None:
        """Take note of all steps by name."""
        for index, (name, step) in enumerate(zip(ids, steps, strict=True)):
            new = self._steps.know(name, step)
            means = _RESERVED_IDS.get(name)
            if _POSITION.fullmatch(name) and name != f"steps[{index}]":
                means = "the step at that position"
            if means is not None:
                self._steps.fault("reserved-id", index, ".id", f"{name!r} means {means}", "rename the step")
            if not new:
                self._duplicate(index, name)
            if too_many(self._faults):
                return

    def run(self) -> CompiledPlan | None:
        """The plan, compiled; None where it has faults."""
        if too_many(self._faults):
            return None
        compiled = []
        for index in range(len(self._steps.ids)):
            compiled.append(self._steps.compile(index))
            if too_many(self._faults):
                return None
        outputs, wave = self._outputs(), self._waves()
        plan = [step for step in compiled if step is not None]
        return CompiledPlan(self._model, tuple(plan), tuple(wave), outputs) if len(plan) == len(compiled) else None

    def _duplicate(self, index: int, name: str) -> None:
        number = next((n for n in range(2, 20) if f"{name}_{n}" not in self._steps.index), index)
        message = f"duplicate step id {name!r}: steps[{self._steps.index[name]}] has it already"
        hint = f"rename this one, for example to {f'{name}_{number}'!r}, and the references that mean it"
        self._steps.fault("duplicate-id", index, ".id", message, hint)

    def _outputs(self) -> tuple[int, ...]:
        found: dict[int, None] = {}
        for number, name in enumerate(self._model.output_steps):
            index = self._steps.index.get(name)
            if index is None:
                fault = self._steps.names.unknown(name)
                at = f"output_steps[{number}]"
                self._faults.append(PlanFault("unknown-step", None, at, fault.message, fault.hint))
                if too_many(self._faults):
                    break
            else:
                found[index] = None
        return tuple(found) or tuple(range(len(self._steps.ids)))

    def _waves(self) -> list[int]:
        wave = waves(self._steps.edges)
        if -1 not in wave:
            return wave
        for cycle in cycles(self._steps.edges, wave):
            named = [self._steps.ids[step] for step in cycle]
            shown = named if len(named) <= 12 else [*named[:6], f"… ({len(named) - 12} more) …", *named[-6:]]
            path = " → ".join([*shown, named[0]])
            if len(named) > 1:
                hint = "each waits for the next: leave one of these references (or 'sequential') out"
            else:
                hint = "a step cannot refer to its own result"
            self._steps.fault("cycle", cycle[0], "", f"cycle in the plan: {path}", hint)
        return wave
