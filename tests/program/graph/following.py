"""A walk with functions in place of tools: each call is answered at once, or when it is waited for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from callgate.plan.expressions import Budget
from callgate.plan.expressions.trees import walked
from callgate.program import Finding, parse_program
from callgate.program.graph.flow import Flow
from callgate.program.graph.reading.read import read_flow
from callgate.program.graph.reading.scope import GraphTool, GraphTools
from callgate.program.graph.reasons import NotAGraph
from callgate.program.graph.walking.walk import (
    Began,
    Done,
    MadeCall,
    Printed,
    ProgramFailed,
    Unsure,
    Wait,
    Worked,
    walk,
)

_TOOLS = {
    "weather": GraphTool("weather", "weather", ("city", "unit"), True),
    "broken": GraphTool("broken", "broken", ("x",), True),
    "save": GraphTool("save", "save", ("value",), False),
    "by_name": GraphTool("by-name", "by_name", ("name",), True),
}
TOOLS = GraphTools(_TOOLS, {}, {tool.tool: name for name, tool in _TOOLS.items()}.get)


def weather(city: str, unit: str = "C") -> dict[str, Any]:
    return {"city": city, "temp": len(city), "unit": unit, "items": [1, 2]}


def broken(x: Any) -> None:
    raise LookupError(f"no {x}")


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "weather": weather,
    "broken": broken,
    "save": lambda value: value,
    "by-name": lambda name: f"<{name}>",
}


@dataclass
class Followed:
    """What a walk came to."""

    logs: str = ""
    calls: list[tuple[str, int, dict[str, Any]]] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)
    done: Done | None = None
    failed: ProgramFailed | None = None
    unsure: Unsure | None = None


def flow_of(source: str, **inputs: Any) -> Flow:
    """The flow of a program that is a graph."""
    flow = read(source, **inputs)
    assert isinstance(flow, Flow), "\n".join(map(str, flow))
    return flow


def read(source: str, **inputs: Any) -> Flow | list[NotAGraph]:
    tree = parse_program(source)
    assert not isinstance(tree, Finding), tree
    return read_flow(walked(tree), source, TOOLS, inputs)


def follow(source: str, *, late: bool = False, budget: Budget | None = None, **inputs: Any) -> Followed:
    """Walk through a program. With `late`, calls are answered when they are waited for, the last one first."""
    seen = Followed()
    open_calls: list[MadeCall] = []
    ended = 0

    def answer(call: MadeCall) -> None:
        nonlocal ended
        ended += 1
        try:
            call.result = json.dumps(FUNCTIONS[call.site.tool](**call.arguments))
        except LookupError as error:
            call.error = {"code": -32000, "message": str(error.args[0]), "data": {"tool": call.site.tool}}
            call.order = ended

    steps = walk(flow_of(source, **inputs), source, inputs, budget or Budget(steps=200_000, bytes=64 << 20))
    try:
        while True:
            step = next(steps)
            if isinstance(step, Worked):
                continue
            seen.steps.append(type(step).__name__)
            if isinstance(step, Printed):
                seen.logs += step.text
            elif isinstance(step, Began):
                seen.calls.append((step.call.site.tool, step.call.number, step.call.arguments))
                if late:
                    open_calls.append(step.call)
                else:
                    answer(step.call)
            else:
                assert isinstance(step, Wait)
                for call in reversed(step.calls):
                    if not call.ended:
                        answer(call)
    except StopIteration as stop:
        seen.done = stop.value
    except ProgramFailed as failed:
        seen.failed = failed
    except Unsure as unsure:
        seen.unsure = unsure
    return seen
