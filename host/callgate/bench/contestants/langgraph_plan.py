"""LangGraph as a plan engine: ``python -m callgate.bench.contestants.langgraph_plan``. It imports langgraph.

LangGraph has no plan language for models; the plan is callgate's. What a person would write: a node for every step, an
edge for every reference, conditional edges for `when`, `Send` for `for_each`, its own retries where a step or a tool
may be repeated. Its nodes are Python, so what a plan computes with `$expr` is evaluated as Python here, and nothing
confines it. The graph is built and compiled when the plan comes, since that is when it is known. What a plan says
beyond that, such as `after` and `fallback`, is not put into LangGraph's words here.

A graph runs in supersteps: what becomes ready waits for the slowest of its step.
"""

from __future__ import annotations

import asyncio
import operator
import os
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from importlib.metadata import version
from typing import Annotated, Any, TypedDict

from callgate.bench.contestants.plans import PLAN_FIELDS, opened, outputs, plan_of, ran, refuse_others
from callgate.bench.contestants.references import BadReference, needed, resolved
from callgate.bench.contestants.seat import CannotDo, Meter, Steered, cannot_or
from callgate.bench.serving import serve
from callgate.bench.workloads import WORKLOADS
from callgate.bench.workloads.workload import Function

os.environ["LANGSMITH_TRACING"] = "false"  # nobody is told
try:
    from langgraph.graph import END, START, StateGraph
    from langgraph.types import RetryPolicy, Send
except ImportError:  # an optional peer: the harness asks first
    sys.exit("langgraph is not installed")

__all__ = ["LangGraph"]

_STEP = frozenset({
    "id", "tool", "arguments", "depends_on", "for_each", "when", "retry", "on_item_error", "max_items", "description",
})  # fmt: skip
_OTHERS = "which the harness does not put into LangGraph's words"
_FALSE: tuple[Any, ...] = (False, None, 0, "", [], {})


class _Record(dict[str, Any]):
    """An object whose fields can be written as attributes, as expressions do; fields go before methods."""

    def __getattribute__(self, name: str) -> Any:
        return self[name] if name in self else super().__getattribute__(name)


class State(TypedDict):
    """What the graph carries.

    Attributes:
        results: by the steps' ids.
        items: step, index and result of each item of a `for_each`.
    """

    results: Annotated[dict[str, Any], operator.or_]
    items: Annotated[list[tuple[str, int, Any]], operator.add]


class OfItem(TypedDict):
    """What is sent to the node of one item."""

    known: dict[str, Any]
    item: Any
    index: int


