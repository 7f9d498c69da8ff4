"""What a program did, as a plan: its calls in order, as they were made. Makes none.

A program is followed once more with the results that its calls gave. An argument that an earlier call gave, or a part
of what it gave, stands in the plan as a reference to it; every other one as the value that it had.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any, Final

from callgate.plan.expressions import Budget
from callgate.program.graph.flow import (
    Assign,
    Augment,
    CallTool,
    Change,
    Finish,
    Flow,
    Gather,
    Target,
    names_in,
)
from callgate.program.graph.order import Order
from callgate.program.graph.writing import json_argument

from .ghost import Place
from .walk import Walk
from .walked import Began, MadeCall, ProgramFailed, Step, Unsure, Wait

__all__ = ["MOST_STEPS", "trace"]

MOST_STEPS: Final = 1_000
"""Calls; what made more is in no plan."""
_Origin = str | list[str]
"""A path into a step's result; or those of a list's items."""


def trace(flow: Flow, inputs: Mapping[str, Any], budget: Budget, results: Mapping[Place, str]) -> dict[str, Any] | None:
    """The calls of a program as a plan; None where it made more than `MOST_STEPS`.

    Args:
        flow: the program.
        inputs: JSON values, as the program had them.
        budget: as it had it.
        results: what its calls gave, as JSON; without those that failed.
    """
    walk = _Tracing(flow, "", inputs, budget)
    try:
        for step in walk.run():
            if isinstance(step, Began):
                call = step.call
                call.result = results.get((call.site.number, call.number))
            elif isinstance(step, Wait):
                break  # what it waited for has failed
            if len(walk.steps) > MOST_STEPS:
                return None
    except (ProgramFailed, Unsure):
        pass
    return {"steps": walk.steps} if len(walk.steps) <= MOST_STEPS else None


class _Tracing(Walk):
    def __init__(self, flow: Flow, source: str, inputs: Mapping[str, Any], budget: Budget) -> None:
        super().__init__(flow, source, inputs, budget)
        self.steps: list[dict[str, Any]] = []
        self._origins: dict[str, _Origin] = {}
        self._ids: dict[MadeCall, str] = {}
        self._order = Order()

    def _call(self, operation: CallTool) -> Iterator[Step]:
        origins = {name: self._origin(pure.node) for name, pure in operation.arguments}
        yield from super()._call(operation)
        call: MadeCall = self._slots[operation.slot]
        site = operation.site
        id = self._ids[call] = f"{site.name}_{len(self.steps) + 1}"
        arguments: dict[str, Any] = {}
        needs = set()
        for name, value in call.arguments.items():
            origin = origins.get(name)
            if isinstance(origin, str):
                arguments[name] = {"$ref": origin}
                needs.add(origin.partition(".")[0].partition("[")[0])
            else:
                arguments[name] = json_argument(value)
        step = {"id": id, "tool": site.tool, "arguments": arguments, "description": f"line {site.line}: {site.text}"}
        after = self._order.begin(id, early=site.early, needs=needs)
        self.steps.append(step | ({"depends_on": after} if after else {}))

    def _origin(self, node: ast.expr) -> _Origin | None:
        """Where the value of an expression comes from, if it is a part of what a call gave."""
        if isinstance(node, ast.Name):
            return self._origins.get(node.id)
        key: Any = None
        if isinstance(node, ast.Attribute):
            key = node.attr
        elif isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            key = node.slice.value
        origin = self._origin(node.value) if isinstance(node, ast.Attribute | ast.Subscript) else None
        if isinstance(origin, list):
            return origin[key] if type(key) is int and -len(origin) <= key < len(origin) else None
        if origin is None or not (type(key) is int or (type(key) is str and key.isidentifier())):
            return None
        return f"{origin}[{key}]" if type(key) is int else f"{origin}.{key}"

    def _stored(self, target: Target, origin: _Origin | None) -> None:
        if isinstance(target, str):
            if origin is not None:
                self._origins[target] = origin
        elif isinstance(target, tuple):
            for index, each in enumerate(target):
                part = origin[index] if isinstance(origin, list) and index < len(origin) else None
                self._stored(each, f"{origin}[{index}]" if isinstance(origin, str) else part)
        else:
            self._origins.clear()  # something was changed in place

    def _bind(self, target: Target, value: Any) -> None:
        super()._bind(target, value)
        for name in names_in(target):  # a loop's rounds among them
            self._origins.pop(name, None)

    def _assign(self, operation: Assign) -> None:
        origin = self._origin(operation.value.node)
        super()._assign(operation)
        self._stored(operation.target, origin)

    def _augment(self, operation: Augment) -> None:
        self._origins.clear()
        super()._augment(operation)

    def _change(self, operation: Change) -> None:
        self._origins.clear()
        super()._change(operation)

    def _finish(self, operation: Finish) -> Iterator[Step]:
        yield from super()._finish(operation)
        id = self._ids[self._slots[operation.slot]]
        self._origins[operation.variable] = id
        self._order.end([id])

    def _gather(self, operation: Gather) -> Iterator[Step]:
        yield from super()._gather(operation)
        ids = []
        for part in operation.parts:
            held = self._slots[part.slot]
            ids += [self._ids[call] for call in (held if part.spread else [held])]
        self._origins[operation.variable] = list(ids)
        self._order.end(ids)
