"""Programs and the plans they become, and both of them run: the calls have to be the same."""

from __future__ import annotations

import ast
import json
from collections import Counter
from typing import Any

from callgate import Runtime, tool
from callgate.limits import Limits
from callgate.plan.compile import CompiledPlan
from callgate.program.graph.flow import Flow
from callgate.program.graph.planning.schedule import schedule
from callgate.program.graph.reading.read import read_flow
from callgate.program.graph.reading.scope import GraphTool
from callgate.program.graph.reasons import Refusal
from plan.plans import plans

LOG: list[str] = []
"""The calls that tools have got, in the order in which they ended."""


def noted(name: str, /, **arguments: Any) -> None:
    LOG.append(json.dumps([name, arguments], sort_keys=True))


@tool(read_only=True)
async def get(city: str, days: int = 1) -> dict[str, Any]:
    """Weather of a city, always the same."""
    noted("get", city=city, days=days)
    near = [city.lower(), city[:2]]
    return {"city": city, "temp": len(city) * days, "near": near, "by_day": {"mon": days, "tue": len(city)}}


@tool(read_only=True)
async def find(query: Any, limit: Any = 3) -> list[str]:
    """Some cities."""
    noted("find", query=query, limit=limit)
    return ["Oslo", "Rome", "Cairo", "Lima"][: limit if isinstance(limit, int) else 1]


@tool
async def save(value: Any, name: str = "") -> str:
    """Leaves something behind."""
    noted("save", value=value, name=name)
    return f"saved {name}"


TOOLS = (get, find, save)
GRAPH_TOOLS = {each.name: GraphTool(each.name, each.name, each.parameters, each.read_only) for each in TOOLS}
DOOR = plans(*TOOLS)


def flow_of(source: str, inputs: dict[str, Any] | None = None) -> Flow:
    """The flow of a program that can be read, however long it is."""
    tree = ast.parse(source)
    flow = read_flow(tree, source, GRAPH_TOOLS, inputs or {})
    assert isinstance(flow, Flow), "\n".join(map(str, flow))
    return flow


def planned(source: str, inputs: dict[str, Any] | None = None) -> dict[str, Any]:
    """The plan of a program; it has no errors."""
    plan, steps = schedule(flow_of(source, inputs), inputs or {})
    assert list(steps.values()) == [step["id"] for step in plan["steps"]]
    if plan["steps"]:
        assert accepted(plan).steps
    return plan


def accepted(plan: dict[str, Any]) -> CompiledPlan:
    """The plan as its engine takes it."""
    reading = DOOR.prepare(Limits()).read(plan)
    assert reading.plan is not None, [str(fault) for fault in reading.faults]
    assert reading.faults == []
    return reading.plan


def steps_of(source: str, inputs: dict[str, Any] | None = None) -> list[dict[str, Any]]:
    """Its steps, without what is in all of them."""
    return [
        {name: value for name, value in step.items() if name not in ("description", "max_items")}
        for step in planned(source, inputs)["steps"]
    ]


def refusal_of(source: str, inputs: dict[str, Any] | None = None) -> str:
    """Why the program has no plan."""
    try:
        plan, _ = schedule(flow_of(source, inputs), inputs or {})
    except Refusal as refused:
        return str(refused)
    raise AssertionError(f"it has a plan: {plan}")


async def calls_of_the_plan(plan: dict[str, Any]) -> Counter[str]:
    """The calls that a plan makes."""
    LOG.clear()
    async with Runtime(TOOLS, sandbox=None) as runtime:
        result = await runtime.execute_tool_plan(plan)
        assert result.ok, result.for_model()
    return Counter(LOG)


async def calls_of_the_program(runtime: Runtime, source: str, inputs: dict[str, Any]) -> Counter[str]:
    """The calls that a program makes in the sandbox."""
    LOG.clear()
    result = await runtime.execute_code(source, inputs=inputs, path="sandbox")
    assert result.ok, result.error
    return Counter(LOG)
