"""The calls that a program made, written as a plan. Makes no call.

The program is walked once more with the recorded results of its calls. An argument that is a text, list or dict taken
out of such a result, the same object, becomes a reference to that result. Any other argument becomes its value.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from callgate.plan.expressions import Budget
from callgate.plan.expressions.kinds import DICTS
from callgate.program.graph.flow import Augment, CallTool, Change, Flow, Gather, Item, Order, Target
from callgate.program.graph.writing import json_argument

from .ghost import Place
from .steps import Began, MadeCall, ProgramFailed, Step, Unsure, Wait
from .walk import Walk

__all__ = ["MOST_STEPS", "trace"]

MOST_STEPS: Final = 1_000
"""Calls; a program that made more has no plan."""
_OBJECTS: Final = DICTS | {list, str}
_MOST_PLACES: Final = 20_000
"""Values within results that references can point to."""


def trace(flow: Flow, inputs: Mapping[str, Any], budget: Budget, results: Mapping[Place, str]) -> dict[str, Any] | None:
    """The calls of a program as a plan; None if there are more than `MOST_STEPS`.

    Args:
        flow: the program.
        inputs: JSON values, as the program had them.
        budget: a budget like that of the program.
        results: results of its calls as JSON, without failed calls.
    """
    walk = _Tracing(flow, "", inputs, budget)
    try:
        for step in walk.run():
            if isinstance(step, Began):
                call = step.call
                call.result = results.get((call.site.number, call.number))
            elif isinstance(step, Wait):
                break  # a call that it waited for has failed
            if len(walk.steps) > MOST_STEPS:
                return None
    except (ProgramFailed, Unsure):
        pass
    return {"steps": walk.steps} if len(walk.steps) <= MOST_STEPS else None


class _Tracing(Walk):
    def __init__(self, flow: Flow, source: str, inputs: Mapping[str, Any], budget: Budget) -> None:
        super().__init__(flow, source, inputs, budget)
        self.steps: list[dict[str, Any]] = []
        self._ids: dict[MadeCall, str] = {}
        self._places: dict[int, tuple[str, Any]] = {}
        """By identity, the reference to a value within a result, and the value."""
        self._noted: set[str] = set()
        """Calls whose results are recorded. A result that is awaited once more may have been changed meanwhile."""
        self._passed: dict[str, Any] = {}
        """The arguments of the last call, as the program has them."""
        self._order = Order()

    def _given(self, operation: CallTool) -> dict[str, Any]:
        self._passed = super()._given(operation)
        return self._passed

    def _call(self, operation: CallTool) -> Iterator[Step]:
        yield from super()._call(operation)
        call: MadeCall = self._slots[operation.slot]
        site = operation.site
        step_id = self._ids[call] = f"{site.name}_{len(self.steps) + 1}"
        arguments: dict[str, Any] = {}
        needs = set()
        for name, value in call.arguments.items():
            reference, _ = self._places.get(id(self._passed[name]), (None, None))
            if reference is not None:
                needs.add(reference.partition(".")[0].partition("[")[0])
            arguments[name] = json_argument(value) if reference is None else {"$ref": reference}
        step = {
            "id": step_id,
            "tool": site.tool,
            "arguments": arguments,
            "description": f"line {site.line}: {site.text}",
        }
        after = self._order.begin(step_id, early=site.early, needs=needs)
        self.steps.append(step | ({"depends_on": after} if after else {}))

    def _note(self, reference: str, value: Any) -> None:
        """Record a result and its parts, so that arguments which are one of these objects become references."""
        todo = [(reference, value)]
        while todo and len(self._places) < _MOST_PLACES:
            reference, value = todo.pop()
            if type(value) not in _OBJECTS or (type(value) is str and len(value) < 2) or id(value) in self._places:
                continue  # a number, or a single character, is the same object everywhere
            self._places[id(value)] = reference, value
            if type(value) in DICTS:
                todo += [(f"{reference}.{key}", each) for key, each in value.items() if key.isidentifier()]
            elif type(value) is list:
                todo += [(f"{reference}[{index}]", each) for index, each in enumerate(value)]

    # a change in place: a reference would no longer give the present value

    def _bind(self, target: Target, value: Any) -> None:
        super()._bind(target, value)
        if isinstance(target, Item):
            self._places.clear()

    def _augment(self, operation: Augment) -> None:
        super()._augment(operation)
        self._places.clear()

    def _change(self, operation: Change) -> None:
        super()._change(operation)
        self._places.clear()

    def _gather(self, operation: Gather) -> Iterator[Step]:
        yield from super()._gather(operation)
        ids = [self._ids[call] for call in self._held_by(operation)]
        value = self._values[operation.variable]
        for made, result in zip(ids, [value] if operation.alone else value, strict=True):
            if made not in self._noted:
                self._noted.add(made)
                self._note(made, result)
        self._order.end(ids)