class LangGraph(Steered):
    """The functions that may be asked for: see `seat.Contestant`."""

    def __init__(self) -> None:
        self._meter = Meter()
        self._tools: dict[str, Function] = {}
        self._retried: frozenset[str] = frozenset()

    async def open(self, workload: str, paced: float = 1.0, scripted: bool = True) -> dict[str, Any]:
        """The tools of the workload; there is nothing else to prepare."""
        self.steer(paced, scripted)
        self._tools = {each.__name__: self._meter.metered(each) for each in WORKLOADS[workload].tools}
        self._retried = WORKLOADS[workload].retries
        note = (
            "plan and texts for the model are callgate's: LangGraph has none; what a plan computes is evaluated as "
            "Python, unconfined, as a node written by hand would be"
        )
        return opened(note)

    @cannot_or
    async def turn(self, calls: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """Build and run the graphs of the plans, at the same time."""
        return await ran(calls, self._run, self._meter, scripted=self.scripted)

    async def version(self) -> dict[str, Any]:
        """Of langgraph."""
        return {"version": version("langgraph")}

    async def _run(self, arguments: Mapping[str, Any]) -> str:
        try:
            plan = plan_of(arguments)
            graph = _Graph(plan, self._tools, self._retried)
            results = await graph.run()
        except CannotDo:
            raise
        except Exception as error:  # the plan's shape; whatever a tool raised ends the graph, too
            return f"The plan failed: {type(error).__name__}: {error}"
        return outputs(results, plan.get("output_steps") or graph.ids)


class _Graph:
    """A plan as a graph."""

    def __init__(self, plan: Mapping[str, Any], tools: Mapping[str, Function], retried: frozenset[str]) -> None:
        refuse_others("plan", plan, PLAN_FIELDS, _OTHERS)
        steps: list[Mapping[str, Any]] = plan["steps"]
        self.ids = [each["id"] for each in steps]
        self._names = {each: f"s{at}" for at, each in enumerate(self.ids)}
        self._last = {each["id"]: self._names[each["id"]] + (" all" if "for_each" in each else "") for each in steps}
        self._tools, self._retried = tools, retried
        self._builder: Any = StateGraph(State)
        for step in steps:
            refuse_others(f"step {step['id']!r}", step, _STEP, _OTHERS)
            self._add(step)
        self._compiled: Any = self._builder.compile()

    async def run(self) -> dict[str, Any]:
        """Results by the steps' ids."""
        config = {"recursion_limit": 5 * len(self.ids) + 5}  # supersteps: four for each of a chain at most
        state = await self._compiled.ainvoke({"results": {}, "items": []}, config)
        results: dict[str, Any] = state["results"]
        return results

    def _add(self, step: Mapping[str, Any]) -> None:
        name, tool = self._names[step["id"]], self._tools[step["tool"]]
        policy = self._policy(step)
        if "for_each" in step:
            self._builder.add_node(
                f"{name} item", self._item_node(step, tool), retry_policy=policy, input_schema=OfItem
            )
            self._builder.add_node(f"{name} all", _gathering(step["id"]))
            self._builder.add_edge(f"{name} item", f"{name} all")
        else:
            self._builder.add_node(name, self._node(step, tool), retry_policy=policy)
        self._join(step, name)

    def _join(self, step: Mapping[str, Any], name: str) -> None:
        before = [self._last[each] for each in needed(step, self._names)] or [START]
        decided = "for_each" in step or "when" in step
        if decided:
            if len(before) > 1:  # conditional edges have one source
                self._builder.add_node(f"{name} ready", lambda state: {})
                self._builder.add_edge(before, f"{name} ready")
                before = [f"{name} ready"]
            ends = [f"{name} item", f"{name} all"] if "for_each" in step else [name]
            self._builder.add_conditional_edges(before[0], self._route(step, name), [*ends, END])
        else:
            self._builder.add_edge(before if len(before) > 1 else before[0], name)

    def _route(self, step: Mapping[str, Any], name: str) -> Callable[[State], Hashable | list[Send]]:
        def route(state: State) -> Hashable | list[Send]:
            results = state["results"]
            if "when" in step and resolved(step["when"], results, self._names, _python_value) in _FALSE:
                return END
            if "for_each" not in step:
                return name
            items = resolved(step["for_each"], results, self._names, _python_value)
            if not isinstance(items, list):
                raise BadReference(f"for_each of {step['id']!r} is no array")
            sent = [
                Send(f"{name} item", OfItem(known=results, item=item, index=index)) for index, item in enumerate(items)
            ]
            return sent or f"{name} all"

        route.__name__ = f"to {name}"  # a source knows its branches by it
        return route

    def _node(self, step: Mapping[str, Any], tool: Function) -> Callable[[State], Any]:
        async def node(state: State) -> dict[str, Any]:
            result = await tool(**resolved(step.get("arguments", {}), state["results"], self._names, _python_value))
            return {"results": {step["id"]: result}}

        return node

    def _item_node(self, step: Mapping[str, Any], tool: Function) -> Callable[[OfItem], Any]:
        async def node(sent: OfItem) -> dict[str, Any]:
            known = sent["known"] | {"item": sent["item"], "index": sent["index"]}
            result = await tool(**resolved(step.get("arguments", {}), known, self._names, _python_value))
            return {"items": [(step["id"], sent["index"], result)]}

        return node

    def _policy(self, step: Mapping[str, Any]) -> RetryPolicy | None:
        said = step.get("retry")
        if step.get("on_item_error", "fail") != "fail":
            raise CannotDo("an item that fails fails the graph, and the plan asks for another on_item_error")
        if isinstance(said, int) and not isinstance(said, bool):
            said = {"attempts": said}
        if isinstance(said, dict):
            return RetryPolicy(
                max_attempts=said.get("attempts", 3), initial_interval=said.get("backoff_seconds", 1.0),
                backoff_factor=said.get("factor", 2.0), max_interval=said.get("max_backoff_seconds", 30.0),
                jitter=False, retry_on=Exception,
            )  # fmt: skip
        return RetryPolicy(retry_on=Exception) if step["tool"] in self._retried and said is not False else None


def _python_value(expression: str, known: Mapping[str, Any]) -> Any:
    """The value of an expression as Python: see the module."""
    names = {name: _records(value) for name, value in known.items() if name in expression}
    return eval(expression.strip(), names)


def _records(value: Any) -> Any:
    if isinstance(value, dict):
        return _Record((key, _records(each)) for key, each in value.items())
    return [_records(each) for each in value] if isinstance(value, list) else value


def _gathering(step: str) -> Callable[[State], dict[str, Any]]:
    def gather(state: State) -> dict[str, Any]:
        results = {index: result for name, index, result in state["items"] if name == step}
        return {"results": {step: [results[index] for index in sorted(results)]}}

    return gather


if __name__ == "__main__":
    asyncio.run(serve(LangGraph()))
